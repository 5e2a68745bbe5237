"""Tables of Parquet that are cut by hour, and that a batch can be written to twice and stand in once.

Two kinds, both below `event_date=<date>/event_hour=<0..23>`, in UTC:

- A `BatchTable` has one folder for each batch of each query below the hour. Before a query's first batch in a process
  is written, whatever an attempt before a crash has left of that batch is deleted, in every hour and among the files
  that were on their way there; so it does not matter where that attempt ended, nor whether it wrote other rows. Only a
  first batch can be such a second attempt: a batch that fails ends its query. Batches that came to their end long ago
  are put together (batch_merging.py), so that an hour keeps few files; the newest never are.
- An `HourTable` is made anew, hour by hour, from a BatchTable. What it has follows from that table alone, so that
  making an hour twice changes nothing. A crash while an hour is replaced may leave it missing: the batch that was at
  work comes again, and with it the hour.

Each table has one writer, the job it belongs to. A table that has no rows yet has a file without rows, so that a
query finds nothing rather than no table. Never decides what rows say."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple, Self

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from leveret.spark.pipeline.analysis.batch_merging import BatchMerger
from leveret.spark.pipeline.job_errors import short_error

__all__ = ["BatchTable", "Hour", "HourTable", "batch_key", "columns", "hours_of", "path_exists", "with_hour"]

DATE, HOUR, BATCH = "event_date", "event_hour", "batch"
# Where a table without rows has its file without rows.
NEVER = date(1970, 1, 1)
# In the folder of a batch that was emptied.
CLEARED = "_cleared"
QUERY_ID = "sql.streaming.queryId"
log = logging.getLogger(__name__)


def columns(before: StructType | None = None, /, **more: str) -> StructType:
    """These columns behind those; types by Spark's names, such as "long"."""
    whole = StructType(list(before.fields) if before is not None else [])
    for name, kind in more.items():
        whole.add(name, kind)
    return whole


class Hour(NamedTuple):
    date: date
    hour: int

    @property
    def path(self) -> str:
        return f"{DATE}={self.date.isoformat()}/{HOUR}={self.hour}"

    def after(self, hours: int) -> Hour:
        moment = datetime(self.date.year, self.date.month, self.date.day, self.hour, tzinfo=UTC) + timedelta(
            hours=hours
        )
        return Hour(moment.date(), moment.hour)


def with_hour(rows: DataFrame, moment: str) -> DataFrame:
    """The rows with the columns that say to which hour they belong."""
    return rows.withColumn(DATE, F.to_date(moment)).withColumn(HOUR, F.hour(moment))


def batch_key(rows: DataFrame, batch: int) -> str:
    """The name of a batch, for all times: that of its query, which the checkpoint keeps, and its number."""
    query = rows.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    assert query is not None, "a batch of a streaming query knows its query"
    return f"q{query}-{batch}"


def hours_of(rows: DataFrame) -> set[Hour]:
    """Which hours the rows belong to: a job for Spark, so ask once."""
    return {Hour(row[DATE], row[HOUR]) for row in rows.select(DATE, HOUR).distinct().collect()}


class _Table:
    # What is below the folder of an hour.
    _below = ""

    def __init__(self, spark: SparkSession, path: str, schema: StructType) -> None:
        """`schema` is that of the rows, without the columns of hour and batch."""
        self._spark = spark
        self.path = path
        self.schema = schema

    def create(self) -> Self:
        """Makes a table without rows if there is none yet, which the job that writes it does and readers do not."""
        folder = f"{self.path}/{Hour(NEVER, 0).path}{self._below}"
        if not path_exists(self._spark, f"{folder}/_SUCCESS"):
            self._spark.createDataFrame([], self.schema).coalesce(1).write.mode("overwrite").parquet(folder)
        return self

    def read(self, hours: Iterable[Hour] | None = None) -> DataFrame:
        """The rows of these hours, or all."""
        if hours is None:
            return self._spark.read.schema(self._whole_schema()).parquet(self.path)
        # Named one by one, or Spark would list every folder of the table for the rows of one hour.
        found = [path for hour in sorted(hours) if path_exists(self._spark, path := f"{self.path}/{hour.path}")]
        if not found:
            return self._spark.createDataFrame([], self._whole_schema())
        return self._spark.read.schema(self._whole_schema()).option("basePath", self.path).parquet(*found)

    def _whole_schema(self) -> StructType:
        return columns(self.schema, event_date="date", event_hour="integer")

    def _delete(self, path: str) -> None:
        place, files = file_system(self._spark, path)
        files.delete(place(path), True)


# ---- folders, wherever the lake is


def file_system(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """Hadoop's class of paths, and the file system that this path is on."""
    jvm: Any = spark.sparkContext._jvm
    place = jvm.org.apache.hadoop.fs.Path
    return place, place(path).getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())


def path_exists(spark: SparkSession, path: str) -> bool:
    place, files = file_system(spark, path)
    return bool(files.exists(place(path)))


class BatchTable(_Table):
    _below = f"/{BATCH}=none"

    def __init__(self, spark: SparkSession, path: str, schema: StructType) -> None:
        super().__init__(spark, path, schema)
        self._is_first = True
        # Whether no merge can have been left half done.
        self._is_mended = False

    @functools.cached_property
    def _merger(self) -> BatchMerger:
        """Made when it is needed: those who only read need no way to the file system, and may have none."""
        return BatchMerger(self._spark, self.path)

    def mend(self) -> None:
        """Ends a merge that a crash or an error has cut off. Each batch begins with it, before it reads the table."""
        if not self._is_mended:
            self._merger.mend()
            self._is_mended = True

    def write(self, rows: DataFrame, key: str, hours: set[Hour]) -> set[Hour]:
        """Writes a batch's rows, which belong to these hours; none are in none. Returns the hours in which the table
        has changed, by this or by a former attempt."""
        self.mend()
        changed = self._clear(key) if self._is_first else set()
        self._is_first = False
        if hours:
            keyed = rows.withColumn(BATCH, F.lit(key)).select(*self.schema.names, DATE, HOUR, BATCH)
            keyed.write.mode("append").partitionBy(DATE, HOUR, BATCH).parquet(self.path)
        return changed | hours

    def merge_old(self, key: str) -> None:
        """Puts older batches together where it is time for that. The last thing that a batch does: those before `key`
        are committed then. If it fails the batch is good nevertheless, and the next one mends the table first."""
        self._is_mended = False
        try:
            self._merger.merge_old(key)
        except (PySparkException, Py4JError, OSError) as error:
            log.warning("folders of %s are not merged, which is tried again: %s", self.path, short_error(error))
        else:
            self._is_mended = True

    def _whole_schema(self) -> StructType:
        return columns(super()._whole_schema(), batch="string")

    def _clear(self, key: str) -> set[Hour]:
        # Where Hadoop's committer keeps the files of tasks until their job ends. It takes whatever is there for its
        # own, also what tasks of a driver that was killed have left.
        self._delete(f"{self.path}/_temporary")
        place, files = file_system(self._spark, self.path)
        found = set()
        for status in files.globStatus(place(f"{self.path}/{DATE}=*/{HOUR}=*/{BATCH}={key}")):
            folder = status.getPath()
            hour = folder.getParent()
            day, number = hour.getParent().getName(), hour.getName()
            found.add(Hour(date.fromisoformat(day.partition("=")[2]), int(number.partition("=")[2])))
            # The folder stays, by a file that no reader looks at: if this attempt dies as well, the next one must
            # still know that the hour has changed, and perhaps writes no row to it.
            files.create(place(folder, CLEARED), True).close()
            for one in files.listStatus(folder):
                if one.getPath().getName() != CLEARED:
                    files.delete(one.getPath(), True)
        return found


class HourTable(_Table):
    def replace(self, rows: DataFrame, hours: Iterable[Hour]) -> None:
        """Makes these hours consist of these rows, which have no others. An hour without rows is empty then."""
        rows = rows.select(*self.schema.names, DATE, HOUR).coalesce(1).persist()
        try:
            there = hours_of(rows)
            rows.write.mode("overwrite").option("partitionOverwriteMode", "dynamic").partitionBy(DATE, HOUR).parquet(
                self.path
            )
        finally:
            rows.unpersist()
        assert there <= set(hours), "rows of an hour that is not replaced would take the place of all that was there"
        for hour in set(hours) - there:
            self._delete(f"{self.path}/{hour.path}")
