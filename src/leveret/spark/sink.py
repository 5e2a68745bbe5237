"""Publishing rows: `df.write.format("leveret")` and `writeStream`.

Every row has ids that are the same whenever it is written again: the producer's name is that of the query and the task,
the publishing id is batch and row. A stream knows what it has by these, and a queue or exchange with deduplication by
the message id. So a task that Spark runs twice, or a batch after a crash, publishes nothing twice, as long as the same
rows come in the same order; where that is not so, columns `producer_name` and `publishing_id` say what is the same.

Files that a query reads are one such case: Spark cuts them into tasks by the number of cores that it has at the moment,
so a batch that is run again with more or fewer of them has other tasks, and rows may come twice or not at all. Set
spark.sql.files.minPartitionNum, or take file and row number for the columns (tests/spark/exactly_once/test_replanned.py
shows both)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from leveret.spark.bad_rows import Diverted
from leveret.spark.broker import Broker
from leveret.spark.errors import InvalidOption, WriteFailed
from leveret.spark.publisher import Publisher
from leveret.spark.row_messages import RowMessages, check_columns

__all__ = ["BatchWriter", "StreamWriter"]

# Spark's names for what a task belongs to.
QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
# Rows of a task in one batch, at most; the batch's number stands above them.
ROW_BITS = 32


@dataclass
class Written(WriterCommitMessage):
    rows: int
    diverted: int


class Publishing:
    """What both writers do in a task: publish the rows of an iterator."""

    def __init__(self, options: Mapping[str, Any], schema: StructType) -> None:
        check_columns(schema, options)
        if (options["badRows"] == "divert") != (options["badRowsPath"] is not None):
            raise InvalidOption('the options badRows="divert" and badRowsPath go together')
        self._options = dict(options)
        self._broker = Broker(options, "leveret-spark sink", recovers=True)

    def publish(self, batches: Iterator[pa.RecordBatch], write_id: str, batch: int, task: int) -> Written:
        messages = RowMessages(self._options, f"{write_id}/{task}", batch << ROW_BITS, f"{write_id}-{batch}-{task}")
        diverted = Diverted(self._options["badRowsPath"], f"{write_id}-{batch}-{task}")
        rows = 0
        with Publisher.of(self._broker, self._options) as publisher:
            fails = self._options["badRows"] == "fail"
            for table in batches:
                made = messages.of(table, rows)
                failures = publisher.publish_until(made) if fails else publisher.publish(made)
                if failures and fails:
                    place, why = failures[0]
                    raise WriteFailed(f"{_name(table, place, rows)} cannot be published: {why}")
                diverted.add(table, failures)
                rows += table.num_rows
        diverted.close()
        return Written(rows, diverted.count)


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
        # Made on the driver: tasks that are run again have the same one.
        self._write_id: str = options["writeId"] or f"spark-{uuid.uuid4()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._publishing.publish(iterator, self._write_id, 0, _task().partitionId())

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Nothing is left to do: every row was confirmed in its task."""

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
        assert batch is not None, "a streaming query's task knows its batch"
        write_id = self._write_id or f"spark-{query}"
        return self._publishing.publish(iterator, write_id, int(batch), context.partitionId())

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing is left to do: every row was confirmed in its task."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """What was published stays; the batch comes again with the same ids."""
