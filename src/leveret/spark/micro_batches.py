"""Reading streams as they grow: `spark.readStream.format("leveret")`.

A micro-batch is a range of offsets of each stream. Spark writes it down before it runs and reads the same range again
after a crash; nothing here remembers what was read. What was lost before a batch could be planned is written down with
it (positions.py). Offsets are told to the broker only for people to see the lag."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from leveret.spark.broker_client import Broker
from leveret.spark.errors import InvalidOption, SourceFailed
from leveret.spark.loss_policy import LossPolicy
from leveret.spark.offset_spec import LATEST, OffsetSpec
from leveret.spark.positions import Position, as_json, count_planned, read_positions
from leveret.spark.pushed_filters import PushedFilters
from leveret.spark.range_reader import RangeReader
from leveret.spark.ranges import Range, cut, limited
from leveret.spark.streams import Ends, Streams

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
        self._start = OffsetSpec("startingOffsets", options["startingOffsets"], LATEST, options["startingTimestamp"])
        self._losses = LossPolicy(options["failOnDataLoss"])
        # For Trigger.AvailableNow: where it ends.
        self._target: dict[str, Ends] | None = None
        self._latest: dict[str, int] = {}
        # Up to where the broker was told that we are.
        self._told: dict[str, Position] | None = None
        self._last_batch_at = time.monotonic()

    # ---- on the driver

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        names = self._streams.find()
        found = self._streams.locate(names, self._start, self._options["groupName"])
        ends = self._streams.ends(names)
        positions = {}
        for name, offset in found.items():
            if self._start.is_exact(name):
                if offset > ends[name].end:
                    raise InvalidOption(
                        f"startingOffsets of {name!r} is {offset}, and the stream ends at {ends[name].end}"
                    )
            else:
                # Retention may have been at work since it was looked for.
                offset = max(offset, ends[name].first)
            positions[name] = self._reachable(name, Position(offset, ends[name].identity, 0), ends[name])
        # Nothing was read yet that could be told.
        self._told = positions
        return as_json(positions)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self._options["maxOffsetsPerTrigger"]
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._streams.ends(self._streams.find(), may_be_missing=True)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        before = _positions(start)
        ends = self._streams.ends(self._streams.find() if self._target is None else self._target, may_be_missing=True)
        self._streams.check_named(ends, before)
        # Whatever Spark goes on from is committed. It says so itself only with the next batch, and so of the last one
        # of a query never.
        self.commit(start)
        begin = self._begin(before, ends)
        self._latest = {name: one.end for name, one in ends.items()}
        end = {name: self._end_of(name, one, ends) for name, one in begin.items()}
        waiting = sum(end[name] - one.offset for name, one in begin.items())
        least, most = self._options["minOffsetsPerTrigger"], self._options["maxOffsetsPerTrigger"]
        if least is not None and self._target is None and waiting < least:
            if time.monotonic() - self._last_batch_at < self._options["maxTriggerDelay"]:
                return start
        if begin == before and waiting == 0:
            # To the letter, or Spark would run a batch for it.
            return start
        self._last_batch_at = time.monotonic()
        if most is not None and not isinstance(limit, ReadAllAvailable):
            end = limited({name: one.offset for name, one in begin.items()}, end, most)
        after = {name: one.up_to(end[name]) for name, one in begin.items()}
        for name, one in ends.items():
            # That of an older version has none yet.
            after[name] = replace(after[name], identity=one.identity)
        return as_json(after)

    def _begin(self, before: Mapping[str, Position], ends: Mapping[str, Ends]) -> dict[str, Position]:
        """Where the next batch begins: where the last one ended, but for what is gone and for what is new."""
        self._losses.deleted([name for name, one in before.items() if name not in ends and not one.is_missing])
        begin = {name: one if name in ends else _without_stream(one) for name, one in before.items()}
        for name, one in ends.items():
            known = before.get(name)
            if known is None:
                # A partition that is new: all of it.
                begin[name] = Position(one.first, one.identity)
            elif known.is_missing and (known.identity is None or known.identity != one.identity):
                # It was told when it was deleted.
                begin[name] = replace(known, offset=one.first, identity=one.identity, is_missing=False)
            elif not known.is_of(one.identity):
                self._losses.made_anew(name, known, one.identity)
                vanished = known.vanished + 1
                begin[name] = replace(known, offset=one.first, identity=one.identity, vanished=vanished)
            else:
                begin[name] = self._reachable(name, replace(known, is_missing=False), one)
        return begin

    def _reachable(self, name: str, known: Position, ends: Ends) -> Position:
        """The same place, or behind it what is the oldest now."""
        if known.offset > ends.end:
            raise SourceFailed(
                f"the checkpoint is at offset {known.offset} of the stream {name!r}, which ends at {ends.end}: was it "
                "deleted and made anew? Begin with a new checkpoint"
            )
        # With Trigger.AvailableNow what came after its start is none of this run's, nor is its loss: or a stream whose
        # retention goes on and on would keep it from ending.
        target = None if self._target is None else self._target.get(name)
        oldest = ends.first if target is None or not known.is_of(target.identity) else min(ends.first, target.end)
        if known.offset >= oldest:
            return known
        self._losses.expired(name, known.offset, ends)
        return replace(known, offset=oldest, lost=known.lost + oldest - known.offset)

    def _end_of(self, name: str, begin: Position, ends: Mapping[str, Ends]) -> int:
        """Up to where there is something to be read now."""
        if name not in ends:
            return begin.offset
        if self._target is None:
            return max(begin.offset, ends[name].end)
        target = self._target[name]
        # One that was made anew since the query was started has nothing that was there then.
        return max(begin.offset, min(ends[name].end, target.end)) if begin.is_of(target.identity) else begin.offset

    def reportLatestOffset(self) -> dict[str, int] | None:  # noqa: N802
        return self._latest or None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        before, after = _positions(start), _positions(end)
        names = self._streams.find()
        ends = self._streams.ends([name for name in after if name in names], may_be_missing=True)
        ranges = []
        for name, stop in after.items():
            # As it was planned, whatever was lost before that.
            first = stop.offset - count_planned(before.get(name), stop)
            if first >= stop.offset:
                continue
            if name not in ends or not stop.is_of(ends[name].identity):
                self._losses.unread(name, first, stop.offset)
                continue
            if first < ends[name].first:
                first = self._losses.expired(name, first, ends[name])
            identity = stop.identity or ends[name].identity
            ranges.append(Range(name, names[name], first, max(first, stop.offset), identity))
        ranges = [one for one in ranges if len(one) > 0]
        return list(cut(ranges, self._options["maxRecordsPerPartition"], self._options["minPartitions"]))

    def commit(self, end: dict[str, Any]) -> None:
        group, positions = self._options["groupName"], _positions(end)
        if group is None or positions == self._told:
            return
        try:
            self._streams.store(group, positions)
            self._told = positions
        except SourceFailed as error:
            # The checkpoint is what counts: this is for people to look at, and comes again with the next batch.
            log.warning("not told to the broker: %s", error)

    def stop(self) -> None:
        self._broker.close()

    # ---- on executors

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Range)
        reader = RangeReader(self._broker, partition, self._columns, PushedFilters(), self._options["failOnDataLoss"])
        return reader.read()


def _without_stream(known: Position) -> Position:
    return known if known.is_missing else replace(known, is_missing=True, vanished=known.vanished + 1)


def _positions(offsets: dict[str, Any]) -> dict[str, Position]:
    found = read_positions(offsets)
    if found is None:
        raise SourceFailed(f"the checkpoint has offsets that this version does not know: {offsets}")
    return found
