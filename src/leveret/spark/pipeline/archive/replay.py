"""Messages of the archive back to the broker: a time range or an SQL filter, to an exchange, so many a second.

Exactly once into streams: every message has ids that come from where it was archived, so a replay that is run again
with the same replay_id, after a kill or just so, publishes nothing twice. Queues know a message by its message_id if
they have deduplication; without it, the slice in which a replay was killed comes to them again.

What is sent is what was archived, with two exceptions: user_id is left out, because a broker takes it from that user
alone, and a message without a message_id gets one."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from leveret.spark.pipeline.archive.archiving import read_archive
from leveret.spark.pipeline.archive.replay_plan import Plan, PlanFiles, ReplayRefused, Request, iso, make_plan, select
from leveret.spark.pipeline.lake import Lake
from leveret.spark.pipeline.lake_files import LakeFiles
from leveret.spark.row_messages import TEXTS

__all__ = ["ReplayProgress", "ReplayRefused", "ReplayResult", "replay"]

# A slice is what goes out in so many seconds, but not less than the one and not more than the other: each costs a job
# of Spark's, and progress is written down after each.
SLICE_S = 2.0
SLICE_MIN, SLICE_MAX = 100, 50_000
# Of a name that a broker takes.
NAME_OCTETS = 255
KEPT = ("body", "exchange", "routing_key", "headers_json", "delivery_mode", "priority", "message_timestamp")


@dataclass(frozen=True)
class ReplayProgress:
    replay_id: str
    # Messages: all that are wanted, and those that are out, in earlier runs too.
    selected: int
    published: int
    # Of this run, messages a second.
    rate: float


@dataclass(frozen=True)
class ReplayResult:
    replay_id: str
    selected: int
    # In this run, and in all runs together.
    published: int
    published_before: int
    seconds: float
    # False if it was stopped: the same call goes on with what is left.
    finished: bool


def replay(
    spark: SparkSession,
    lake: Lake,
    *,
    where: str | None = None,
    start: str | datetime | None = None,
    end: str | datetime | None = None,
    exchange: str | None = None,
    routing_key: str | None = None,
    rate: float | None = None,
    replay_id: str | None = None,
    sink: Mapping[str, str],
    on_progress: Callable[[ReplayProgress], None] | None = None,
    stop: threading.Event | None = None,
) -> ReplayResult:
    """Publishes archived messages from `start` up to, and not with, `end`, for which the SQL condition `where` is true.

    `exchange` and `routing_key` are where to; None is where each message went at first. `rate` is messages a second.
    `sink` has the connector's options, such as url. `replay_id` names the replay: the same id goes on where it was
    stopped, and does nothing if it is through. Which messages are sent is fixed when it begins; `where` must not speak
    of now()."""
    if rate is not None and rate <= 0:
        raise ReplayRefused(f"the rate is {rate}; it must be above 0, or None for as fast as it goes")
    if where is None and start is None and end is None:
        raise ReplayRefused("a replay of everything? Say it with where='true', or give start, end or where")
    replay_id = replay_id or f"{datetime.now():%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:6]}"
    request = Request(where, iso(start), iso(end), exchange, routing_key)
    lake_files = LakeFiles(spark)
    lake_files.check_writers(lake)
    files = PlanFiles(lake_files, lake, replay_id)
    wanted = select(read_archive(spark, lake), request)
    plan = _begun(files, wanted, request, rate)
    done = files.done()
    run = _Run(replay_id, plan, done, rate, on_progress or (lambda progress: None), stop or threading.Event())
    for number, part in enumerate(plan.slices[done:], done + 1):
        if run.stop.is_set():
            break
        began = time.monotonic()
        _publish(part.of(wanted), replay_id, request, sink, {(one.stream, one.partition) for one in part.pieces})
        files.set_done(number, run.before + run.published + part.rows)
        run.took(part.rows, began)
    return run.result()


def _begun(files: PlanFiles, wanted: DataFrame, request: Request, rate: float | None) -> Plan:
    plan = files.read()
    if plan is None:
        slice_rows = SLICE_MAX if rate is None else int(min(max(rate * SLICE_S, SLICE_MIN), SLICE_MAX))
        plan = make_plan(wanted, request, slice_rows)
        files.write(plan)
    for name, value in vars(request).items():
        before = getattr(plan.request, name)
        if before != value:
            raise ReplayRefused(
                f"the replay of this id began with {name} {before!r} and is now asked for {value!r}; go on with the "
                "same, or take another replay_id"
            )
    return plan


class _Run:
    """One run of a replay: counts, and holds back what would be too fast."""

    def __init__(
        self,
        replay_id: str,
        plan: Plan,
        done: int,
        rate: float | None,
        on_progress: Callable[[ReplayProgress], None],
        stop: threading.Event,
    ) -> None:
        self.stop = stop
        self.published = 0
        self.before = sum(one.rows for one in plan.slices[:done])
        self._replay_id = replay_id
        self._plan = plan
        self._rate = rate
        self._on_progress = on_progress
        self._began = time.monotonic()
        self._tell()

    def took(self, rows: int, began: float) -> None:
        self.published += rows
        self._tell()
        if self._rate is not None and self.before + self.published < self._plan.rows:
            # From the slice's own beginning: one that was slow is not made up for by a faster one.
            self.stop.wait(max(0.0, began + rows / self._rate - time.monotonic()))

    def _tell(self) -> None:
        seconds = max(time.monotonic() - self._began, 1e-9)
        published = self.before + self.published
        self._on_progress(ReplayProgress(self._replay_id, self._plan.rows, published, self.published / seconds))

    def result(self) -> ReplayResult:
        finished = self.before + self.published == self._plan.rows
        seconds = time.monotonic() - self._began
        return ReplayResult(self._replay_id, self._plan.rows, self.published, self.before, seconds, finished)


def _publish(
    part: DataFrame, replay_id: str, request: Request, sink: Mapping[str, str], partitions: set[tuple[str, int]]
) -> None:
    texts = [name for name in TEXTS if name != "user_id"]
    message_id = f.concat_ws("/", f.lit(replay_id), f.sha1("stream"), "partition", "offset")
    rows = part.select(
        "stream",
        "partition",
        "offset",
        *(name for name in (*KEPT, *texts) if name not in ("exchange", "routing_key")),
        (f.col("exchange") if request.exchange is None else f.lit(request.exchange)).alias("exchange"),
        (f.col("routing_key") if request.routing_key is None else f.lit(request.routing_key)).alias("routing_key"),
        f.coalesce("message_id", message_id).alias("message_id"),
        _producer(replay_id).alias("producer_name"),
        f.col("offset").alias("publishing_id"),
    )
    # A producer counts upwards: all of a partition goes through one task, in its order.
    tasks = min(len(partitions), max(1, part.sparkSession.sparkContext.defaultParallelism))
    ordered = rows.repartition(tasks, "stream", "partition").sortWithinPartitions("stream", "partition", "offset")
    ordered.write.format("leveret").options(**sink).mode("append").save()


def _producer(replay_id: str) -> Column:
    """The same for the same messages, whoever replays them under this id. A very long name of a stream is hashed."""
    whole = f.concat_ws("/", f.lit("replay"), f.lit(replay_id), "stream", "partition")
    short = f.concat_ws("/", f.lit("replay"), f.lit(replay_id), f.sha2("stream", 256), "partition")
    return f.when(f.octet_length(whole) <= NAME_OCTETS, whole).otherwise(short)
