"""A terminal without Spark's chatter: what the Java machine says goes to a file, and is shown if it does not start."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from leveret.spark.pipeline.failures import Failed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from leveret.spark.pipeline.arguments import Place

__all__ = ["quiet_session"]

TAIL = 2000


@contextlib.contextmanager
def quiet_session(place: Place, job: str) -> Iterator[SparkSession]:
    """A session for one command, stopped at its end, or the one that there is already, which goes on. The Java machine
    that is started here writes to the file as long as it lives."""
    # What Spark hands to Python as a datetime is in the process's own zone.
    os.environ["TZ"] = "UTC"
    time.tzset()
    # PySpark prints every error of a query as one line of JSON with the whole Java stack, before it raises it.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    logging.getLogger("DataFrameQueryContextLogger").disabled = True
    from pyspark.sql import SparkSession

    there = SparkSession.getActiveSession()
    if there is not None:
        yield there
        return
    with tempfile.NamedTemporaryFile("w+b", prefix="leveret-spark-", suffix=".log") as log:
        try:
            with _stderr_to(log.fileno()):
                spark = place.session(job)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told, with what Java said
            log.seek(0)
            said = log.read()[-TAIL:].decode("utf-8", "replace").strip()
            raise Failed(f"Spark did not start: {error}\n{said}") from None
        try:
            yield spark
        finally:
            spark.stop()


@contextlib.contextmanager
def _stderr_to(descriptor: int) -> Iterator[None]:
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(descriptor, 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
