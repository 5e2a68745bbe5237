"""Where the choices of a generated script come from: seeded dice, hypothesis, or a fuzzer's octets."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


class Chooser(Protocol):
    def number(self, least: int, most: int) -> int: ...

    def octets(self, most: int) -> bytes: ...

    def pick(self, options: Sequence[T]) -> T: ...


class DiceChooser:
    """The same seed makes the same script, in every process."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)

    def number(self, least: int, most: int) -> int:
        return self._dice.randint(least, most)

    def octets(self, most: int) -> bytes:
        return self._dice.randbytes(self._dice.randint(0, most))

    def pick(self, options: Sequence[T]) -> T:
        return options[self._dice.randrange(len(options))]


class DrawChooser:
    """Hypothesis chooses, and finds the smallest script that still fails."""

    def __init__(self, data: st.DataObject) -> None:
        self._draw = data.conjecture_data.draw

    def number(self, least: int, most: int) -> int:
        return self._draw(st.integers(least, most))

    def octets(self, most: int) -> bytes:
        return self._draw(st.binary(max_size=most))

    def pick(self, options: Sequence[T]) -> T:
        return options[self._draw(st.integers(0, len(options) - 1))]
