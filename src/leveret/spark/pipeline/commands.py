"""`leveret pipeline`: the jobs, one command each. Everything they do is in a module of the job's name, for notebooks
too; Spark is imported when a job runs, so that help comes at once."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from leveret.spark.pipeline.arguments import (
    Place,
    find_connection,
    need_spark,
    placed,
    read_source,
    seconds_of,
    single_writer,
    triggered,
)
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
    from leveret.spark.pipeline.archive.manifest import ManifestConflict
    from leveret.spark.pipeline.archive.replay_plan import ReplayRefused
    from leveret.spark.pipeline.lake_files import LakeNotAtomic

    try:
        with quiet_session(place, job) as spark:
            yield spark
    except LakeNotAtomic as error:
        raise Failed(f"LakeNotAtomic: {error}") from None
    except (SparkConnectorError, ManifestConflict, ReplayRefused) as error:
        raise Failed(str(error)) from None
    except (PySparkException, Py4JError) as error:
        raise Failed(told(error)) from None


def rows_of(spark: SparkSession, source: dict[str, str], job: str, event_time: str | None) -> Any:
    """What a job reads: the options as they are, or their messages at the moments that a header tells."""
    if event_time is None:
        return source
    from leveret.spark.pipeline.analysis.bronze import read_bronze
    from leveret.spark.pipeline.analysis.event_time import at_event_time

    return at_event_time(read_bronze(spark, source, job), event_time)


@pipeline.command()
@placed
@single_writer
@read_source("archive")
@triggered
@click.option(
    "--name", default="archive", show_default=True, help="Of this archive's checkpoint; one for each that runs."
)
@click.option(
    "--compact-every",
    "compact_every_s",
    callback=seconds_of,
    default="1 hour",
    show_default=True,
    metavar="TIME",
    help='Make few large files of small ones that often, and at the end of --once; "never" leaves it to `compact`.',
)
def archive(
    place: Place,
    source: dict[str, str],
    trigger: dict[str, Any],
    once: bool,
    metrics_port: int | None,
    name: str,
    compact_every_s: float | None,
) -> None:
    """Streams to Parquet files by stream and date, each message once."""
    with job_session(place, "archive") as spark:
        from leveret.spark.pipeline.archive import start_archive
        from leveret.spark.pipeline.archive.self_compaction import SelfCompaction
        from leveret.spark.pipeline.runner import run_queries

        landed: set[int] = set()
        compaction = None if compact_every_s is None else SelfCompaction(spark, place.lake, every_s=compact_every_s)
        queries = [start_archive(spark, place.lake, source, trigger=trigger, name=name, landed_before=landed)]
        code = run_queries(
            queries,
            once=once,
            metrics_port=metrics_port,
            title="archive",
            compaction=compaction,
            landed_before=landed,
        )
    sys.exit(code)


@pipeline.command()
@placed
@single_writer
def compact(place: Place) -> None:
    """The archive's small files to few large ones; may run beside the archive."""
    with job_session(place, "compact") as spark:
        from leveret.spark.pipeline.archive import compaction

        done = compaction.compact(spark, place.lake)
    click.echo(f"{done.batches} batches with {done.messages:,} messages are compacted, in {done.folders} folders")
    click.echo(f"{done.deleted} folders that nobody reads any more are deleted")


@pipeline.command()
@placed
@single_writer
@click.option("--older-than-days", type=click.IntRange(1), required=True, metavar="N", help="Days that are kept.")
def expire(place: Place, older_than_days: int) -> None:
    """Delete days of the archive that nobody wants any more."""
    with job_session(place, "expire") as spark:
        from leveret.spark.pipeline.archive import compaction

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
        from leveret.spark.pipeline.analysis.analytics import start_analytics
        from leveret.spark.pipeline.runner import run_queries

        rows = rows_of(spark, source, "analytics", event_time)
        queries = start_analytics(spark, place.lake, rows, trigger=trigger)
        code = run_queries(queries, once=once, metrics_port=metrics_port, title="analytics")
    sys.exit(code)


@pipeline.command()
@placed
@read_source("deadletters", required=False)
@triggered
@click.option("--event-time", metavar="HEADER", help="Header with a message's moment in ms; else the broker's moment.")
@click.option("--alert-window", default=5, show_default=True, metavar="MINUTES", help="What an alert looks at.")
@click.option("--alert-factor", default=3.0, show_default=True, help="Alert at so many times the window before.")
@click.option("--alert-minimum", default=10, show_default=True, metavar="N", help="And not below so many letters.")
@click.option("--replay", "where", metavar="SQL", help="Send back the letters for which this is true, and end.")
@click.option("--exchange", help="With --replay: where to, instead of where they came from.")
@click.option("--routing-key", help="With --replay: the same.")
def deadletters(
    place: Place,
    source: dict[str, str],
    trigger: dict[str, Any],
    once: bool,
    metrics_port: int | None,
    event_time: str | None,
    alert_window: int,
    alert_factor: float,
    alert_minimum: int,
    where: str | None,
    exchange: str | None,
    routing_key: str | None,
) -> None:
    """Why messages die, where, how often, and what is alike about them.

    With --replay letters that the job has seen go back through the exchange that they came from, each once; with
    --queue as well the broker moves them out of that dead-letter queue itself."""
    if where is None and not source:
        raise click.UsageError("Say what is read with one of --stream, --super-stream, --pattern and --queue.")
    with job_session(place, "deadletters") as spark:
        from leveret.spark.pipeline.analysis import deadletters as job
        from leveret.spark.pipeline.runner import run_queries

        if where is not None:
            send_back(spark, place, source, where, exchange, routing_key)
            return
        rule = job.AlertRule(alert_window, alert_factor, alert_minimum)
        rows = rows_of(spark, source, "deadletters", event_time)
        queries = job.start_deadletters(spark, place.lake, rows, trigger=trigger, alerts=rule)
        code = run_queries(queries, once=once, metrics_port=metrics_port, title="deadletters")
    sys.exit(code)


def send_back(
    spark: SparkSession, place: Place, source: dict[str, str], where: str, exchange: str | None, routing_key: str | None
) -> None:
    from leveret.spark.pipeline.analysis import deadletters as job

    if "queue" in source:
        target = {} if exchange is None else {"mode": "target", "exchange": exchange, "routing_key": routing_key or ""}
        tasks = job.reprocess_selected(spark, source, where, **target)
        moved, failed = sum(task.moved for task in tasks), sum(task.failed for task in tasks)
        click.echo(f"{moved} letters were moved out of {source['queue']}, {failed} stay there")
        return
    done = job.replay_selected(
        spark, place.lake, where, sink=place.connection, exchange=exchange, routing_key=routing_key
    )
    click.echo(f"{done.sent} of {done.selected} letters went back; replay {done.replay_id}")
    if done.failed:
        raise Failed(f"{done.failed} letters were not taken; why is in {done.failures}")


@pipeline.command()
@placed
@single_writer
@click.option("--where", metavar="SQL", help="Messages of the archive for which this is true.")
@click.option(
    "--from", "start", metavar="MOMENT", help="Those that the broker took from then on, such as 2026-11-17T08:00."
)
@click.option("--to", "end", metavar="MOMENT", help="And before then.")
@click.option("--exchange", help="Where to.  [default: where each message went]")
@click.option("--routing-key", help="The same.")
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    help="Messages a second.  [default: all there is]",
)
@click.option("--id", "replay_id", metavar="NAME", help="Of this replay: the same goes on where it was stopped.")
def replay(
    place: Place,
    where: str | None,
    start: str | None,
    end: str | None,
    exchange: str | None,
    routing_key: str | None,
    rate: float | None,
    replay_id: str | None,
) -> None:
    """Messages of the archive back to an exchange, each once."""
    with job_session(place, "replay") as spark:
        from leveret.spark.pipeline.archive import replay as job

        def show(progress: job.ReplayProgress) -> None:
            share = progress.published / progress.selected if progress.selected else 1.0
            click.echo(
                f"{progress.published:,} of {progress.selected:,} ({share:.0%}), {progress.rate:,.0f}/s", err=True
            )

        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        done = job.replay(
            spark,
            place.lake,
            where=where,
            start=start,
            end=end,
            exchange=exchange,
            routing_key=routing_key,
            rate=rate,
            replay_id=replay_id,
            sink=place.connection,
            on_progress=show,
            stop=stop,
        )
    click.echo(
        f"{done.published:,} of {done.selected:,} messages in {done.seconds:.1f} s; {done.published_before:,} before"
    )
    if not done.finished:
        raise Failed(f"stopped: the same command with --id {done.replay_id} goes on")


@pipeline.command()
@placed
@click.option("--hours", type=click.FloatRange(min=0, min_open=True), help="Only the last hours.")
@click.option("--to", "path", type=click.Path(dir_okay=False), help="The page.  [default: LAKE/reports/report.html]")
def report(place: Place, hours: float | None, path: str | None) -> None:
    """One HTML page with plots of the tables."""
    with job_session(place, "report") as spark:
        from leveret.spark.pipeline.reporting.report import write_report

        written = write_report(spark, place.lake, path, hours=hours)
    click.echo(str(written))


@pipeline.command()
@click.option("--lake", "root", default="./lake-demo", show_default=True, metavar="FOLDER", help="Made anew each time.")
@click.option(
    "--orders", default=6000, show_default=True, type=click.IntRange(1), help="Of the day; about 3 messages each."
)
@click.option("--url", metavar="URL", help="A broker for it.  [default: one of its own, gone afterwards]")
@click.option("--management-url", metavar="URL", help="That broker's HTTP API.  [default: port 15672 of the same host]")
@click.option("--master", metavar="URL", help="Spark's master.  [default: local[*]]")
def demo(root: str, orders: int, url: str | None, management_url: str | None, master: str | None) -> None:
    """A day of orders, payments and failures in seconds, and all jobs over it."""
    need_spark()
    from leveret.client.errors import ClientError
    from leveret.spark.pipeline.demonstration import demo_run
    from leveret.spark.pipeline.demonstration.demo import produce_day
    from leveret.spark.pipeline.demonstration.demo_broker import running_broker

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
            from leveret.spark.pipeline.reporting.report import write_report

            demo_run.run_jobs(spark, lake, connection)
            demo_run.show_tables(spark, lake, connection)
            written = write_report(spark, lake)
    click.echo(f"\nThe report: {written}")
    click.echo(f"Ask the lake yourself: leveret sql --lake {root} 'select * from traffic_by_minute limit 5'")
