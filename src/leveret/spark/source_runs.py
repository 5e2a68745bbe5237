"""Rows that come from streams, as runs of offsets without a gap, and under which name each stretch of a run goes.

A name stands for all offsets from its first one to its last id. That holds whatever tasks there are: a task adds to a
name only what follows its last id, and only in order. Only arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["Interval", "Run", "SourceRuns", "find_overlap"]


class Interval(NamedTuple):
    """Offsets from `start` to `last`, with both."""

    start: int
    last: int


@dataclass(frozen=True)
class Run:
    stream: str
    start: int
    last: int
    # Which run of its stream it is, in this task: one that goes on in the next table stays the same.
    number: int

    def __len__(self) -> int:
        return self.last - self.start + 1


class SourceRuns:
    """Those of one task."""

    def __init__(self, runs_max: int) -> None:
        self._left = runs_max
        # The last run of each stream.
        self._latest: dict[str, Run] = {}
        # The first offset of the name that a run goes on under, by target and stream, with the run's number.
        self._current: dict[tuple[str | None, str], tuple[int, int]] = {}
        # What was named by offsets, by target (None if it is not known) and stream.
        self.taken: dict[tuple[str | None, str], list[Interval]] = {}

    def cut(self, streams: pa.Array, offsets: pa.Array) -> list[Run] | None:
        """The runs of a table, in its order. None if the offsets of a stream do not grow from row to row of the task,
        or if there are too many runs: then nothing is noted."""
        count = len(offsets)
        before = offsets.slice(0, count - 1)
        breaks = pc.or_(
            pc.not_equal(pc.subtract(offsets.slice(1), before), 1),
            pc.not_equal(streams.slice(1), streams.slice(0, count - 1)),
        )
        starts = [0, *(place + 1 for place in pc.indices_nonzero(breaks).to_pylist()), count]
        if len(starts) - 1 > self._left:
            return None
        runs: list[Run] = []
        latest = dict(self._latest)
        for place, end in pairwise(starts):
            stream, first = streams[place].as_py(), offsets[place].as_py()
            last = latest.get(stream)
            if first < 0 or (last is not None and first <= last.last):
                return None
            number = 0 if last is None else last.number + (first != last.last + 1)
            latest[stream] = Run(stream, first, first + end - place - 1, number)
            runs.append(latest[stream])
        self._left -= len(runs)
        self._latest = latest
        return runs

    def names(self, run: Run, target: str | None, known: Sequence[Interval]) -> Iterator[tuple[int, int, int]]:
        """Stretches of a run with the first offset of the name that each goes under: (first, last, name's first).
        `known` is what the target has."""
        known = [one for one in known if one.start <= run.last and one.last >= run.start - 1]
        number, start = self._current.get((target, run.stream), (-1, -1))
        if number != run.number:
            # A new run. It goes on under a name that ends right before it.
            start = max((one.start for one in known if one.last == run.start - 1), default=run.start)
        at = run.start
        while at <= run.last:
            cover = max((one for one in known if one.start <= at <= one.last), key=lambda one: one.last, default=None)
            if cover is not None:
                start, end = cover.start, min(run.last, cover.last)
            else:
                end = min((one.start - 1 for one in known if at < one.start <= run.last), default=run.last)
            yield at, end, start
            at = end + 1
        self._current[target, run.stream] = (run.number, start)

    def note(self, runs: Sequence[Run], targets: Sequence[str | None]) -> None:
        for target in targets:
            for run in runs:
                taken = self.taken.setdefault((target, run.stream), [])
                if taken and taken[-1].last == run.start - 1:
                    taken[-1] = Interval(taken[-1].start, run.last)
                else:
                    taken.append(Interval(run.start, run.last))


def find_overlap(tasks: Sequence[dict[tuple[str | None, str], list[Interval]]]) -> tuple[str, int] | None:
    """A message that rows of several tasks come from, as (stream, offset): by that they cannot be told apart. Rows with
    different targets may; a target that is not known may be any."""
    by_stream: dict[str, list[tuple[int, int, str | None, int]]] = {}
    for task, taken in enumerate(tasks):
        for (target, stream), intervals in taken.items():
            by_stream.setdefault(stream, []).extend((one.start, one.last, target, task) for one in intervals)
    for stream, all_taken in by_stream.items():
        # The furthest that anything has come so far, for each target: (last, task).
        furthest: dict[str | None, tuple[int, int]] = {}
        for start, last, target, task in sorted(all_taken, key=lambda one: one[:2]):
            for other, (reached, whose) in furthest.items():
                if whose != task and start <= reached and (other == target or other is None or target is None):
                    return stream, start
            if last > furthest.get(target, (-1, -1))[0]:
                furthest[target] = (last, task)
    return None
