"""Where jobs that make tables begin: the streams of a source, from the first message on, as a streaming table."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from leveret.spark.errors import InvalidOption

__all__ = ["read_bronze"]


def read_bronze(spark: SparkSession, source: Mapping[str, str] | DataFrame, job: str) -> DataFrame:
    """The source's messages, each with a moment. From the beginning of the streams, and with the broker told how far
    the job is, unless the options say something else."""
    if isinstance(source, DataFrame):
        if not source.isStreaming:
            raise InvalidOption(f"the source of {job} is a table that does not stream: read it with spark.readStream")
        rows = source
    else:
        given = {name.lower() for name in source}
        options = dict(source)
        if "queue" not in given:
            if "groupname" not in given:
                options["groupName"] = f"leveret-{job}"
            if not given & {"startingoffsets", "startingtimestamp"}:
                options["startingOffsets"] = "earliest"
        rows = spark.readStream.format("leveret").options(**options).load()
    # RabbitMQ does not tell when it took a message. Spark writes a batch's moment into the checkpoint, so a second
    # attempt has the same one.
    return rows.withColumn("timestamp", F.coalesce("timestamp", F.current_timestamp()))
