"""Options that the commands of the pipeline share, and what becomes of them. Imports no Spark: help comes at once."""

from __future__ import annotations

import functools
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from leveret.spark.pipeline.failures import Failed
from leveret.spark.pipeline.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "DEFAULT_URL",
    "Place",
    "find_connection",
    "need_spark",
    "placed",
    "read_source",
    "seconds_of",
    "single_writer",
    "triggered",
]

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT_URL = "amqp://guest:guest@127.0.0.1:5672/"
OURS = "LEVERET_AMQP_URL"
# For the other commands this is where the management API is; a URL with amqp:// in it is taken for ours.
SHARED = "LEVERET_URL"
GROUP_PREFIX = "leveret-"
UNITS_S = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}


@dataclass
class Place:
    """Where a command works: the broker, the lake, and Spark."""

    connection: dict[str, str]
    lake: Lake
    master: str | None

    def session(self, job: str) -> SparkSession:
        from leveret.spark.pipeline.session import open_session

        return open_session(f"leveret {job}", self.master)


def need_spark() -> None:
    """One clear line if Spark cannot run here."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise Failed("Spark is not installed: pip install 'leveret[spark]'") from None
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java") is None and not (home and Path(home, "bin", "java").exists()):
        raise Failed(
            "Spark needs Java 17 or newer, and there is no java: on Debian, apt-get install openjdk-17-jre-headless"
        )


def find_connection(
    url: str | None, management_url: str | None, password_file: str | None, **certificates: str | None
) -> dict[str, str]:
    shared = os.environ.get(SHARED, "")
    if url is None:
        url = os.environ.get(OURS) or (shared if shared.startswith("amqp") else DEFAULT_URL)
    if management_url is None and shared.startswith("http"):
        management_url = shared
    if password_file is not None and not Path(password_file).is_file():
        raise Failed(f"there is no file {password_file!r} with a password")
    given = {"url": url, "managementUrl": management_url, "passwordFile": password_file, **certificates}
    return {name: value for name, value in given.items() if value}


def placed(command: F) -> F:
    """Adds the options that every command takes; the command gets a Place first."""

    @click.option("--url", metavar="URL", help=f"The broker; also from {OURS}.  [default: that of this machine]")
    @click.option(
        "--management-url",
        metavar="URL",
        help="Its HTTP API.  [default: port 15672 of the same host, or 15671 by https beside amqps:]",
    )
    @click.option("--management-plain", is_flag=True, help="Let the HTTP API be http: beside amqps:, password and all.")
    @click.option("--password-file", metavar="FILE", help="Where the password is, so that it stands in no URL.")
    @click.option("--ca", metavar="FILE", help="Authorities that the broker's certificate may come from.")
    @click.option("--certificate", metavar="FILE", help="Our own certificate, for brokers that want one.")
    @click.option("--key", metavar="FILE", help="Its key.")
    @click.option("--lake", default="./lake", show_default=True, metavar="PATH", help="Folder, hdfs:// or s3a://.")
    @click.option("--master", metavar="URL", help="Spark's master; also from SPARK_MASTER.  [default: local[*]]")
    @functools.wraps(command)
    def wrapped(
        *arguments: Any,
        url: str | None,
        management_url: str | None,
        management_plain: bool,
        password_file: str | None,
        ca: str | None,
        certificate: str | None,
        key: str | None,
        lake: str,
        master: str | None,
        **options: Any,
    ) -> Any:
        connection = find_connection(url, management_url, password_file, ca=ca, certificate=certificate, key=key)
        if management_plain:
            connection["managementPlain"] = "true"
        place = Place(connection, Lake(lake), master)
        return command(place, *arguments, **options)

    return wrapped  # type: ignore[return-value]


def single_writer(command: F) -> F:
    """Adds the option by which a lake in an object store may be changed; it becomes part of the Place's lake."""

    @click.option(
        "--single-writer", is_flag=True, help="Nothing else changes this lake; for object stores, such as s3a://."
    )
    @functools.wraps(command)
    def wrapped(place: Place, *arguments: Any, single_writer: bool, **options: Any) -> Any:
        place.lake = Lake(place.lake.root, single_writer)
        return command(place, *arguments, **options)

    return wrapped  # type: ignore[return-value]


def read_source(job: str, required: bool = True) -> Callable[[F], F]:
    """Adds the options that say what a job reads; the command gets them as `source`, which is empty if nothing is named
    and nothing is required."""

    def add(command: F) -> F:
        @click.option("--stream", metavar="NAMES", help="Streams, with commas between them.")
        @click.option("--super-stream", metavar="NAME", help="All partitions of a super stream.")
        @click.option("--pattern", metavar="REGEX", help="All streams with such a name, new ones too.")
        @click.option("--queue", metavar="NAME", help="A queue, which is emptied by that; at least once.")
        @click.option(
            "--group", metavar="NAME", help=f"Under which the broker shows the lag.  [default: {GROUP_PREFIX}{job}]"
        )
        @click.option("--max-per-batch", type=click.IntRange(1), metavar="N", help="Messages in one micro-batch.")
        @click.option(
            "--skip-lost",
            is_flag=True,
            help="Go on where messages or streams were deleted unread, and tell how many, instead of an error.",
        )
        @functools.wraps(command)
        def wrapped(
            place: Place,
            *arguments: Any,
            stream: str | None,
            super_stream: str | None,
            pattern: str | None,
            queue: str | None,
            group: str | None,
            max_per_batch: int | None,
            skip_lost: bool,
            **options: Any,
        ) -> Any:
            ways = {"stream": stream, "superStream": super_stream, "streamPattern": pattern, "queue": queue}
            given = {name: value for name, value in ways.items() if value}
            if len(given) > 1 or (required and not given):
                raise click.UsageError("Say what is read with one of --stream, --super-stream, --pattern and --queue.")
            if max_per_batch is not None:
                given["maxOffsetsPerTrigger"] = str(max_per_batch)
            if group is not None:
                given["groupName"] = group
            if skip_lost:
                given["failOnDataLoss"] = "false"
            return command(place, *arguments, source={**place.connection, **given} if given else {}, **options)

        return wrapped  # type: ignore[return-value]

    return add


def triggered(command: F) -> F:
    """Adds the options that say how long a job runs; the command gets `trigger`, `once` and `metrics_port`."""

    @click.option("--once", is_flag=True, help="End when everything is done that is there now.")
    @click.option("--every", default="10 seconds", show_default=True, metavar="TIME", help="A micro-batch that often.")
    @click.option(
        "--metrics-port", type=click.IntRange(0, 65535), metavar="PORT", help="Prometheus metrics on 127.0.0.1."
    )
    @functools.wraps(command)
    def wrapped(*arguments: Any, once: bool, every: str, metrics_port: int | None, **options: Any) -> Any:
        trigger = {"availableNow": True} if once else {"processingTime": every}
        return command(*arguments, trigger=trigger, once=once, metrics_port=metrics_port, **options)

    return wrapped  # type: ignore[return-value]


def seconds_of(_: click.Context, __: click.Parameter, value: str) -> float | None:
    """A callback for options that say how often something is done, as for Spark: "10 seconds". None for "never"."""
    if value in ("never", "0"):
        return None
    found = re.fullmatch(r"([1-9]\d{0,5}) *(second|minute|hour|day)s?", value)
    if found is None:
        raise click.BadParameter(f'{value!r} is no time such as "10 minutes" or "1 hour", and not "never".')
    return float(int(found[1]) * UNITS_S[found[2]])
