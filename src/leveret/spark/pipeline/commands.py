"""`leveret pipeline`: the jobs, one command each. Everything they do is in a module of the job's name, for notebooks too;
Spark is imported when a job runs, so that help comes at once."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from leveret.spark.pipeline.arguments import Place, find_connection, need_spark, placed, read_source, triggered
from leveret.spark.pipeline.failures import Failed, told
from leveret.spark.pipeline.quiet import quiet_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["pipeline"]


@click.group()
def pipeline() -> None:
    """Tables of what flows through the broker, on Spark.

    \b
      leveret pipeline archive --pattern '.*' --once
      leveret pipeline analytics --stream orders,payments --metrics-port 9100
      leveret pipeline report
    """


@contextlib.contextmanager
def job_session(place: Place, job: str) -> Iterator[SparkSession]:
    """A session for one command; what goes wrong in it ends the command with a line instead of a stack."""
    need_spark()
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from leveret.spark.errors import SparkConnectorError

    try:
        with quiet_session(place, job) as spark:
            yield spark
    except SparkConnectorError as error:
        raise Failed(str(error)) from None
    except (PySparkException, Py4JError) as error:
        raise Failed(told(error)) from None


def rows_of(spark: SparkSession, source: dict[str, str], job: str, event_time: str | None) -> Any:
    """What a job reads: the options as they are, or their messages at the moments that a header tells."""
    if event_time is None:
        return source
    from leveret.spark.pipeline.bronze import read_bronze
    from leveret.spark.pipeline.event_time import at_event_time

    return at_event_time(read_bronze(spark, source, job), event_time)


@pipeline.command()
@placed
@read_source("archive")
@triggered
def archive(
    place: Place, source: dict[str, str], trigger: dict[str, Any], once: bool, metrics_port: int | None
) -> None:
    """Streams to Parquet files by stream and date, each message once."""
    with job_session(place, "archive") as spark:
        from leveret.spark.pipeline.archive import start_archive
        from leveret.spark.pipeline.runner import run_queries

        queries = [start_archive(spark, place.lake, source, trigger=trigger)]
        code = run_queries(queries, once=once, metrics_port=metrics_port, title="archive")
    sys.exit(code)


@pipeline.command()
@placed
def compact(place: Place) -> None:
    """The archive's small files to few large ones; may run beside the archive."""
    with job_session(place, "compact") as spark:
        from leveret.spark.pipeline import compaction

        done = compaction.compact(spark, place.lake)
    click.echo(f"{done.batches} batches with {done.messages} messages compacted in {done.folders} folders; {done.deleted} old files deleted")


@pipeline.command()
@placed
@click.option("--older-than-days", type=click.IntRange(1), required=True, metavar="N", help="Days that are kept.")
def expire(place: Place, older_than_days: int) -> None:
    """Delete days of the archive that nobody wants any more."""
    with job_session(place, "expire") as spark:
        from leveret.spark.pipeline import compaction

        done = compaction.expire(spark, place.lake, older_than_days)
    click.echo(f"the archive begins with {done.kept_from}; {done.folders} folders are gone")


@pipeline.command()
@placed
@read_source("analytics")
@triggered
@click.option("--event-time", metavar="HEADER", help="Header with a message's moment in ms; else the broker's moment.")
def analytics(
    place: Place,
    source: dict[str, str],
    trigger: dict[str, Any],
    once: bool,
    metrics_port: int | None,
    event_time: str | None,
) -> None:
    """Rates, bytes and latencies by the minute; bodies parsed, duplicates left out."""
    with job_session(place, "analytics") as spark:
        from leveret.spark.pipeline.analytics import start_analytics
        from leveret.spark.pipeline.runner import run_queries

        rows = rows_of(spark, source, "analytics", event_time)
        queries = start_analytics(spark, place.lake, rows, trigger=trigger)
        code = run_queries(queries, once=once, metrics_port=metrics_port, title="analytics")
    sys.exit(code)


@pipeline.command()
@placed
@click.option("--hours", type=click.FloatRange(min=0, min_open=True), help="Only the last hours.")
@click.option("--to", "path", type=click.Path(dir_okay=False), help="The page.  [default: LAKE/reports/report.html]")
def report(place: Place, hours: float | None, path: str | None) -> None:
    """One HTML page with plots of the tables."""
    with job_session(place, "report") as spark:
        from leveret.spark.pipeline.report import write_report

        written = write_report(spark, place.lake, path, hours=hours)
    click.echo(str(written))


@pipeline.command()
@click.option("--lake", "root", default="./lake-demo", show_default=True, metavar="FOLDER", help="Made anew each time.")
@click.option("--orders", default=6000, show_default=True, type=click.IntRange(1), help="Of the day; about 3 messages each.")
@click.option("--url", metavar="URL", help="A broker for it.  [default: one of its own, gone afterwards]")
@click.option("--management-url", metavar="URL", help="That broker's HTTP API.  [default: port 15672 of the same host]")
@click.option("--master", metavar="URL", help="Spark's master.  [default: local[*]]")
def demo(root: str, orders: int, url: str | None, management_url: str | None, master: str | None) -> None:
    """A day of orders, payments and failures in seconds, and all jobs over it."""
    need_spark()
    from leveret.client.errors import ClientError
    from leveret.spark.pipeline import demo_run
    from leveret.spark.pipeline.demo import produce_day
    from leveret.spark.pipeline.demo_broker import running_broker

    # Ends the broker too: without this a SIGTERM would leave it behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    lake = demo_run.fresh_lake(root)
    with contextlib.ExitStack() as stack:
        connection = find_connection(url, management_url, None) if url else stack.enter_context(running_broker())
        start = time.monotonic()
        try:
            produced = produce_day(connection["url"], orders=orders)
        except ClientError as error:
            raise Failed(f"the day could not be published: {error}") from None
        demo_run.say_produced(produced, time.monotonic() - start)
        with job_session(Place(connection, lake, master), "demo") as spark:
            from leveret.spark.pipeline.report import write_report

            demo_run.run_jobs(spark, lake, connection)
            demo_run.show_tables(spark, lake, connection)
            written = write_report(spark, lake)
    click.echo(f"\nThe report: {written}")
    click.echo(f"Ask the lake yourself: leveret sql --lake {root} 'select * from traffic_by_minute limit 5'")
