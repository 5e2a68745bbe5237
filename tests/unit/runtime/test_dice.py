"""Randomness: names that identify for good, salts, and picks within bounds."""

from __future__ import annotations

import re

from leveret.runtime.dice import Dice


def test_a_name_is_22_characters_that_need_no_quoting() -> None:
    names = {Dice().name() for _ in range(1000)}
    assert len(names) == 1000
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{22}", name) for name in names)


def test_a_salt_is_as_long_as_asked_and_never_the_same() -> None:
    assert [len(Dice().salt(count)) for count in (0, 1, 16, 32)] == [0, 1, 16, 32]
    assert Dice().salt(16) != Dice().salt(16)


def test_a_pick_is_below_the_count_and_reaches_all_of_it() -> None:
    assert {Dice().pick(3) for _ in range(200)} == {0, 1, 2}
    assert Dice().pick(1) == 0
