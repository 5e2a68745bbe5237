"""The demonstration from end to end: a broker, a day of messages, the jobs, the tables, the report."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from leveret.spark.pipeline.demonstration.demo import DEAD_LETTERS, STREAMS, Produced
from leveret.spark.pipeline.demonstration.demo_day import EVENT_TIME
from leveret.spark.pipeline.failures import Failed
from leveret.spark.pipeline.lake import Lake
from leveret.spark.pipeline.querying.rows_output import TABLE, print_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

__all__ = ["fresh_lake", "run_jobs", "say_produced", "show_tables"]

# A lake with this file was made by a demonstration and may be made anew by one.
MARK = ".leveret-demo"
LOOK_S = 1
QUESTIONS = {
    "The archive": """
        select stream, count(*) messages, min(offset) first, max(offset) last from archive group by 1 order by 1""",
    "Traffic": """
        select routing_key, sum(messages) messages, sum(bytes) bytes, max(messages) busiest_minute
        from (select minute, routing_key, sum(messages) messages, sum(bytes) bytes from traffic_by_minute group by 1, 2)
        group by 1 order by 2 desc""",
    "Not what their content type says": """
        select stream, count(*) messages, min(error) for_example from quarantine group by 1 order by 1""",
    "Dead letters": """
        select reason, queue, sum(letters) letters, sum(repeated) repeated
        from deadletters_by_hour group by 1, 2 order by 3 desc""",
    "Failures that look alike": """
        select letters, reason, queue, error, first_seen, last_seen
        from deadletter_clusters order by letters desc limit 6""",
    "Alerts": "select at, queue, reason, letters, before, growth from deadletter_alerts order by at",
}


def fresh_lake(root: str) -> Lake:
    """An empty lake. One that an earlier demonstration made goes; anything else stays, and is an error."""
    folder = Path(root)
    if folder.exists() and any(folder.iterdir()):
        if not (folder / MARK).exists():
            raise Failed(f"{root} is not empty and no lake of a demonstration: give another folder with --lake")
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK).touch()
    return Lake(root)


def say_produced(produced: Produced, seconds: float) -> None:
    counts = ", ".join(f"{count:,} in {name}" for name, count in produced.messages.items())
    click.echo(f"A day of {produced.total:,} messages in {seconds:.1f} s: {counts}")


def run_jobs(spark: SparkSession, lake: Lake, connection: dict[str, str]) -> None:
    """Archive, analytics and dead letters, over everything there is."""
    from leveret.spark.pipeline.analysis.analytics import start_analytics
    from leveret.spark.pipeline.analysis.bronze import read_bronze
    from leveret.spark.pipeline.analysis.deadletters import start_deadletters
    from leveret.spark.pipeline.analysis.event_time import at_event_time
    from leveret.spark.pipeline.archive import start_archive

    trigger: dict[str, Any] = {"availableNow": True}
    _finish("archive", [start_archive(spark, lake, {**connection, "streamPattern": ".*"}, trigger=trigger)])
    shop = {**connection, "stream": ",".join(STREAMS)}
    rows = at_event_time(read_bronze(spark, shop, "analytics"), EVENT_TIME)
    _finish("analytics", start_analytics(spark, lake, rows, trigger=trigger))
    dead = {**connection, "stream": DEAD_LETTERS}
    rows = at_event_time(read_bronze(spark, dead, "deadletters"), EVENT_TIME)
    _finish("deadletters", start_deadletters(spark, lake, rows, trigger=trigger))


def _finish(job: str, queries: Sequence[StreamingQuery]) -> None:
    """Waits until all is done. Not by run_queries, for which a signal ends one job: here it is to end all of them."""
    start = time.monotonic()
    for query in queries:
        # In short waits: between them Python hears signals.
        while not query.awaitTermination(LOOK_S):
            pass
    messages = sum(progress["numInputRows"] for query in queries for progress in query.recentProgress)
    click.echo(f"{job}: {messages:,} messages in {time.monotonic() - start:.1f} s")


def show_tables(spark: SparkSession, lake: Lake, connection: dict[str, str]) -> None:
    from leveret.spark.pipeline.querying.views import make_views

    made = make_views(spark, lake, connection, " ".join(QUESTIONS.values()))
    assert made, "the jobs have written their tables"
    for title, question in QUESTIONS.items():
        found = spark.sql(question)
        rows = found.collect()
        click.echo(f"\n{click.style(title, bold=True)}")
        if rows:
            print_rows(found.columns, rows, TABLE)
        else:
            click.echo("none")
