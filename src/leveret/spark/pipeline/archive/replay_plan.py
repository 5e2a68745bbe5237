"""Which messages a replay sends, in which order and in which slices: fixed when it begins, and kept with its progress.

    <lake>/checkpoints/replay/<replay_id>/plan.json   what was asked for, and the slices
    <lake>/checkpoints/replay/<replay_id>/done.json   how many of them are through

Never publishes anything."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from leveret.spark.pipeline.lake import Lake
from leveret.spark.pipeline.lake_files import LakeFiles

__all__ = ["Piece", "Plan", "PlanFiles", "ReplayRefused", "Request", "Slice", "make_plan", "select"]

ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class ReplayRefused(ValueError):
    """A replay that cannot be done as it was asked for. Nothing was published."""


@dataclass(frozen=True)
class Request:
    """What was asked for. `start` and `end` are ISO 8601 moments."""

    where: str | None
    start: str | None
    end: str | None
    exchange: str | None
    routing_key: str | None


@dataclass(frozen=True)
class Piece:
    """Messages of one partition: those that are wanted from the one offset to the other, both with them."""

    stream: str
    partition: int
    first: int
    last: int
    first_day: str
    last_day: str
    rows: int

    def condition(self) -> Column:
        """Days and streams are folders: what is not in them is not even opened."""
        return (
            (f.col("stream") == self.stream)
            & f.col("date").between(f.lit(self.first_day).cast("date"), f.lit(self.last_day).cast("date"))
            & (f.col("partition") == self.partition)
            & f.col("offset").between(self.first, self.last)
        )


@dataclass(frozen=True)
class Slice:
    pieces: tuple[Piece, ...]

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.pieces)

    def of(self, messages: DataFrame) -> DataFrame:
        return messages.where(reduce(lambda one, other: one | other, (piece.condition() for piece in self.pieces)))


@dataclass(frozen=True)
class Plan:
    request: Request
    slices: tuple[Slice, ...]

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.slices)


def iso(moment: str | datetime | None) -> str | None:
    """A moment as it is kept; without a zone it is UTC."""
    if moment is None:
        return None
    try:
        found = moment if isinstance(moment, datetime) else datetime.fromisoformat(moment.strip())
    except ValueError:
        raise ReplayRefused(f"{moment!r} is no moment: write it as 2026-05-06 or 2026-05-06T12:00:00Z") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC).isoformat()


def select(archive: DataFrame, request: Request) -> DataFrame:
    """The archived messages that are wanted. Where the broker told no moment, the publisher's own counts."""
    moment = f.coalesce("timestamp", "message_timestamp")
    if request.start is not None:
        archive = archive.where(moment >= f.lit(request.start).cast("timestamp"))
    if request.end is not None:
        archive = archive.where(moment < f.lit(request.end).cast("timestamp"))
    return archive if request.where is None else archive.where(request.where)


def make_plan(wanted: DataFrame, request: Request, slice_rows: int) -> Plan:
    """Slices of about so many messages, the oldest first; the messages of a partition always in their order."""
    stretch = f.floor(f.col("offset") / slice_rows)
    found = wanted.groupBy("stream", "partition", stretch.alias("stretch")).agg(
        f.min("offset").alias("first"),
        f.max("offset").alias("last"),
        f.min("date").cast("string").alias("first_day"),
        f.max("date").cast("string").alias("last_day"),
        f.count("*").alias("rows"),
        f.count_distinct("offset").alias("offsets"),
        f.unix_micros(f.min(f.coalesce("timestamp", "message_timestamp"))).alias("moment"),
    )
    rows = found.orderBy("stream", "partition", "first").collect()
    twice = [row for row in rows if row.rows != row.offsets]
    if twice:
        raise ReplayRefused(
            f"the archive has offsets of the stream {twice[0].stream!r} twice, near {twice[0].first}: it was deleted "
            "and made anew, or archived twice. By offsets they could not be told apart; narrow it by time, so that "
            "each is there once"
        )
    # The moment of the latest before it: clocks go backwards, offsets do not.
    latest: dict[tuple[str, int], int] = {}
    pieces = []
    for row in rows:
        key = (row.stream, row.partition)
        latest[key] = max(latest.get(key, 0), row.moment or 0)
        names = ("stream", "partition", "first", "last", "first_day", "last_day", "rows")
        pieces.append((latest[key], Piece(**{name: row[name] for name in names})))
    pieces.sort(key=lambda one: (one[0], one[1].stream, one[1].partition, one[1].first))
    return Plan(request, tuple(_packed([piece for _, piece in pieces], slice_rows)))


def _packed(pieces: list[Piece], slice_rows: int) -> Iterator[Slice]:
    waiting: list[Piece] = []
    for piece in pieces:
        if waiting and sum(one.rows for one in waiting) + piece.rows > slice_rows:
            yield Slice(tuple(waiting))
            waiting = []
        waiting.append(piece)
    if waiting:
        yield Slice(tuple(waiting))


class PlanFiles:
    """Where a replay keeps its plan and how far it is."""

    def __init__(self, files: LakeFiles, lake: Lake, replay_id: str) -> None:
        if not ID.fullmatch(replay_id):
            raise ReplayRefused(f"the replay_id is {replay_id!r}; it must be 1 to 64 letters, digits, dots, _ and -")
        self._files = files
        self._lake = lake
        self._folder = lake.checkpoint(f"replay/{replay_id}")

    def read(self) -> Plan | None:
        if not self._files.exists(f"{self._folder}/plan.json"):
            return None
        data = json.loads(self._files.read(f"{self._folder}/plan.json"))
        slices = (Slice(tuple(Piece(**one) for one in pieces)) for pieces in data["slices"])
        return Plan(Request(**data["request"]), tuple(slices))

    def write(self, plan: Plan) -> None:
        slices = [[asdict(piece) for piece in one.pieces] for one in plan.slices]
        text = json.dumps({"request": asdict(plan.request), "slices": slices})
        if not self._files.write_new(self._lake, f"{self._folder}/plan.json", text):
            raise ReplayRefused(f"another replay with this id has just begun: {self._folder}/plan.json")

    def done(self) -> int:
        """How many slices are published."""
        path = f"{self._folder}/done.json"
        return int(json.loads(self._files.read(path))["slices"]) if self._files.exists(path) else 0

    def set_done(self, slices: int, rows: int) -> None:
        self._files.write_over(f"{self._folder}/done.json", json.dumps({"slices": slices, "rows": rows}))
