"""The same rows published in other tasks, as Spark does it, but without Spark: into a stream nothing is lost, and with
the columns `stream` and `offset` nothing is there twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from leveret.spark.errors import AmbiguousRows, WriteIdInUse
from leveret.spark.options import WRITE, read_options
from leveret.spark.sink import Publishing, Written, check_written
from leveret.spark.writer_name import WriterName, query_tag
from leveret.testing import Broker
from tests.spark.conftest import Publish
from tests.spark.tables import name_for

ROWS, BATCH_ROWS = 10_000, 1_000
KNOWN, BODIES = ["stream", "offset", "body"], ["body"]


class Died(Exception):
    """A task that ends in the middle of its rows."""


class Query:
    def __init__(self, broker: Broker, target: str, columns: list[str], writer: WriterName) -> None:
        self.columns = columns
        self.writer = writer
        schema = from_arrow_schema(self.table(0, 0).schema)
        self.publishing = Publishing(read_options({"url": broker.url, "routingKey": target}, WRITE), schema)

    def table(self, start: int, end: int) -> pa.RecordBatch:
        columns = {
            "stream": pa.array(["orders"] * (end - start), pa.string()),
            "offset": pa.array(range(start, end), pa.int64()),
            "body": pa.array([b"%d" % number for number in range(start, end)], pa.binary()),
        }
        return pa.RecordBatch.from_pydict({name: columns[name] for name in self.columns})

    def tables(self, start: int, end: int, dies_at: int) -> Iterator[pa.RecordBatch]:
        for first in range(start, end, BATCH_ROWS):
            if first <= dies_at < first + BATCH_ROWS:
                raise Died
            yield self.table(first, min(end, first + BATCH_ROWS))

    def run(self, tasks: int, batch: int = 0, dies_at: int = -1) -> list[Written]:
        """So many tasks, the last one first. One may die; then what the others had stays."""
        written = []
        for task in reversed(range(tasks)):
            start, end = ROWS * task // tasks, ROWS * (task + 1) // tasks
            try:
                written.append(self.publishing.publish(self.tables(start, end, dies_at), self.writer, batch, task))
            except Died:
                continue
        return written


def counted(broker: Broker, stream: str) -> Counter[int]:
    return Counter(int(message.body) for message in broker.queue(stream).messages())


@pytest.fixture
def target(publish: Publish) -> str:
    name = name_for("to")
    publish(name, [])
    return name


@pytest.mark.parametrize("columns", [KNOWN, BODIES])
@pytest.mark.parametrize("plans", [(4, 2), (2, 4), (4, 3, 5)])
def test_a_batch_that_fails_and_comes_again_in_other_tasks(
    broker: Broker, target: str, columns: list[str], plans: tuple[int, ...]
) -> None:
    query = Query(broker, target, columns, WriterName("load", query_tag("a"), False))
    for tasks in plans[:-1]:
        query.run(tasks, dies_at=6_100)
    before = counted(broker, target)
    assert 0 < len(before) < ROWS
    check_written(query.run(plans[-1]))
    found = counted(broker, target)
    assert sorted(found) == list(range(ROWS)), f"{ROWS - len(found)} rows were lost"
    if columns == KNOWN:
        assert set(found.values()) == {1}
    # Once more in the same tasks: nothing is new.
    query.run(plans[-1])
    assert counted(broker, target) == found


@pytest.mark.parametrize("columns", [KNOWN, BODIES])
def test_an_old_write_id_with_a_new_checkpoint_is_refused(broker: Broker, target: str, columns: list[str]) -> None:
    write_id = name_for("nightly")
    first = Query(broker, target, columns, WriterName(write_id, query_tag("first checkpoint"), True))
    for batch in range(2):
        first.run(2, batch)
    second = Query(broker, target, columns, WriterName(write_id, query_tag("second checkpoint"), True))
    with pytest.raises(WriteIdInUse, match="go on with the checkpoint that the writeId was used with"):
        second.run(2)
    first.run(2, 2)
    assert set(counted(broker, target).values()) == {3}


def test_rows_of_one_message_in_several_tasks_are_told(broker: Broker, target: str) -> None:
    query = Query(broker, target, KNOWN, WriterName("union", query_tag("a"), False))
    written = [*query.run(2), *query.run(3)]
    with pytest.raises(AmbiguousRows, match="leave these columns out"):
        check_written(written)
