"""What the connector is measured against: a plain Python data source that yields a tuple a row, with the same columns
and values, from nowhere: what it takes is what Spark takes for rows of Python; and one that reads the same stream with
our own client, message by message, as somebody would who has no connector."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from leveret.client import blocking
from leveret.spark.schema import COLUMNS, pick

__all__ = ["RowSource", "StreamedRowSource"]


class RowSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "rows"

    def schema(self) -> StructType:
        named = self.options.get("columns")
        return pick(named.split(",") if named else None)

    def reader(self, schema: StructType) -> DataSourceReader:
        return RowReader(int(self.options["rows"]), int(self.options["size"]), schema.names)


class RowReader(DataSourceReader):
    def __init__(self, rows: int, size: int, columns: Sequence[str]) -> None:
        self._rows = rows
        self._size = size
        self._columns = list(columns)

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(4)]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        values: dict[str, Any] = dict.fromkeys(COLUMNS.names)
        values.update(
            body=bytes(self._size),
            exchange="",
            routing_key=f"bench-{partition.value}",
            stream=f"bench-{partition.value}",
            partition=partition.value,
            timestamp=datetime.now(UTC),
            delivery_mode=2,
        )
        row = tuple(values[name] for name in self._columns)
        place = self._columns.index("offset")
        before, behind = row[:place], row[place + 1 :]
        for offset in range(self._rows // 4):
            yield (*before, offset, *behind)


class StreamedRowSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "streamed-rows"

    def schema(self) -> StructType:
        return pick(["body", "offset"])

    def reader(self, schema: StructType) -> DataSourceReader:
        return StreamedRowReader(self.options["url"], int(self.options["rows"]))


class StreamedRowReader(DataSourceReader):
    def __init__(self, url: str, rows: int) -> None:
        self._url = url
        self._rows = rows

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(4)]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        with (
            blocking.connect(self._url) as connection,
            connection.stream(f"bench-{partition.value}", offset="first") as stream,
        ):
            for message in stream:
                yield message.body, message.offset
                if message.offset == self._rows // 4 - 1:
                    return
