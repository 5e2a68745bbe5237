"""The lake's tables and the broker's streams and queues as views with names, for SQL and for notebooks.

    make_views(spark, Lake("./lake"), {"url": "amqp://..."})
    spark.sql("select reason, count(*) from deadletters group by 1").show()

A view reads nothing until it is asked. A stream or queue whose name is that of a table of the lake is `live_<name>`.
Names that are no plain words stand in backticks in SQL: select * from `orders-0`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from leveret.spark.errors import SourceFailed, SparkConnectorError
from leveret.spark.pipeline.archive import read_archive
from leveret.spark.pipeline.lake import Lake
from leveret.spark.pipeline.querying.live import STREAM, LiveQueue, connection_options, list_live

__all__ = [
    "DEADLETTERS",
    "NotThereYet",
    "Table",
    "Tables",
    "find_tables",
    "is_read_once",
    "make_views",
    "read_table",
    "register",
]

ARCHIVE, DEADLETTERS, LIVE_PREFIX = "archive", "deadletters", "live_"
# By name: the job that writes it, and what it holds.
SILVER = {
    "silver": ("messages", "parsed messages without duplicates"),
    "quarantine": ("quarantine", "bodies that are not what their content type says"),
    "traffic_parts": ("traffic_parts", "what traffic_by_minute is made of"),
}
GOLD = {
    "traffic_by_minute": ("analytics", "messages, bytes and latencies by exchange, key and tenant"),
    "top_routing_keys": ("analytics", "the busiest routing keys of each hour"),
    "deadletters_by_minute": ("deadletters", "dead letters by reason and queue"),
    "deadletters_by_hour": ("deadletters", "the same by the hour"),
    "deadletter_clusters": ("deadletters", "failures that look alike"),
    "deadletter_alerts": ("deadletters", "when dead letters grew too fast"),
}
# Columns that are there for the folders' sake alone.
FOLDERS = ("event_hour", "batch")


class NotThereYet(SparkConnectorError):
    """A table that a job has not written yet."""


class Table(NamedTuple):
    name: str
    # "lake", "stream" or "queue".
    kind: str
    what: str
    make: Callable[[SparkSession], DataFrame]
    # Where its files are; "" for what is in the broker.
    path: str = ""
    # The same for one query alone, whose filters make it read less; None if that makes no difference.
    make_for_one: Callable[[SparkSession], DataFrame] | None = None

    @property
    def is_there(self) -> bool | None:
        """None if only Spark could say."""
        return None if not self.path or "://" in self.path else os.path.isdir(self.path)


class Tables(NamedTuple):
    """What there is to be asked. `trouble` says why streams and queues are not among it, if they are not."""

    found: list[Table]
    trouble: str | None

    def named_in(self, sql: str) -> list[Table]:
        """Those whose names occur in a query, as words of their own."""
        return [table for table in self.found if _times_named(table.name, sql)]


def _times_named(name: str, sql: str) -> int:
    return len(re.findall(rf"(?<![\w.]){re.escape(name)}(?!\w)", sql, re.IGNORECASE))


def is_read_once(table: Table, sql: str) -> bool:
    """Whether it is certain that a query reads this table in one place: only then are filters pushed down, because
    Spark 4.3 would use those of one place for all others too. Where there is a second SELECT or a WITH, a name that
    stands there once may still be read twice."""
    words = re.findall(r"\w+", sql.lower())
    return words.count("select") <= 1 and "with" not in words and _times_named(table.name, sql) == 1


def find_tables(lake: Lake, source: Mapping[str, str]) -> Tables:
    """All tables by name. The broker is asked for its streams and queues; nothing is read."""
    trouble, live = None, []
    try:
        live = list_live(source)
    except SourceFailed as error:
        trouble = str(error)
    connection = connection_options(source)
    found = [*_tables_of_lake(lake), _dead_letters(lake, connection, live, trouble)]
    taken = {table.name for table in found}
    for queue in live:
        # Spark does not tell upper case from lower: of two names that differ in nothing else the first is taken.
        name = LIVE_PREFIX + queue.name if queue.name.lower() in taken else queue.name
        if name.lower() not in taken:
            taken.add(name.lower())
            found.append(_live_table(name, queue, connection))
    return Tables(found, trouble)


def make_views(spark: SparkSession, lake: Lake, source: Mapping[str, str], sql: str | None = None) -> list[str]:
    """Registers the tables that a query names, or all there are without one, and gives their names. A table that was
    not written yet is left out; if the query names it, it is an error that says which job writes it."""
    tables = find_tables(lake, source)
    made = []
    for table in tables.found if sql is None else tables.named_in(sql):
        try:
            register(spark, table)
        except NotThereYet:
            if sql is not None:
                raise
            continue
        made.append(table.name)
    return made


def read_table(spark: SparkSession, lake: Lake, name: str) -> DataFrame | None:
    """A table of the lake; None if no job has written it yet."""
    table = next(table for table in _tables_of_lake(lake) if table.name == name)
    try:
        return table.make(spark)
    except NotThereYet:
        return None


def register(spark: SparkSession, table: Table, for_one: bool = False) -> None:
    """`for_one` says that a single query uses it, and that in one place."""
    make = table.make_for_one if for_one and table.make_for_one is not None else table.make
    escaped = table.name.replace("`", "``")
    make(spark).createOrReplaceTempView(f"`{escaped}`")


def _tables_of_lake(lake: Lake) -> Iterable[Table]:
    yield _archive_table(lake)
    for name, (table, what) in SILVER.items():
        yield _lake_table(name, lake.silver(table), "analytics", what)
    for name, (job, what) in GOLD.items():
        yield _lake_table(name, lake.gold(name), job, what)


def _lake_table(name: str, path: str, job: str, what: str) -> Table:
    def make(spark: SparkSession) -> DataFrame:
        try:
            return spark.read.parquet(path).drop(*FOLDERS)
        except AnalysisException as error:
            if error.getCondition() in ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA"):
                raise NotThereYet(f"there is no {name} in {path} yet: `leveret pipeline {job}` writes it") from None
            raise

    return Table(name, "lake", what, make, path)


def _archive_table(lake: Lake) -> Table:
    def make(spark: SparkSession) -> DataFrame:
        if table.is_there is False:
            raise NotThereYet(f"there is no archive in {lake.archive} yet: `leveret pipeline archive` writes it")
        return read_archive(spark, lake)

    table = Table(ARCHIVE, "lake", "all archived messages", make, lake.archive)
    return table


def _live_table(name: str, queue: LiveQueue, connection: Mapping[str, str]) -> Table:
    what = f"{queue.messages:,} messages"
    if queue.kind != STREAM:
        return Table(name, "queue", what, lambda spark: _read_live(spark, queue, connection))
    filtered = {**connection, "pushFilters": "true"}
    return Table(
        name,
        "stream",
        what,
        lambda spark: _read_live(spark, queue, connection),
        make_for_one=lambda spark: _read_live(spark, queue, filtered),
    )


def _read_live(spark: SparkSession, queue: LiveQueue, options: Mapping[str, str]) -> DataFrame:
    reader = spark.read.format("leveret").options(**options)
    return reader.option("stream" if queue.kind == STREAM else "queue", queue.name).load()


def _dead_letters(lake: Lake, connection: Mapping[str, str], live: list[LiveQueue], trouble: str | None) -> Table:
    """The archive's dead letters and those in the broker, each once: what is in a stream may be archived too."""

    def make(spark: SparkSession) -> DataFrame:
        parts = [_read_live(spark, queue, connection) for queue in live if queue.is_graveyard]
        try:
            parts.append(_archive_table(lake).make(spark))
        except NotThereYet:
            if not parts:
                where = (
                    f"and the broker cannot be asked: {trouble}"
                    if trouble
                    else "and no queue has a dead-letter exchange that leads to one"
                )
                raise NotThereYet(
                    f"there are no dead letters: there is no archive in {lake.archive}, {where}"
                ) from None
        rows = parts[0].where("first_death_reason is not null")
        for part in parts[1:]:
            rows = rows.unionByName(part.where("first_death_reason is not null"), allowMissingColumns=True)
        if len(parts) > 1:
            rows = rows.dropDuplicates(["stream", "offset", "timestamp"])
        # As in the tables of dead letters: the death that brought it there.
        reason, queue = (
            F.coalesce("last_death_reason", "first_death_reason"),
            F.coalesce("last_death_queue", "first_death_queue"),
        )
        return rows.select(reason.alias("reason"), queue.alias("queue"), "*")

    places = [queue.name for queue in live if queue.is_graveyard]
    return Table(
        DEADLETTERS, "lake", f"dead letters of the archive{' and of ' + ', '.join(places) if places else ''}", make
    )
