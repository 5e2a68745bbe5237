"""Sending chosen letters back through the sink: out of the lake, to where they were published before they died.

**Once.** `silver/deadletter_replays` has every letter that was sent, written after the broker has confirmed all of a
run; what stands there is not sent again, by whatever filter it is chosen. A run that was killed before that is run
again in full, with the same ids: a stream drops what it has by producer name and publishing id (the letter's offset),
a queue or exchange with `x-message-deduplication` by the header `x-deduplication-header`. A queue without it may get
letters of a killed run twice. Letters that no queue takes are set aside, with the reason, and may be sent another
time.

As in the broker's own reprocessing, a letter goes back without any word of death and without `x-retry-count`, with
`x-replay-count` one higher and with `x-first-death-time`. The letters in the stream stay what they are: history."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType

from leveret.spark.errors import InvalidOption
from leveret.spark.pipeline.analysis.hour_tables import columns, path_exists
from leveret.spark.pipeline.analysis.letters import LETTERS
from leveret.spark.pipeline.lake import Lake

__all__ = ["Replayed", "replay_selected"]

LEDGER = columns(stream="string", offset="long", message_id="string", replay_id="string", replayed_at="timestamp")
FORGOTTEN = frozenset(
    (
        "x-death",
        "x-retry-count",
        "x-producer-name",
        "x-publishing-id",
        *(f"x-{turn}-death-{what}" for turn in ("first", "last") for what in ("exchange", "queue", "reason")),
    )
)
REPLAYS, FIRST_DEATH, DEDUPLICATION = "x-replay-count", "x-first-death-time", "x-deduplication-header"
# What a message keeps.
KEPT = (
    "body",
    "content_type",
    "content_encoding",
    "delivery_mode",
    "priority",
    "correlation_id",
    "reply_to",
    "message_id",
    "message_timestamp",
    "type",
    "app_id",
)


@dataclass(frozen=True)
class Replayed:
    """How a run ended: how many letters the filter chose that had not been sent before, how many of these the broker
    took, and how many it did not; those are Parquet files with a column `error` in the folder `failures`."""

    replay_id: str
    selected: int
    sent: int
    failed: int
    failures: str | None


def replay_selected(
    spark: SparkSession,
    lake: Lake,
    where: str,
    *,
    sink: Mapping[str, str],
    letters: DataFrame | None = None,
    exchange: str | None = None,
    routing_key: str | None = None,
    replay_id: str | None = None,
) -> Replayed:
    """Sends the letters for which `where`, an SQL condition on the columns of `silver/deadletters`, is true.

    They go to the exchange and routing key that they had before they first died, or to those that are given here.
    `letters` are others than those of the lake; they must have the columns of `letters.LETTERS`, and `stream` and
    `offset` must say which is which. `sink` are options of the connector: where the broker is, and how to log in.
    `replay_id` begins the producers' names; by default it follows from what is asked for, so that asking again after
    a crash is the same run."""
    if not where.strip():
        raise InvalidOption('the condition that chooses letters is empty; "true" chooses all')
    if letters is None:
        path = lake.silver("deadletters")
        if not path_exists(spark, path):
            raise InvalidOption(f"there is no table {path}: the job deadletters makes it")
        letters = spark.read.parquet(path)
    elif missing := [name for name in LETTERS.names if name not in letters.columns]:
        raise InvalidOption(f"the letters have no {', '.join(missing)}; deadletters.read_queue_letters has them")
    ledger = Ledger(spark, lake)
    asked = hashlib.sha256(json.dumps([where, exchange, routing_key]).encode()).hexdigest()[:12]
    replay_id = ledger.next_run(replay_id or f"deadletters-{asked}")
    chosen = (
        letters.where(where).dropDuplicates(["stream", "offset"]).join(ledger.read(), ["stream", "offset"], "left_anti")
    )
    rows = _messages(chosen, replay_id, exchange, routing_key).persist()
    try:
        selected = rows.count()
        if selected == 0:
            return Replayed(replay_id, 0, 0, 0, None)
        failures = f"{lake.silver('deadletter_replay_failures')}/{replay_id}/{uuid.uuid4().hex[:8]}"
        options = {**sink, "badRows": "divert", "badRowsPath": failures, "writeId": replay_id}
        rows.write.format("leveret").options(**options).mode("append").save()
        sent = rows
        failed = 0
        if path_exists(spark, failures):
            bad = spark.read.parquet(failures)
            failed = bad.count()
            sent = rows.join(bad, ["stream", "offset"], "left_anti")
        ledger.add(sent, replay_id)
        return Replayed(replay_id, selected, selected - failed, failed, failures if failed else None)
    finally:
        rows.unpersist()


def _messages(letters: DataFrame, replay_id: str, exchange: str | None, routing_key: str | None) -> DataFrame:
    """Rows for the sink. In the order of their offsets, in one task: a stream takes ids of a producer as they grow."""
    rows = letters.select(
        *KEPT,
        "stream",
        "offset",
        (F.col("origin_exchange") if exchange is None else F.lit(exchange)).alias("exchange"),
        (F.col("origin_routing_key") if routing_key is None else F.lit(routing_key)).alias("routing_key"),
        headers_back(
            "headers_json",
            F.unix_seconds("first_death_at"),
            F.concat_ws("/", F.lit(replay_id), "stream", F.col("offset").cast("string")),
        ).alias("headers_json"),
        F.concat_ws("/", F.lit(replay_id), "stream").alias("producer_name"),
        (F.col("offset") + 1).alias("publishing_id"),
    )
    return rows.repartition(1).sortWithinPartitions("producer_name", "publishing_id")


@F.arrow_udf(returnType=StringType())
def headers_back(texts: pa.Array, died_s: pa.Array, names: pa.Array) -> pa.Array:
    """The headers with which letters go back, as JSON."""
    rows = zip(texts.to_pylist(), died_s.to_pylist(), names.to_pylist(), strict=True)
    return pa.array([_headers_back(text, died, name) for text, died, name in rows], pa.string())


def _headers_back(text: str | None, died_s: int | None, name: str) -> str:
    headers = {key: value for key, value in json.loads(text or "{}").items() if key not in FORGOTTEN}
    count = headers.get(REPLAYS)
    headers[REPLAYS] = (count if isinstance(count, int) and count > 0 else 0) + 1
    if died_s is not None:
        headers[FIRST_DEATH] = {"!timestamp": died_s}
    # A queue that drops doubles knows the message's own id already: from when it came the first time.
    headers[DEDUPLICATION] = name
    return json.dumps(headers, ensure_ascii=False)


class Ledger:
    """Which letters were sent. One file for each run, which is there as a whole or not at all."""

    def __init__(self, spark: SparkSession, lake: Lake) -> None:
        self._spark = spark
        self._path = lake.silver("deadletter_replays")

    def read(self) -> DataFrame:
        if not path_exists(self._spark, self._path):
            return self._spark.createDataFrame([], LEDGER)
        return self._spark.read.schema(LEDGER).parquet(self._path)

    def next_run(self, replay_id: str) -> str:
        """The name of a run: another one for each that was completed, or letters that failed then would have lower
        ids than those that were sent; the same for one that was not."""
        done = self.read().where(F.col("replay_id").startswith(f"{replay_id}-")).select("replay_id").distinct().count()
        return f"{replay_id}-{done}"

    def add(self, sent: DataFrame, replay_id: str) -> None:
        noted = sent.withColumns({"replay_id": F.lit(replay_id), "replayed_at": F.current_timestamp()})
        noted.select(*LEDGER.names).coalesce(1).write.mode("append").parquet(self._path)
