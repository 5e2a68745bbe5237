"""Ranges of offsets: how much a batch takes of each stream, and how ranges are cut into tasks. Only arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql.datasource import InputPartition

__all__ = ["Range", "cut", "limited"]


@dataclass
class Range(InputPartition):
    """The messages of a stream from `start` up to, and not with, `end`."""

    stream: str
    partition: int
    start: int
    end: int
    # The stream's identity, if the broker tells it: another one of the same name is not read.
    identity: str | None = None

    def __len__(self) -> int:
        return self.end - self.start


def limited(start: Mapping[str, int], end: Mapping[str, int], most: int) -> dict[str, int]:
    """Where to end so that at most so many messages lie between, each stream having its share by what waits in it.
    Every stream with messages goes forward as long as there is something to give."""
    waiting = {stream: max(0, end[stream] - start[stream]) for stream in end}
    total = sum(waiting.values())
    if total <= most:
        return {stream: max(end[stream], start[stream]) for stream in end}
    shares = {stream: count * most // total for stream, count in waiting.items()}
    left = most - sum(shares.values())
    # What rounding left over goes to those with the most waiting, the order being the same in every process.
    for stream in sorted(waiting, key=lambda name: (-waiting[name], name)):
        if left == 0:
            break
        if shares[stream] < waiting[stream]:
            shares[stream] += 1
            left -= 1
    return {stream: start[stream] + share for stream, share in shares.items()}


def cut(ranges: list[Range], most: int, at_least: int | None) -> list[Range]:
    """The same messages in ranges of at most so many, and, if there are enough messages, in at least so many ranges."""
    total = sum(len(one) for one in ranges)
    if at_least is not None and total > 0:
        most = min(most, max(1, -(-total // at_least)))
    made = []
    for one in ranges:
        parts = -(-len(one) // most)
        for part in range(parts):
            # Parts of about the same length.
            start = one.start + len(one) * part // parts
            end = one.start + len(one) * (part + 1) // parts
            made.append(replace(one, start=start, end=end))
    if at_least is not None:
        # Rounding may have left too few: the longest are halved.
        while len(made) < at_least and (longest := max(made, key=len, default=None)) is not None and len(longest) > 1:
            place = made.index(longest)
            middle = longest.start + len(longest) // 2
            halves = [(longest.start, middle), (middle, longest.end)]
            made[place : place + 1] = [replace(longest, start=start, end=end) for start, end in halves]
    return made
