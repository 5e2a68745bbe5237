"""Tags that timed out: excused once each, singly or up to a tag, back after a rollback, and not remembered for ever."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from leveret.core.connection.late_tags import LateTags

REMEMBERED = 65_536


def late(tags: Iterable[int]) -> LateTags:
    made = LateTags()
    for tag in tags:
        made.add(tag)
    return made


def test_nothing_is_excused_where_nothing_was_late() -> None:
    tags = LateTags()
    assert not tags.has(1)
    assert tags.excuse(1, False, False) == 0
    assert tags.excuse(2**64 - 1, True, False) == 0


def test_a_tag_is_excused_once() -> None:
    tags = late([2, 5, 9])
    assert tags.has(5)
    assert tags.excuse(5, False, False) == 1
    assert not tags.has(5)
    assert tags.excuse(5, False, False) == 0
    assert list(tags.tags) == [2, 9]


@pytest.mark.parametrize("tag", [0, 1, 3, 10, 2**64 - 1])
def test_other_tags_are_not(tag: int) -> None:
    tags = late([2, 5, 9])
    assert not tags.has(tag)
    assert tags.excuse(tag, False, False) == 0
    assert list(tags.tags) == [2, 5, 9]


@pytest.mark.parametrize(("tag", "count"), [(1, 0), (2, 1), (6, 2), (9, 3), (2**64 - 1, 3)])
def test_many_are_excused_up_to_a_tag(tag: int, count: int) -> None:
    tags = late([2, 5, 9])
    assert tags.excuse(tag, True, False) == count
    assert list(tags.tags) == [2, 5, 9][count:]


def test_tags_may_come_in_any_order() -> None:
    numbers = list(range(1, 500, 3))
    random.Random(3).shuffle(numbers)
    assert list(late(numbers).tags) == sorted(numbers)


def test_a_rollback_brings_back_what_the_transaction_excused() -> None:
    tags = late([2, 5, 9, 12])
    tags.excuse(12, False, False)
    assert tags.excuse(5, True, True) == 2
    assert not tags.has(2)
    tags.rollback()
    assert list(tags.tags) == [2, 5, 9]
    tags.rollback()
    assert list(tags.tags) == [2, 5, 9]


def test_a_commit_forgets_what_the_transaction_excused() -> None:
    tags = late([2, 5])
    tags.excuse(2, False, True)
    tags.commit()
    tags.rollback()
    assert list(tags.tags) == [5]


def test_the_newest_are_remembered_and_the_oldest_forgotten() -> None:
    tags = late(range(1, 2 * REMEMBERED + 1))
    assert REMEMBERED <= len(tags.tags) < REMEMBERED * 1.2
    assert all(tags.has(tag) for tag in (REMEMBERED + 1, 2 * REMEMBERED))
    assert not tags.has(1)


def test_a_transaction_without_end_gathers_no_more_than_that() -> None:
    tags = LateTags()
    for tag in range(1, 2 * REMEMBERED + 1):
        tags.add(tag)
        tags.excuse(tag, False, True)
    tags.rollback()
    assert REMEMBERED <= len(tags.tags) < REMEMBERED * 1.2
    assert tags.has(2 * REMEMBERED)
