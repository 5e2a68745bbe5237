"""The Spark session that jobs run in: embedded by default, on any master unchanged.

Executors run the interpreter of this environment, moments are in UTC, and nothing listens beyond this machine unless a
master says so."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

__all__ = ["open_session"]

LOCAL = "local[*]"
SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # A folder per date and stream is overwritten by itself, not the whole table.
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    # As other tools write moments too; the old kind has no smallest and largest by which files could be passed over.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.ui.showConsoleProgress": "false",
    # What a job does beside its batches, such as compaction, has a pool of its own, and batches do not wait for it.
    "spark.scheduler.mode": "FAIR",
    # Files are cut into the same tasks however many cores there are: the ids that the sink gives rows depend on it.
    "spark.sql.files.minPartitionNum": "8",
}
LOCAL_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Two hundred tasks for a shuffle of a few rows take longer than the rows.
    "spark.sql.shuffle.partitions": "4",
}


def open_session(name: str, master: str | None = None, settings: Mapping[str, str] | None = None) -> SparkSession:
    """The session there is, or a new one. `settings` win over ours."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    wanted = dict(SETTINGS)
    if master is None or master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        wanted.update(LOCAL_SETTINGS)
    wanted.update(settings or {})
    builder = SparkSession.builder.appName(name).master(master or os.environ.get("SPARK_MASTER") or LOCAL)
    for key, value in wanted.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
