"""What a query has lost since its job was started, by what Spark tells about its batches: for people and for metrics.

Three kinds. Messages that were gone before a batch was planned for them, and streams that were deleted or made anew,
are in the positions that a batch ends with (spark/positions.py). Messages of a batch that was planned, and that were
gone when its tasks came to read them, are what lacks among the rows that were read. Only counts; with failOnDataLoss,
the default, the query ends with an error instead."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any

from leveret.spark.positions import Position, count_planned, read_positions

__all__ = ["Losses"]


@dataclass
class Losses:
    # Messages that are gone for certain, by stream; those of batches whose rows were too few stand for all streams.
    by_stream: dict[str, int] = field(default_factory=dict)
    unread: int = 0
    # Streams that were deleted or made anew: how many messages of them were not read nobody knows.
    streams: list[str] = field(default_factory=list)
    # Lines for people that were not shown yet.
    _news: list[str] = field(default_factory=list)

    @property
    def messages(self) -> int:
        return sum(self.by_stream.values()) + self.unread

    def take(self, batch: int, sources: Any, landed_before: Container[int] = ()) -> None:
        """Takes in a batch of Spark's progress. One that had landed before is not read a second time."""
        for source in sources:
            start, end = read_positions(source["startOffset"]) or {}, read_positions(source["endOffset"])
            if end is None:
                continue
            for stream, position in end.items():
                self._take_stream(stream, start.get(stream, Position(0)), position)
            if batch not in landed_before:
                self._take_rows(batch, start, end, int(source["numInputRows"]))

    def _take_stream(self, stream: str, start: Position, end: Position) -> None:
        lost = end.lost - start.lost
        if lost > 0:
            self.by_stream[stream] = self.by_stream.get(stream, 0) + lost
            self._news.append(f"{lost:,} messages of the stream {stream!r} were deleted before they were read")
        if end.vanished > start.vanished:
            self.streams.append(stream)
            what = "was deleted" if end.is_missing else "was deleted and made anew"
            self._news.append(f"the stream {stream!r} {what}: what was not read of it is gone, and not counted")

    def _take_rows(self, batch: int, start: Mapping[str, Position], end: Mapping[str, Position], rows: int) -> None:
        if any(one.planned is None for one in end.values()):
            # Of an older version, or not of streams.
            return
        planned = sum(count_planned(start.get(stream), one) for stream, one in end.items())
        if planned > rows:
            self.unread += planned - rows
            lack = f"{planned - rows:,} of {planned:,} messages of batch {batch}"
            self._news.append(f"{lack} were deleted while it ran, and were not read")

    def news(self) -> list[str]:
        """What was lost since this was asked last, in lines for people."""
        found, self._news = self._news, []
        return [f"LOST: {line}" for line in found]

    def summary(self) -> str | None:
        """All of it in one line; None if nothing was lost."""
        parts = [f"{count:,} of {stream!r}" for stream, count in sorted(self.by_stream.items())]
        if self.unread:
            parts.append(f"{self.unread:,} while batches ran")
        told = []
        if parts:
            told.append(f"{self.messages:,} messages ({', '.join(parts)})")
        if self.streams:
            told.append(f"what was not read of {', '.join(map(repr, self.streams))}, deleted or made anew")
        return f"LOST in this run: {', and '.join(told)}" if told else None
