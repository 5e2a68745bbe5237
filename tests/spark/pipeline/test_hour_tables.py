"""Tables of batches: whatever an attempt that was killed has left behind, the next one's rows are there alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from leveret.spark.pipeline.analysis.hour_tables import BatchTable, Hour, columns, hours_of, with_hour

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SCHEMA = columns(number="long", at="timestamp")
HOUR = Hour(NOON.date(), NOON.hour)


def rows(spark: SparkSession, *numbers: int, at: datetime = NOON) -> DataFrame:
    return with_hour(spark.createDataFrame([(number, at) for number in numbers], SCHEMA).coalesce(1), "at")


def test_an_hour_that_an_attempt_has_emptied_is_known_to_the_next_but_one(spark: SparkSession, tmp_path: Path) -> None:
    """Of two messages with one id another may be the first the second time, and belong to another hour. Tables that are
    made of this one must then forget what the first attempt had in its hour, whoever has emptied it."""
    path = str(tmp_path / "table")
    first, later = rows(spark, 1), rows(spark, 2, at=NOON + timedelta(hours=1))
    BatchTable(spark, path, SCHEMA).create().write(first, "q-0", {HOUR})
    # Dies as soon as it has made room for itself.
    assert BatchTable(spark, path, SCHEMA)._clear("q-0") == {HOUR}
    third = BatchTable(spark, path, SCHEMA)
    assert third.write(later, "q-0", hours_of(later)) == {HOUR, HOUR.after(1)}
    assert [row.number for row in third.read().collect()] == [2]
    assert third.read({HOUR}).count() == 0


def test_tasks_of_a_killed_attempt_are_not_taken_over(spark: SparkSession, tmp_path: Path) -> None:
    """A driver that is killed between the end of its tasks and the end of their job leaves their files where the
    committer of the next job looks for those of its own tasks."""
    first = BatchTable(spark, str(tmp_path / "table"), SCHEMA).create()
    found = rows(spark, 1, 2)
    first.write(found, "q-0", hours_of(found))
    left = tmp_path / "table" / "_temporary/0/task_202603011200000000000000000000_0007_m_000000" / HOUR.path
    left.mkdir(parents=True)
    (tmp_path / "table" / HOUR.path / "batch=q-0").rename(left / "batch=q-0")

    again = BatchTable(spark, str(tmp_path / "table"), SCHEMA).create()
    assert again.write(found, "q-0", hours_of(found)) == {HOUR}
    assert sorted(row.number for row in again.read().collect()) == [1, 2]
