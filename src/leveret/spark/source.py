"""`format("leveret")`: which reader or writer does what the options ask for."""

from __future__ import annotations

import sys

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from leveret.spark.batch import FilteringStreamBatch, StreamBatch
from leveret.spark.errors import InvalidOption
from leveret.spark.micro_batches import MicroBatches
from leveret.spark.options import READ, WRITE, read_options
from leveret.spark.queue_drain import QueueDrain
from leveret.spark.queue_snapshot import QueueSnapshot
from leveret.spark.schema import COLUMNS, pick
from leveret.spark.sink import BatchWriter, StreamWriter

__all__ = ["LeveretDataSource"]

# Spark 4.3 keeps what was pushed with the relation, uses it for every other query of the same DataFrame or view, and
# for both sides of a union. So filters are taken only if the user says that there is one query.
#
# Spark asks this worker for a reader to push filters to. It asks others for the same reader later on, and refuses one
# that takes filters if spark.sql.python.filterPushdown.enabled is off, which it is by default; and it pushes them only
# here.
_PUSHING_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


def _is_pushing() -> bool:
    """Whether this process is that worker: forked by Spark's daemon, which imports it, or started as a program."""
    program = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PUSHING_WORKER in sys.modules or getattr(program, "name", None) == _PUSHING_WORKER


class LeveretDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "leveret"

    def schema(self) -> StructType:
        return pick(read_options(self.options, READ)["columns"])

    def reader(self, schema: StructType) -> DataSourceReader:
        options, columns = read_options(self.options, READ), self._columns(schema)
        if options["queue"] is not None:
            return QueueSnapshot(options, columns)
        pushes = options["pushFilters"] and _is_pushing()
        return FilteringStreamBatch(options, columns) if pushes else StreamBatch(options, columns)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        options = read_options(self.options, READ)
        if options["queue"] is not None:
            return QueueDrain(options, self._columns(schema))
        return MicroBatches(options, self._columns(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return BatchWriter(read_options(self.options, WRITE), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        return StreamWriter(read_options(self.options, WRITE), schema, overwrite)

    @staticmethod
    def _columns(schema: StructType) -> list[str]:
        """A schema that the user gives may leave out columns, and must not change them."""
        for field in schema.fields:
            if field.name not in COLUMNS.names or COLUMNS[field.name].dataType != field.dataType:
                known = ", ".join(f"{one.name} {one.dataType.simpleString()}" for one in COLUMNS.fields)
                raise InvalidOption(
                    f"the schema has {field.name} {field.dataType.simpleString()}; the columns are {known}"
                )
        return list(schema.names)
