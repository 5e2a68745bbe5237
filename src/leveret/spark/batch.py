"""Reading streams in one go: `spark.read.format("leveret")`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from leveret.spark.broker import Broker
from leveret.spark.errors import DataLoss, InvalidOption
from leveret.spark.places import EARLIEST, LATEST, Places
from leveret.spark.range_reader import RangeReader
from leveret.spark.ranges import Range, cut
from leveret.spark.streams import Streams
from leveret.spark.wishes import Wishes

__all__ = ["FilteringStreamBatch", "StreamBatch"]

SECOND = timedelta(seconds=1)


class StreamBatch(DataSourceReader):
    def __init__(self, options: Mapping[str, Any], columns: Sequence[str]) -> None:
        self._options = dict(options)
        self._columns = list(columns)
        self._broker = Broker(options, "leveret-spark batch")
        self._streams = Streams(self._broker, options)
        self._start = Places("startingOffsets", options["startingOffsets"], EARLIEST, options["startingTimestamp"])
        self._end = Places("endingOffsets", options["endingOffsets"], LATEST, options["endingTimestamp"])
        if EARLIEST in self._end.words:
            raise InvalidOption('the option endingOffsets is "earliest": there would be nothing to read')
        if LATEST in self._start.words:
            raise InvalidOption('the option startingOffsets is "latest": a batch would have nothing to read')
        self._wishes = Wishes()

    def partitions(self) -> Sequence[InputPartition]:
        try:
            return self._cut()
        finally:
            self._broker.close()

    def _cut(self) -> list[InputPartition]:
        options, streams = self._options, self._streams
        names = streams.find()
        ends = streams.ends(names)
        start = streams.locate(names, self._start, options["groupName"])
        stop = streams.locate(names, self._end, options["groupName"])
        ranges = []
        for name, partition in names.items():
            if start[name] < ends[name].first and isinstance(self._start.of(name), int):
                self._tell_loss(name, start[name], ends[name].first)
            if stop[name] > ends[name].end:
                raise InvalidOption(
                    f"endingOffsets of {name!r} is {stop[name]}, and the stream ends at {ends[name].end}"
                )
            ranges.append(Range(name, partition, max(start[name], ends[name].first), stop[name]))
        wanted = [one for one in self._narrowed(names, ranges) if len(one) > 0]
        # An empty list is taken for one partition without a value.
        return [*cut(wanted, options["maxRecordsPerPartition"], options["minPartitions"])] or [InputPartition(None)]

    def _tell_loss(self, name: str, asked: int, first: int) -> None:
        if self._options["failOnDataLoss"]:
            raise DataLoss(
                f"startingOffsets of {name!r} is {asked}, and the oldest message there is is {first}: what was "
                "between is gone; "
                "begin there, or pass over it with failOnDataLoss=false"
            )

    def _narrowed(self, names: Mapping[str, int], ranges: list[Range]) -> list[Range]:
        """Only what the filters can be true for."""
        wishes = self._wishes
        lowest: dict[str, int] = {}
        highest: dict[str, int] = {}
        if wishes.moment_from is not None:
            lowest = self._streams.locate(names, Places("timestamp", None, wishes.moment_from), None)
        if wishes.moment_to is not None:
            # Moments are found by the second.
            highest = self._streams.locate(names, Places("timestamp", None, wishes.moment_to + SECOND), None)
        made = []
        for one in ranges:
            start = max(one.start, wishes.offset_from or 0, lowest.get(one.stream, 0))
            end = min(one.end, highest.get(one.stream, one.end))
            if wishes.offset_to is not None:
                end = min(end, wishes.offset_to + 1)
            made.append(Range(one.stream, one.partition, start, max(start, end)))
        return made

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, Range):
            return iter(())
        reader = RangeReader(self._broker, partition, self._columns, self._wishes, self._options["failOnDataLoss"])
        return reader.read()


class FilteringStreamBatch(StreamBatch):
    """The same where Spark offers filters: it refuses a reader that could take them where it does not."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's name
        self._wishes.take(filters)
        return filters
