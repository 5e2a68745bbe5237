"""The texts in which brokers tell of a conflict, as they were seen on the wire."""

from __future__ import annotations

import pytest

from leveret.client.errors import ChannelClosed
from leveret.client.topology.conflict import conflict_from

HEAD = "PRECONDITION_FAILED - inequivalent arg "


@pytest.mark.parametrize(
    ("text", "argument", "declared", "existing"),
    [
        ("'durable' for queue 'q' in vhost '/': received 'false' but current is 'true'", "durable", "false", "true"),
        (
            "'x-expires' for queue 'q' in vhost '/': received the value '5' of type 'signedint' but current is none",
            "x-expires",
            "5",
            None,
        ),
        (
            "'x-max-length' for queue 'q' in vhost '/': received none but current is the value '9' of type 'long'",
            "x-max-length",
            None,
            "9",
        ),
        # Names are free to be confusing.
        ("'type' for exchange 'it's: received' in vhost '/': received 'a' but current is 'b'", "type", "a", "b"),
        (
            "'x-overflow' for queue 'q' in vhost '/': received ''' but current is 'o'clock'",
            "x-overflow",
            "'",
            "o'clock",
        ),
    ],
)
def test_read(text: str, argument: str, declared: str | None, existing: str | None) -> None:
    conflict = conflict_from("queue 'q'", ChannelClosed(406, HEAD + text, "queue.declare"))
    assert conflict is not None
    assert (conflict.argument, conflict.declared, conflict.existing) == (argument, declared, existing)
    assert (conflict.code, conflict.method, conflict.text) == (406, "queue.declare", HEAD + text)


def test_a_text_that_was_cut_off_is_a_conflict_all_the_same() -> None:
    text = HEAD + "'durable' for queue 'qqqqqqqqqq..."
    conflict = conflict_from("queue 'q'", ChannelClosed(406, text))
    assert conflict is not None and conflict.argument is None
    assert str(conflict) == f"queue 'q' exists and is different: {text}"


def test_what_is_no_conflict() -> None:
    assert conflict_from("queue 'q'", ChannelClosed(406, "PRECONDITION_FAILED - queue 'q' in vhost '/' in use")) is None
    assert conflict_from("queue 'q'", ChannelClosed(404, HEAD)) is None
