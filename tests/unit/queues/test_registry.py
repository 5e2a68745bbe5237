"""Queue types by name, and which one a declaration asks for."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.errors import SoftError
from leveret.queues.classic import Classic
from leveret.queues.registry import kind_from_arguments, queue_type

WHAT = "queue 'q' in vhost '/'"


def test_a_queue_is_classic_unless_it_asks_for_another_type() -> None:
    assert kind_from_arguments({}, WHAT) == "classic"
    assert kind_from_arguments({"x-queue-type": "classic"}, WHAT) == "classic"
    assert isinstance(queue_type("classic"), Classic)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("nonsense", "\"unsupported queue type 'nonsense'\""),
        ("", "\"unsupported queue type ''\""),
        (5, "{unacceptable_type,signedint}"),
        (None, "{unacceptable_type,void}"),
    ],
)
def test_a_type_there_is_not_is_refused(kind: Any, reason: str) -> None:
    with pytest.raises(SoftError) as refusal:
        kind_from_arguments({"x-queue-type": kind}, WHAT)
    assert (refusal.value.code, refusal.value.text) == (406, f"invalid arg 'x-queue-type' for {WHAT}: {reason}")


def test_a_type_nobody_made_is_our_mistake() -> None:
    with pytest.raises(KeyError):
        queue_type("nonsense")
