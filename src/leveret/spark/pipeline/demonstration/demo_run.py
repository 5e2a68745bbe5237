"""The demonstration from end to end: a broker, a day of messages, the jobs, the tables, the report."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator
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

__all__ = ["fresh_lake", "run_jobs", "say_produced", "show_tables"]

# A lake with this file was made by a demonstration and may be made anew by one.
MARK = ".leveret-demo"
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
    from leveret.spark.pipeline.runner import run_queries

    trigger: dict[str, Any] = {"availableNow": True}
    shop = {**connection, "stream": ",".join(STREAMS)}
    dead = {**connection, "stream": DEAD_LETTERS}
    with _timed("archive"):
        everything = {**connection, "streamPattern": ".*"}
        _check(
            run_queries(
                [start_archive(spark, lake, everything, trigger=trigger)], once=True, metrics_port=None, title="archive"
            )
        )
    with _timed("analytics"):
        rows = at_event_time(read_bronze(spark, shop, "analytics"), EVENT_TIME)
        _check(
            run_queries(
                start_analytics(spark, lake, rows, trigger=trigger), once=True, metrics_port=None, title="analytics"
            )
        )
    with _timed("deadletters"):
        rows = at_event_time(read_bronze(spark, dead, "deadletters"), EVENT_TIME)
        _check(
            run_queries(
                start_deadletters(spark, lake, rows, trigger=trigger), once=True, metrics_port=None, title="deadletters"
            )
        )


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


@contextlib.contextmanager
def _timed(job: str) -> Iterator[None]:
    start = time.monotonic()
    yield
    click.echo(f"{job} is through in {time.monotonic() - start:.1f} s")


def _check(code: int) -> None:
    if code:
        raise Failed("the job has failed")
