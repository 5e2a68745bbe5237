"""Publishing rows: `df.write.format("leveret")` and `writeStream`.

Every row has ids that are the same whenever it is written again, see row_ids.py: a stream knows what it has by the
producer's name and the publishing id, and a queue or exchange with deduplication by the message id. So a task that
Spark runs twice, or a batch after a crash, publishes nothing twice. If Spark cuts the batch into other tasks when it
runs it again, rows with the columns `stream` and `offset` are still known; others may be published twice, but none is
taken for another. Columns `producer_name` and `publishing_id` say what is the same where neither is enough."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from leveret.spark.bad_rows import Diverted
from leveret.spark.broker_client import Broker
from leveret.spark.errors import AmbiguousRows, InvalidOption, WriteFailed
from leveret.spark.publisher import Publisher
from leveret.spark.row_ids import Known, RowIds
from leveret.spark.row_messages import RowMessages, check_columns
from leveret.spark.source_runs import Interval, find_overlap
from leveret.spark.writer_name import BATCH, WriterName, query_tag

__all__ = ["BatchWriter", "StreamWriter"]

# Spark's names for what a task belongs to.
QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"


@dataclass
class Written(WriterCommitMessage):
    rows: int
    diverted: int
    # Which rows were named by stream and offset: by target and stream.
    sources: dict[tuple[str | None, str], list[Interval]]


class Publishing:
    """What both writers do in a task: publish the rows of an iterator."""

    def __init__(self, options: Mapping[str, Any], schema: StructType) -> None:
        check_columns(schema, options)
        if (options["badRows"] == "divert") != (options["badRowsPath"] is not None):
            raise InvalidOption('the options badRows="divert" and badRowsPath go together')
        self._options = dict(options)
        self._broker = Broker(options, "leveret-spark sink", recovers=True)

    def publish(self, batches: Iterator[pa.RecordBatch], writer: WriterName, batch: int, task: int) -> Written:
        messages = RowMessages(self._options)
        diverted = Diverted(self._options["badRowsPath"], f"{writer.write_id}-{batch}-{task}")
        rows = 0
        with Publisher.of(self._broker, self._options) as publisher:
            ids = RowIds(writer, batch, task, self._options, _known(publisher, writer))
            fails = self._options["badRows"] == "fail"
            for table in batches:
                made = messages.of(*ids.of(table))
                failures = publisher.publish_until(made) if fails else publisher.publish(made)
                if failures and fails:
                    place, why = failures[0]
                    raise WriteFailed(f"{_name(table, place, rows)} cannot be published: {why}")
                diverted.add(table, failures)
                rows += table.num_rows
        diverted.close()
        return Written(rows, diverted.count, ids.sources.taken)


def _known(publisher: Publisher, writer: WriterName) -> Known:
    """Each target is asked once in a task; not if nobody can have written with this name before."""
    if writer.tag == BATCH and not writer.chosen:
        return lambda target: {}
    return functools.cache(lambda target: writer.intervals(publisher.producers(target, writer.prefix), target))


def check_written(messages: Sequence[WriterCommitMessage | None]) -> None:
    """Raises AmbiguousRows if tasks had rows of the same message: the stream has taken the one for the other."""
    found = find_overlap([message.sources for message in messages if isinstance(message, Written)])
    if found is not None:
        stream, offset = found
        raise AmbiguousRows(
            f"rows of several tasks come from the message {offset} of the stream {stream!r}, as after a union or join, "
            "and so cannot be told apart by the columns stream and offset: leave these columns out, or give each row "
            "the columns producer_name and publishing_id"
        )


def _name(table: pa.RecordBatch, place: int, before: int) -> str:
    """Which row it is, as well as it can be told: by its number in the task, and what it has of names."""
    known = [
        f"{column} {table.column(column)[place].as_py()!r}"
        for column in ("message_id", "exchange", "routing_key", "stream", "offset")
        if column in table.schema.names
    ]
    text = f"row {before + place} of task {_task().partitionId()}"
    return f"{text} ({', '.join(known)})"[:1000] if known else text


def _task() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "rows are published in a task of Spark's"
    return context


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, options: Mapping[str, Any], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise InvalidOption('a broker cannot be overwritten: use mode("append")')
        self._publishing = Publishing(options, schema)
        self._chosen = options["writeId"] is not None
        # Made on the driver: tasks that are run again have the same one.
        self._write_id: str = options["writeId"] or f"spark-{uuid.uuid4()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        writer = WriterName(self._write_id, BATCH, self._chosen)
        return self._publishing.publish(iterator, writer, 0, _task().partitionId())

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Every row was confirmed in its task; what is left is whether they could be told apart."""
        check_written(messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """What was published stays. Written again with the same writeId it is not published twice."""


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: Mapping[str, Any], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise InvalidOption(
                'the output mode "complete" would need a broker that can be overwritten: use "append" or "update"'
            )
        self._publishing = Publishing(options, schema)
        self._write_id: str | None = options["writeId"]

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = _task()
        query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        assert query is not None and batch is not None, "a streaming query's task knows its query and its batch"
        writer = WriterName(self._write_id or f"spark-{query}", query_tag(query), self._write_id is not None)
        return self._publishing.publish(iterator, writer, int(batch), context.partitionId())

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Every row was confirmed in its task; what is left is whether they could be told apart."""
        check_written(messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """What was published stays; the batch comes again with the same ids."""
