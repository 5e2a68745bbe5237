"""Reading streams in one go: `spark.read.format("leveret")`."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from leveret.spark.broker_client import Broker
from leveret.spark.errors import DataLoss, InvalidOption
from leveret.spark.offset_spec import EARLIEST, LATEST, OffsetSpec
from leveret.spark.pushed_filters import PushedFilters
from leveret.spark.range_reader import RangeReader
from leveret.spark.ranges import Range, cut
from leveret.spark.streams import Streams

__all__ = ["FilteringStreamBatch", "StreamBatch"]

log = logging.getLogger(__name__)

SECOND = timedelta(seconds=1)


class StreamBatch(DataSourceReader):
    def __init__(self, options: Mapping[str, Any], columns: Sequence[str]) -> None:
        self._options = dict(options)
        self._columns = list(columns)
        self._broker = Broker(options, "leveret-spark batch")
        self._streams = Streams(self._broker, options)
        self._start = OffsetSpec("startingOffsets", options["startingOffsets"], EARLIEST, options["startingTimestamp"])
        self._end = OffsetSpec("endingOffsets", options["endingOffsets"], LATEST, options["endingTimestamp"])
        if EARLIEST in self._end.words:
            raise InvalidOption('the option endingOffsets is "earliest": there would be nothing to read')
        if LATEST in self._start.words:
            raise InvalidOption('the option startingOffsets is "latest": a batch would have nothing to read')
        self._pushed_filters = PushedFilters()

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
            if start[name] < ends[name].first and self._start.is_exact(name):
                self._tell_loss(name, start[name], ends[name].first)
            if stop[name] > ends[name].end:
                raise InvalidOption(
                    f"endingOffsets of {name!r} is {stop[name]}, and the stream ends at {ends[name].end}"
                )
            first = max(start[name], ends[name].first)
            ranges.append(Range(name, partition, first, stop[name], ends[name].identity))
        wanted = [one for one in self._narrowed(names, ranges) if len(one) > 0]
        # An empty list is taken for one partition without a value.
        return [*cut(wanted, options["maxRecordsPerPartition"], options["minPartitions"])] or [InputPartition(None)]

    def _tell_loss(self, name: str, asked: int, first: int) -> None:
        text = (
            f"startingOffsets of {name!r} is {asked}, and the oldest message there is is {first}: what was between is "
            "gone"
        )
        if self._options["failOnDataLoss"]:
            raise DataLoss(f"{text}; begin there, or pass over it with failOnDataLoss=false")
        log.warning("%s; it is passed over, as failOnDataLoss=false says", text)

    def _narrowed(self, names: Mapping[str, int], ranges: list[Range]) -> list[Range]:
        """Only what the filters can be true for."""
        pushed_filters = self._pushed_filters
        lowest: dict[str, int] = {}
        highest: dict[str, int] = {}
        if pushed_filters.moment_from is not None:
            lowest = self._streams.locate(names, OffsetSpec("timestamp", None, pushed_filters.moment_from), None)
        if pushed_filters.moment_to is not None:
            # Moments are found by the second.
            highest = self._streams.locate(
                names, OffsetSpec("timestamp", None, pushed_filters.moment_to + SECOND), None
            )
        made = []
        for one in ranges:
            start = max(one.start, pushed_filters.offset_from or 0, lowest.get(one.stream, 0))
            end = min(one.end, highest.get(one.stream, one.end))
            if pushed_filters.offset_to is not None:
                end = min(end, pushed_filters.offset_to + 1)
            made.append(replace(one, start=start, end=max(start, end)))
        return made

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, Range):
            return iter(())
        reader = RangeReader(
            self._broker, partition, self._columns, self._pushed_filters, self._options["failOnDataLoss"]
        )
        return reader.read()


class FilteringStreamBatch(StreamBatch):
    """The same where Spark offers filters: it refuses a reader that could take them where it does not."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's name
        self._pushed_filters.take(filters)
        return filters
