"""Leveret for Spark: `format("leveret")` reads streams and queues as tables and publishes rows.

Installed with `pip install leveret[spark]`, Spark finds it by itself, through the package pyspark_leveret; `register`
is for sessions in which it was shipped in another way. Knows no room of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Makes `format("leveret")` known to a session that did not find it by itself."""
    from leveret.spark.source import LeveretDataSource

    spark.dataSource.register(LeveretDataSource)
