"""Positions in streams, as checkpoints keep them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from leveret.spark.positions import Position, as_json, count_planned, read_positions


def test_they_come_back_as_they_were() -> None:
    positions = {
        "orders": Position(120, "7-1763400000000", 80, 40),
        "gone": Position(5, "8-1763400000001", 5, 0, 1, True),
        "rabbit": Position(3, None, 3),
    }
    assert read_positions(json.dumps(as_json(positions))) == positions
    assert as_json(positions)["orders"] == {"offset": 120, "planned": 80, "id": "7-1763400000000", "lost": 40}


def test_numbers_alone_are_of_an_older_version() -> None:
    assert read_positions({"orders": 120}) == {"orders": Position(120)}
    assert read_positions({}) == {}


@pytest.mark.parametrize("value", [None, "no JSON", 5, [], {"a": "b"}, {"a": {"next": 5}}, {"a": True}, {"a": None}])
def test_other_offsets_are_not_taken_for_positions(value: Any) -> None:
    assert read_positions(value) is None


def test_an_identity_that_is_not_known_is_like_any() -> None:
    assert Position(1).is_of("7-1")
    assert Position(1, "7-1").is_of(None)
    assert Position(1, "7-1").is_of("7-1")
    assert not Position(1, "7-1").is_of("8-2")


def test_a_batch_has_what_was_planned_for_it() -> None:
    start = Position(10, "7-1", 10)
    # Ten were gone before it was planned.
    begin = Position(20, "7-1", 10, 10)
    end = begin.up_to(50)
    assert (end.offset, end.planned, end.lost) == (50, 40, 10)
    assert end.offset - count_planned(start, end) == 20
    # A stream that is new, and batches of an older version.
    assert count_planned(None, Position(30).up_to(45)) == 15
    assert count_planned(Position(10), Position(20).up_to(25)) == 5
    assert count_planned(Position(10), Position(25)) == 15
    assert count_planned(None, Position(25)) == 25
