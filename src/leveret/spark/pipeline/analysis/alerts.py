"""When dead letters grow too fast: a row for each window in which a queue has far more of them than in the one before.

A window alerts if it has at least `minimum` letters of a queue and reason, and at least `factor` times as many as the
window before it (or as one letter, if that had none). While a window is open its row changes with the letters that
come."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from leveret.spark.errors import InvalidOption
from leveret.spark.pipeline.analysis.hour_tables import columns

__all__ = ["ALERTS", "AlertRule", "find_alerts"]

ALERTS = columns(
    at="timestamp", queue="string", reason="string", letters="long", before="long", growth="double", threshold="double"
)


@dataclass(frozen=True)
class AlertRule:
    window_minutes: int = 5
    factor: float = 3.0
    minimum: int = 10

    def __post_init__(self) -> None:
        if self.window_minutes < 1 or 60 % self.window_minutes:
            raise InvalidOption(
                f"an alert's window is {self.window_minutes} minutes; it must be 1 to 60 and divide an hour"
            )
        if self.factor <= 0 or self.minimum < 1:
            raise InvalidOption(
                f"an alert's factor is {self.factor} and its minimum {self.minimum}; both must be above 0"
            )


def find_alerts(letters: DataFrame, rule: AlertRule) -> DataFrame:
    """The alerts of these letters, by the start of their window. The first window has nothing before it, so pass
    letters of one window more than you ask for."""
    span = f"{rule.window_minutes} minutes"
    counts = (
        letters.groupBy(F.window("timestamp", span).alias("window"), "queue", "reason")
        .agg(F.count("*").alias("letters"))
        .select(F.col("window.start").alias("at"), "queue", "reason", "letters")
    )
    earlier = counts.select(
        (F.col("at") + F.expr(f"interval {span}")).alias("at"), "queue", "reason", F.col("letters").alias("before")
    )
    compared = counts.join(earlier, ["at", "queue", "reason"], "left").withColumn(
        "before", F.coalesce("before", F.lit(0))
    )
    grown = compared.withColumn("growth", F.col("letters") / F.greatest("before", F.lit(1)))
    crossing = (F.col("letters") >= rule.minimum) & (F.col("growth") >= rule.factor)
    return grown.where(crossing).withColumn("threshold", F.lit(float(rule.factor))).select(*ALERTS.names)
