"""The options of a consumer: what is refused, and by which name."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.client.consuming.consumer_options import ConsumerOptions, read_consumer_options
from leveret.client.topology import Retry


def test_defaults() -> None:
    first, second = ConsumerOptions(), ConsumerOptions()
    assert first.on_error == "requeue" and not first.is_unbounded
    assert first.tag.startswith("leveret-") and first.tag != second.tag
    assert ConsumerOptions(retry=Retry("q")).on_error == "retry"
    assert ConsumerOptions(retry=Retry("q"), on_error="reject", tag="mine").tag == "mine"
    assert ConsumerOptions(no_ack=True).is_unbounded and ConsumerOptions(prefetch=0).is_unbounded
    assert not ConsumerOptions(prefetch=0, prefetch_size=1).is_unbounded


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"prefetch": -1}, "prefetch is -1"),
        ({"prefetch": 65536}, "prefetch is 65536"),
        ({"prefetch_size": -1}, "prefetch_size is -1"),
        ({"prefetch_size": 2**32}, "prefetch_size is 4294967296"),
        ({"tag": "x" * 256}, "tag has more than 255"),
        ({"on_cancel": "ignore"}, "on_cancel is 'ignore'"),
        ({"on_error": "ignore"}, "on_error is 'ignore'"),
        ({"on_error": "retry"}, "needs a retry"),
        ({"max_deliveries": 0}, "max_deliveries is 0"),
        ({"waiting_max": 0}, "waiting_max is 0"),
        ({"waiting_bytes_max": 0}, "waiting_bytes_max is 0"),
        ({"requeue_pause_s": -1}, "requeue_pause_s is -1"),
        ({"retry_for_s": -1}, "retry_for_s is -1"),
        ({"no_ack": True, "auto_ack": True}, "with no_ack"),
        ({"no_ack": True, "retry": Retry("q")}, "with no_ack"),
        ({"no_ack": True, "max_deliveries": 3}, "with no_ack"),
    ],
)
def test_what_makes_no_sense(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        read_consumer_options(options)


def test_unknown_options_are_named() -> None:
    with pytest.raises(TypeError, match="no option autoack, speed"):
        read_consumer_options({"speed": 1, "autoack": True, "prefetch": 1})
