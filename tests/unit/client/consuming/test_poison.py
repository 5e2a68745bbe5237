"""How often a message was delivered before, as far as its headers say."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.client.consuming.poison import REMEMBERED_MAX, Returns, delivery_count


def death(queue: str, reason: str, count: Any) -> dict[str, Any]:
    return {"queue": queue, "reason": reason, "count": count}


@pytest.mark.parametrize(
    ("headers", "count"),
    [
        (None, 0),
        ({}, 0),
        ({"x-delivery-count": 3}, 3),
        ({"x-death": [death("q", "rejected", 2), death("q.retry", "expired", 2)]}, 2),
        ({"x-death": [death("q", "rejected", 2), death("q", "delivery_limit", 1)], "x-delivery-count": 4}, 7),
        ({"x-death": [death("another", "rejected", 9)]}, 0),
        ({"x-death": [{"queue": "q", "reason": "rejected"}]}, 1),
        # Anybody may write headers.
        ({"x-delivery-count": "3", "x-death": "often"}, 0),
        ({"x-delivery-count": -3, "x-death": [7, death("q", "rejected", -1), death("q", "rejected", True)]}, 0),
    ],
)
def test_deliveries_before(headers: dict[str, Any] | None, count: int) -> None:
    assert delivery_count(headers, "q") == count


class Received:
    def __init__(self, message_id: str | None) -> None:
        self.message_id = message_id


def test_returns_are_counted_by_id_and_bounded() -> None:
    returns = Returns()
    first: Any = Received("a")
    nameless: Any = Received(None)
    for one in (first, first, nameless):
        returns.add(one)
    assert (returns.count(first), returns.count(nameless)) == (2, 0)
    returns.forget(nameless)
    returns.forget(first)
    assert returns.count(first) == 0
    returns.add(first)
    for number in range(REMEMBERED_MAX):
        other: Any = Received(str(number))
        returns.add(other)
    assert returns.count(first) == 0
    assert returns.count(other) == 1
