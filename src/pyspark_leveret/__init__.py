"""By this name Spark finds the data source by itself: `spark.read.format("leveret")` needs no registration."""

from leveret.spark.source import LeveretDataSource as DefaultSource

__all__ = ["DefaultSource"]
