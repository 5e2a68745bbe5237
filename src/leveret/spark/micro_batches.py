"""Reading streams as they grow: `spark.readStream.format("leveret")`.

A micro-batch is a range of offsets of each stream. Spark writes it down before it runs and reads the same range again
after a crash; nothing here remembers what was read. Offsets are told to the broker only for people to see the lag."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from leveret.spark.broker import Broker
from leveret.spark.errors import DataLoss, InvalidOption, SourceFailed
from leveret.spark.places import LATEST, Places
from leveret.spark.range_reader import RangeReader
from leveret.spark.ranges import Range, cut, limited
from leveret.spark.streams import Ends, Streams
from leveret.spark.wishes import Wishes

__all__ = ["MicroBatches"]

log = logging.getLogger(__name__)


class MicroBatches(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: Mapping[str, Any], columns: Sequence[str]) -> None:
        for name in ("endingOffsets", "endingTimestamp", "limit"):
            if options[name] is not None:
                raise InvalidOption(f"the option {name} is for batches: a streaming query ends when it is stopped")
        least, most = options["minOffsetsPerTrigger"], options["maxOffsetsPerTrigger"]
        if least is not None and most is not None and least > most:
            raise InvalidOption(f"minOffsetsPerTrigger is {least}, which is above maxOffsetsPerTrigger, {most}")
        self._options = dict(options)
        self._columns = list(columns)
        self._broker = Broker(options, "leveret-spark stream")
        self._streams = Streams(self._broker, options)
        self._start = Places("startingOffsets", options["startingOffsets"], LATEST, options["startingTimestamp"])
        # For Trigger.AvailableNow: where it ends.
        self._target: dict[str, int] | None = None
        self._latest: dict[str, int] = {}
        # Up to where the broker was told that we are.
        self._told: dict[str, int] | None = None
        self._last_batch_at = time.monotonic()

    # ---- on the driver

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        names = self._streams.find()
        found = self._streams.locate(names, self._start, self._options["groupName"])
        ends = self._streams.ends(names)
        for name, offset in found.items():
            if isinstance(self._start.of(name), int):
                if offset < ends[name].first:
                    found[name] = self._after_loss(name, offset, ends[name])
                elif offset > ends[name].end:
                    raise InvalidOption(
                        f"startingOffsets of {name!r} is {offset}, and the stream ends at {ends[name].end}"
                    )
        # Nothing was read yet that could be told.
        self._told = dict(found)
        return found

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self._options["maxOffsetsPerTrigger"]
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = {name: ends.end for name, ends in self._streams.ends(self._streams.find()).items()}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        ends = self._streams.ends(self._streams.find() if self._target is None else self._target)
        # Whatever Spark goes on from is committed. It says so itself only with the next batch, and so of the last one
        # of a query never.
        self.commit(start)
        start = dict(start)
        self._tell_deleted([name for name in start if name not in ends])
        for name, one in ends.items():
            if name not in start:
                # A partition that is new: all of it.
                start[name] = one.first
            elif start[name] > one.end:
                raise SourceFailed(
                    f"the checkpoint is at offset {start[name]} of the stream {name!r}, which ends at {one.end}: "
                    "was it deleted and "
                    "made anew? Begin with a new checkpoint"
                )
        self._latest = {name: one.end for name, one in ends.items()}
        reachable = (
            self._latest
            if self._target is None
            else {name: min(end, self._target[name]) for name, end in self._latest.items()}
        )
        end = {name: max(start[name], reachable.get(name, start[name])) for name in start}
        waiting = sum(end[name] - start[name] for name in end)
        least, most = self._options["minOffsetsPerTrigger"], self._options["maxOffsetsPerTrigger"]
        if least is not None and self._target is None and waiting < least:
            if time.monotonic() - self._last_batch_at < self._options["maxTriggerDelay"]:
                return start
        if waiting == 0:
            return start
        self._last_batch_at = time.monotonic()
        if most is not None and not isinstance(limit, ReadAllAvailable):
            return limited(start, end, most)
        return end

    def reportLatestOffset(self) -> dict[str, int] | None:  # noqa: N802
        return self._latest or None

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        names = self._streams.find()
        self._tell_deleted([name for name in end if name not in names])
        ends = self._streams.ends({name: names[name] for name in end if name in names})
        ranges = []
        for name in ends:
            # A stream that is new is read from its first message on.
            first, stop = start.get(name, 0), end[name]
            if first < ends[name].first and first < stop:
                first = self._after_loss(name, first, ends[name])
            ranges.append(Range(name, names[name], first, max(first, stop)))
        ranges = [one for one in ranges if len(one) > 0]
        return list(cut(ranges, self._options["maxRecordsPerPartition"], self._options["minPartitions"]))

    def _tell_deleted(self, names: list[str]) -> None:
        """Streams that the checkpoint knows and that are not among those that are read now."""
        if not names:
            return
        told = ", ".join(names)
        text = f"the checkpoint has offsets of {told}, which is not read any more: deleted, or not in the options"
        if self._options["failOnDataLoss"]:
            raise DataLoss(f"{text}; begin with a new checkpoint, or go on without with failOnDataLoss=false")
        log.warning("%s; the query goes on without, as failOnDataLoss=false says", text)

    def _after_loss(self, name: str, asked: int, ends: Ends) -> int:
        text = (
            f"the messages {asked} to {ends.first - 1} of the stream {name!r} are gone: the oldest there is is "
            f"{ends.first}"
        )
        if self._options["failOnDataLoss"]:
            raise DataLoss(f"{text}; keep them longer, read sooner, or pass over them with failOnDataLoss=false")
        log.warning("%s; they are passed over, as failOnDataLoss=false says", text)
        return ends.first

    def commit(self, end: dict[str, int]) -> None:
        group = self._options["groupName"]
        if group is None or end == self._told:
            return
        try:
            self._streams.store(group, end)
            self._told = dict(end)
        except SourceFailed as error:
            # The checkpoint is what counts: this is for people to look at, and comes again with the next batch.
            log.warning("not told to the broker: %s", error)

    def stop(self) -> None:
        self._broker.close()

    # ---- on executors

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Range)
        reader = RangeReader(self._broker, partition, self._columns, Wishes(), self._options["failOnDataLoss"])
        return reader.read()
