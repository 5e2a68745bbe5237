"""How the numbers of one object went lately: a ring of samples for each number that changed, at several distances.

Slots are found by time: sample number t stands at t modulo the ring's length, and what was not written is what was
there before, so an object at rest costs nothing. Knows no clock and no object: told which sample it is, and the
values."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Of counters only so many bits are kept: what is above them is known from the value now.
KEPT_BITS = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Level:
    """Samples every `step` passes, `slots` of them."""

    step: int
    slots: int


def levels(interval_s: float, spans: Sequence[tuple[float, float]]) -> tuple[Level, ...]:
    """From RabbitMQ's way to say it: how long samples are kept, and how far apart they are."""
    made = []
    for kept_s, apart_s in spans:
        step = max(1, round(apart_s / interval_s))
        made.append(Level(step, max(2, int(kept_s // (step * interval_s)) + 1)))
    return tuple(made)


@dataclass(frozen=True)
class Shape:
    """What is kept of one kind of object. `sums` are numbers that others add up to; `wide` is for what may grow by more
    than 32 bits can hold while it is kept."""

    counters: tuple[str, ...]
    gauges: tuple[str, ...]
    levels: tuple[Level, ...]
    sums: Mapping[str, tuple[str, ...]]
    wide: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """In the order of an object's values."""
        return self.counters + self.gauges

    def parts(self, name: str) -> tuple[str, ...]:
        return self.sums.get(name, (name,))


class Series:
    """One object's samples. Made when a value has changed for the first time since `before`."""

    __slots__ = ("_columns", "_shape", "changed_at", "tick", "values")

    def __init__(self, shape: Shape, tick: int, before: tuple[int, ...]) -> None:
        self._shape = shape
        # The last sample that was written, its values, and the last that was any different.
        self.tick = tick
        self.values = before
        self.changed_at = tick
        # For each value one ring a level; None while it never changed.
        self._columns: list[tuple[array[int], ...] | None] = [None] * len(before)

    def write(self, tick: int, values: tuple[int, ...]) -> None:
        """Sample number `tick`; those between it and the last one were as that was."""
        if tick <= self.tick:
            return
        last = self.values
        for at, value in enumerate(values):
            column = self._columns[at]
            if column is None:
                if value == last[at]:
                    continue
                column = self._columns[at] = self._column(last[at])
            self._write_column(column, tick, last[at], value)
        if values != last:
            self.changed_at = tick
        self.tick = tick
        self.values = values

    def _column(self, before: int) -> tuple[array[int], ...]:
        wide = self._shape.wide
        fill = before if wide else before & KEPT_BITS
        return tuple(array("Q" if wide else "I", [fill]) * level.slots for level in self._shape.levels)

    def _write_column(self, column: tuple[array[int], ...], tick: int, before: int, value: int) -> None:
        wide = self._shape.wide
        before, value = (before, value) if wide else (before & KEPT_BITS, value & KEPT_BITS)
        for level, ring in zip(self._shape.levels, column, strict=True):
            number, last = tick // level.step, self.tick // level.step
            # A sample of a level is the one at its beginning: what comes later belongs to the next.
            exact = tick % level.step == 0
            for missed in range(max(last + 1, number - level.slots + 1), number + (0 if exact else 1)):
                ring[missed % level.slots] = before
            if exact:
                ring[number % level.slots] = value

    def value(self, name: str, level: int, number: int) -> int:
        """The value of sample `number` of this level; it must be among those that are kept."""
        return sum(self._value(self._shape.names.index(part), level, number) for part in self._shape.parts(name))

    def _value(self, at: int, level: int, number: int) -> int:
        column = self._columns[at]
        step, slots = self._shape.levels[level].step, self._shape.levels[level].slots
        if column is None or number * step >= self.tick:
            return self.values[at]
        # What was written last may be further on than what is asked for: then the ring has forgotten its beginning.
        oldest = self.tick // step - slots + 1
        found = column[level][max(number, oldest) % slots]
        if self._shape.wide or at >= len(self._shape.counters):
            return found
        value = (self.values[at] & ~KEPT_BITS) | found
        return value if value <= self.values[at] else value - KEPT_BITS - 1

    def is_over(self, tick: int) -> bool:
        """Whether nothing has changed for as long as anything is kept."""
        return tick - self.changed_at > max(level.step * level.slots for level in self._shape.levels)
