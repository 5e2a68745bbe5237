"""The report: the gold tables summed up until they fit on a page, and the page written.

    write_report(spark, Lake("./lake"))

Spark does the sums; what comes to the driver is as large as the page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from leveret.spark.pipeline.analysis.traffic import SKETCH_K
from leveret.spark.pipeline.lake import Lake
from leveret.spark.pipeline.querying.views import read_table
from leveret.spark.pipeline.reporting.report_page import OTHERS, Figures, render

__all__ = ["write_report"]

# More points than this say nothing more on a page.
POINTS_MIN, POINTS_MAX = 30, 160
STEPS_MIN = (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 10080)
KEYS, BARS, ROWS = 6, 10, 25
LATENCIES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
REASONS = ("rejected", "expired", "maxlen", "delivery_limit")


def write_report(
    spark: SparkSession, lake: Lake, path: str | Path | None = None, *, hours: float | None = None
) -> Path:
    """Writes the page, by default to <lake>/reports/report.html, or into this folder if the lake is elsewhere, and
    gives where it is. With `hours` only the last hours that the tables have are shown."""
    if path is None:
        path = Path("leveret-report.html") if "://" in lake.root else Path(lake.reports, "report.html")
    figures = read_figures(spark, lake, hours)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render(figures), "utf-8")
    return path.resolve()


def read_figures(spark: SparkSession, lake: Lake, hours: float | None = None) -> Figures:
    traffic, deaths = read_table(spark, lake, "traffic_by_minute"), read_table(spark, lake, "deadletters_by_minute")
    start, end = _span([table for table in (traffic, deaths) if table is not None])
    if start is not None and end is not None and hours is not None:
        start = max(start, end - timedelta(hours=hours))
    step = _step(start, end)
    times = _times(start, end, step)

    def within(table: DataFrame | None, column: str) -> DataFrame | None:
        if table is None or start is None:
            return table
        return table.where(F.unix_seconds(column) >= int(start.timestamp()))

    traffic, deaths = within(traffic, "minute"), within(deaths, "minute")
    return Figures(
        lake=lake.root,
        made_at=datetime.now(UTC),
        start=start,
        end=end,
        step=step,
        times=times,
        death_times=times,
        **_traffic(traffic, times, step),
        **_latencies(within(read_table(spark, lake, "traffic_parts"), "minute"), times, step),
        top_keys=_top_keys(within(read_table(spark, lake, "top_routing_keys"), "hour")),
        **_deaths(deaths, times, step),
        clusters=_rows(read_table(spark, lake, "deadletter_clusters"), F.desc("letters")),
        alerts=_rows(within(read_table(spark, lake, "deadletter_alerts"), "at"), F.col("at")),
        quarantined=_count(read_table(spark, lake, "quarantine")),
    )


# ---- time


def _span(tables: Sequence[DataFrame]) -> tuple[datetime | None, datetime | None]:
    """From the first minute to the end of the last one."""
    rows = [
        table.agg(F.min(F.unix_seconds("minute")), F.max(F.unix_seconds("minute"))).collect()[0] for table in tables
    ]
    known = [row for row in rows if row[0] is not None]
    if not known:
        return None, None
    first, last = min(row[0] for row in known), max(row[1] for row in known)
    return datetime.fromtimestamp(first, UTC), datetime.fromtimestamp(last, UTC) + timedelta(minutes=1)


def _step(start: datetime | None, end: datetime | None) -> timedelta:
    span = (end - start) if start is not None and end is not None else timedelta()
    wanted = span.total_seconds() / 60 / POINTS_MAX
    return timedelta(minutes=next((minutes for minutes in STEPS_MIN if minutes >= wanted), STEPS_MIN[-1]))


def _times(start: datetime | None, end: datetime | None, step: timedelta) -> list[datetime]:
    if start is None or end is None:
        return []
    step_s = int(step.total_seconds())
    first = int(start.timestamp()) // step_s * step_s
    # A plot of two minutes is no plot: what comes before them is shown as well, empty.
    first = min(first, (int(end.timestamp()) - 1) // step_s * step_s - (POINTS_MIN - 1) * step_s)
    return [datetime.fromtimestamp(at, UTC) for at in range(first, int(end.timestamp()), step_s)]


def _at(step: timedelta) -> Column:
    step_s = int(step.total_seconds())
    return (F.floor(F.unix_seconds("minute") / step_s) * step_s).alias("at")


def _series(rows: Sequence[Row], column: str, times: Sequence[datetime]) -> list[Any]:
    by_time = {row["at"]: row[column] for row in rows}
    return [by_time.get(int(moment.timestamp())) for moment in times]


# ---- traffic


def _traffic(traffic: DataFrame | None, times: list[datetime], step: timedelta) -> dict[str, Any]:
    if traffic is None:
        return {"keys": None, "octets": [], "messages": 0, "tenants": []}
    sums = [F.sum("messages").alias("messages"), F.sum("bytes").alias("bytes")]
    moments = traffic.groupBy(_at(step)).agg(*sums).collect()
    tenants = traffic.where("tenant is not null").groupBy("tenant").agg(*sums).orderBy(F.desc("messages")).limit(BARS)
    return {
        "keys": _by_key(traffic, times, step) if moments else {},
        "octets": [value or 0 for value in _series(moments, "bytes", times)],
        "messages": sum(row["messages"] for row in moments),
        "tenants": [(row["tenant"], row["messages"], row["bytes"]) for row in tenants.collect()],
    }


def _latencies(parts: DataFrame | None, times: list[datetime], step: timedelta) -> dict[str, Any]:
    """From the sketches of which the table's percentiles are made: percentiles of groups cannot be put together."""
    if parts is None:
        return {"latencies": {}, "latency_all": {}}
    timed = parts.where("timed > 0").groupBy(_at(step)).agg(_merged().alias("latencies")).persist()
    try:
        moments = timed.select("at", *_percentiles("latencies")).collect()
        whole = (
            timed.agg(_merged().alias("latencies"))
            .where(F.lit(bool(moments)))
            .select(*_percentiles("latencies"))
            .collect()
        )
    finally:
        timed.unpersist()
    return {
        "latencies": {name: _series(moments, name, times) for name in LATENCIES},
        "latency_all": whole[0].asDict() if whole else {},
    }


def _merged() -> Column:
    return F.kll_merge_agg_double("latencies", SKETCH_K)


def _percentiles(sketch: str) -> list[Column]:
    return [
        F.kll_sketch_get_quantile_double(sketch, F.lit(fraction)).alias(name) for name, fraction in LATENCIES.items()
    ]


def _by_key(traffic: DataFrame, times: list[datetime], step: timedelta) -> dict[str, list[float]]:
    busiest = (
        traffic.groupBy("routing_key")
        .agg(F.sum("messages").alias("messages"))
        .orderBy(F.desc("messages"), "routing_key")
    )
    names = [row["routing_key"] for row in busiest.limit(KEYS + 1).collect()]
    shown = names if len(names) <= KEYS else names[: KEYS - 1]
    key = F.when(F.col("routing_key").isin(shown), F.col("routing_key")).otherwise(OTHERS).alias("key")
    rows = traffic.groupBy(_at(step), key).agg(F.sum("messages").alias("messages")).collect()
    wanted = [*shown, OTHERS] if len(shown) < len(names) else shown
    return {
        name or "(empty)": [
            value or 0 for value in _series([row for row in rows if row["key"] == name], "messages", times)
        ]
        for name in wanted
    }


def _top_keys(table: DataFrame | None) -> list[tuple[str, str, int]] | None:
    if table is None:
        return None
    rows = table.groupBy("exchange", "routing_key").agg(F.sum("messages").alias("messages"))
    return [(row[0], row[1], row[2]) for row in rows.orderBy(F.desc("messages"), "routing_key").limit(BARS).collect()]


# ---- dead letters


def _deaths(deaths: DataFrame | None, times: list[datetime], step: timedelta) -> dict[str, Any]:
    if deaths is None:
        return {"deaths": None, "death_queues": []}
    rows = deaths.groupBy(_at(step), "reason").agg(F.sum("letters").alias("letters")).collect()
    found = {row["reason"] for row in rows}
    reasons = [reason for reason in REASONS if reason in found] + sorted(found - set(REASONS))
    queues = deaths.groupBy("queue").agg(F.sum("letters").alias("letters"), F.sum("repeated").alias("repeated"))
    return {
        "deaths": {
            reason: [
                value or 0 for value in _series([row for row in rows if row["reason"] == reason], "letters", times)
            ]
            for reason in reasons
        },
        "death_queues": [
            (row[0] or "(unknown)", row[1], row[2]) for row in queues.orderBy(F.desc("letters")).limit(BARS).collect()
        ],
    }


def _rows(table: DataFrame | None, order: Column) -> list[dict[str, Any]] | None:
    if table is None:
        return None
    moments = [field.name for field in table.schema.fields if field.dataType.typeName() == "timestamp"]
    # As numbers: a datetime would come in the zone of this process.
    found = table.orderBy(order).limit(ROWS).withColumns({name: F.unix_seconds(name) for name in moments}).collect()
    rows = [row.asDict() for row in found]
    for row in rows:
        row.update({name: datetime.fromtimestamp(row[name], UTC) for name in moments if row[name] is not None})
    return rows


def _count(table: DataFrame | None) -> int | None:
    return None if table is None else table.count()
