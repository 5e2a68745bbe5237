"""Which producer's name and which publishing id a row has, so that a stream knows it when it is written again.

A stream takes an id that is not above its producer's last one for known. So a name must say which rows its ids stand
for, whatever tasks Spark makes of the same rows the next time. There are two kinds of names:

- Rows with the columns `stream` and `offset` are known by these, and by their batch. A name says which offset it began
  with, and has the offsets behind that one by one, without a gap; its ids are the offsets. So a name with the last id l
  has every row from its first to l, however they were cut into tasks. Where the stream that is written to has such
  names of the batch already, rows go on under them.
- Other rows are known by their contents: a name has a digest of the rows of one Arrow batch, and of where that is. Rows
  that come in other tasks, or in another order, have other names and are published again; none is taken for another.

Only columns and arithmetic; what streams know comes through `Known`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from leveret.spark.row_digest import digest_of
from leveret.spark.row_messages import PRODUCER, PUBLISHING_ID
from leveret.spark.source_runs import Interval, SourceRuns
from leveret.spark.writer_name import WriterName

__all__ = ["Named", "RowIds"]

# Of a table, so many different routing keys are looked at one by one; with more it is not known where rows go.
TARGETS_MAX = 20
# A name for each is a burden for the stream, so a task with more gaps than that goes by its contents from there on.
RUNS_MAX = 500
NAME_BYTES_MAX = 255
# What a target has of a writer's rows with `stream` and `offset`: intervals of offsets, by the label of batch and
# stream.
Known = Callable[[str], Mapping[str, list[Interval]]]


class Named(NamedTuple):
    """A table with columns that name its rows, or what all rows have instead: the producer's name, and what message ids
    begin with; the row's number is the id."""

    table: pa.RecordBatch
    producer: str
    message_ids: str


class RowIds:
    def __init__(self, writer: WriterName, batch: int, task: int, options: Mapping[str, Any], known: Known) -> None:
        self._writer = writer
        self._batch = batch
        self._task = task
        self._options = options
        self._known = known
        self._tables = 0
        self.sources = SourceRuns(RUNS_MAX)

    def of(self, table: pa.RecordBatch) -> Named:
        number, self._tables = self._tables, self._tables + 1
        targets = self._targets(table)
        if self._writer.chosen:
            # A writeId that another query has used is refused there.
            for target in targets:
                if target is not None:
                    self._known(target)
        if table.num_rows and PRODUCER not in table.schema.names and _has_sources(table):
            named = self._by_source(table, targets)
            if named is not None:
                return Named(named, self._writer.producer("-"), self._writer.message_ids("-"))
        head = f"{self._batch}/{self._task}/{number}".encode()
        what = f"{self._batch}.{digest_of(table, head)}"
        return Named(table, self._writer.producer(what), self._writer.message_ids(what))

    # ---- where rows go

    def _targets(self, table: pa.RecordBatch) -> list[str | None]:
        """The queues that rows go to, if they go through the default exchange; [None] if that is not known."""
        exchanges = _values(table, "exchange", self._options["exchange"] or "")
        keys = _values(table, "routing_key", self._options["routingKey"])
        if exchanges != [""] or len(keys) > TARGETS_MAX:
            return [None]
        found: list[str | None] = [key for key in keys if key is not None and 0 < len(key.encode()) <= NAME_BYTES_MAX]
        return found or [None]

    # ---- by stream and offset

    def _by_source(self, table: pa.RecordBatch, targets: list[str | None]) -> pa.RecordBatch | None:
        """The table with names for each row; None if its rows are not in order, or have too many gaps."""
        streams, offsets = table.column("stream"), table.column("offset").cast(pa.int64())
        runs = self.sources.cut(streams, offsets)
        if runs is None:
            return None
        names = None
        for target in targets:
            parts = []
            for run in runs:
                label = self._writer.label(self._batch, run.stream)
                known = [] if target is None else self._known(target).get(label, [])
                for first, last, start in self.sources.names(run, target, known):
                    parts.append(pa.repeat(self._writer.producer(f"{label}@{start}"), last - first + 1))
            made = pa.concat_arrays(parts)
            names = made if names is None else pc.if_else(_goes_to(table, target), made, names)
        self.sources.note(runs, targets)
        return _with(table, {PRODUCER: names, PUBLISHING_ID: offsets, "message_id": self._message_ids(table, runs)})

    def _message_ids(self, table: pa.RecordBatch, runs: list[Any]) -> pa.Array:
        """Those that rows have, and else one of writer, stream and offset."""
        writer = self._writer
        starts = [pa.repeat(f"{writer.message_ids(writer.label(self._batch, run.stream))}-", len(run)) for run in runs]
        offsets = table.column("offset").cast(pa.int64()).cast(pa.string())
        made = pc.binary_join_element_wise(pa.concat_arrays(starts), offsets, "")
        if "message_id" not in table.schema.names:
            return made
        given = table.column("message_id").cast(pa.string())
        return pc.if_else(pc.fill_null(pc.equal(pc.binary_length(given), 0), True), made, given)


def _values(table: pa.RecordBatch, column: str, default: str | None) -> list[str | None]:
    """The different values of a column of texts, what is null being as the default says."""
    if column not in table.schema.names:
        return [default]
    return list({default if value is None else value: None for value in table.column(column).unique().to_pylist()})


def _has_sources(table: pa.RecordBatch) -> bool:
    """Whether each row says which message of which stream it comes from."""
    if not {"stream", "offset"} <= set(table.schema.names):
        return False
    streams, offsets = table.column("stream"), table.column("offset")
    is_text = kinds.is_string(streams.type) or kinds.is_large_string(streams.type)
    return bool(is_text and kinds.is_integer(offsets.type) and streams.null_count == offsets.null_count == 0)


def _goes_to(table: pa.RecordBatch, target: str | None) -> pa.Array:
    return pc.fill_null(pc.equal(table.column("routing_key"), target), False)


def _with(table: pa.RecordBatch, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    kept = {name: table.column(name) for name in table.schema.names if name not in columns}
    return pa.RecordBatch.from_pydict({**kept, **columns})
