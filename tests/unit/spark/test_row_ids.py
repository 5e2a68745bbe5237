"""Names and ids of rows: whatever tasks the same rows come in, a stream loses none, and those with `stream` and
`offset` are there once."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from leveret.spark.errors import WriteIdInUse  # noqa: E402
from leveret.spark.options import WRITE, read_options  # noqa: E402
from leveret.spark.row_ids import RowIds  # noqa: E402
from leveret.spark.source_runs import Interval, find_overlap  # noqa: E402
from leveret.spark.writer_name import BATCH, WriterName, query_tag  # noqa: E402

WRITER = WriterName("load", query_tag("a-query"), True)
Rows = list[tuple[str, int, str]]


class Target:
    """A stream as the broker has it: what it took, and the last id of each producer."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self.producers: dict[str, int] = {}

    def publish(self, producer: str, number: int, row: Any) -> None:
        if number > self.producers.get(producer, -1):
            self.producers[producer] = number
            self.rows.append(row)


class Tasks:
    """Tasks that write to targets by name, as they take turns; each in tables of at most `size` rows."""

    def __init__(self, targets: dict[str, Target], batch: int, size: int, sources: bool, writer: WriterName = WRITER):
        self.targets, self.batch, self.size, self.sources, self.writer = targets, batch, size, sources, writer
        self.taken: list[Any] = []

    def task(self, number: int, rows: Rows) -> Iterator[None]:
        """One step for each row that it publishes."""

        def known(target: str) -> Any:
            # A copy of what it has when it is asked first.
            if target not in asked:
                asked[target] = self.writer.intervals(dict(self.targets[target].producers), target)
            return asked[target]

        asked: dict[str, Any] = {}
        ids = RowIds(self.writer, self.batch, number, read_options({}, WRITE), known)
        self.taken.append(ids.sources.taken)
        for start in range(0, len(rows), self.size):
            part = rows[start : start + self.size]
            columns: dict[str, Any] = {
                "body": pa.array([f"{stream}/{offset}/{target}".encode() for stream, offset, target in part]),
                "routing_key": pa.array([target for _, _, target in part]),
            }
            if self.sources:
                columns["stream"] = pa.array([stream for stream, _, _ in part])
                columns["offset"] = pa.array([offset for _, offset, _ in part], pa.int64())
            named = ids.of(pa.RecordBatch.from_pydict(columns))
            names = named.table.schema.names
            for place, row in enumerate(part):
                producer, number_of = named.producer, place
                if "producer_name" in names:
                    producer = named.table.column("producer_name")[place].as_py()
                    number_of = named.table.column("publishing_id")[place].as_py()
                assert len(producer.encode()) <= 255
                self.targets[row[2]].publish(producer, number_of, row)
                yield

    def run(self, plan: list[Rows], dice: random.Random, steps: int | None = None) -> None:
        """All tasks of a plan, by turns; only so many steps, if that is given."""
        running = [self.task(number, rows) for number, rows in enumerate(plan)]
        while running and (steps is None or steps > 0):
            one = dice.choice(running)
            for _ in range(dice.choice((1, 3, 50))):
                if steps is not None:
                    steps -= 1
                if next(one, self) is self:
                    running.remove(one)
                    break


def missing_and_repeated(targets: dict[str, Target], rows: Rows) -> tuple[int, int]:
    found = [row for target in targets.values() for row in target.rows]
    return len(set(rows) - set(found)), len(found) - len(set(found))


def cut(rows: Rows, tasks: int) -> list[Rows]:
    return [rows[len(rows) * one // tasks : len(rows) * (one + 1) // tasks] for one in range(tasks)]


def make_rows(dice: random.Random, targets: int, filtered: float) -> Rows:
    rows = [("s", offset, f"t{dice.randrange(targets)}") for offset in range(5, 205)]
    rows += [("r", offset, f"t{dice.randrange(targets)}") for offset in range(100)]
    return [row for row in rows if dice.random() >= filtered]


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 1 << 32), st.lists(st.integers(1, 7), min_size=2, max_size=4), st.integers(1, 2))
def test_with_stream_and_offset_each_is_there_once_whatever_the_plans(
    seed: int, plans: list[int], targets: int
) -> None:
    """Attempts that stop somewhere, each with another number of tasks; the last one ends. Then the next batch."""
    dice = random.Random(seed)
    made = {f"t{number}": Target() for number in range(targets)}
    rows = make_rows(dice, targets, 0.0)
    for number, tasks in enumerate(plans):
        steps = dice.randrange(len(rows)) if number < len(plans) - 1 else None
        Tasks(made, 3, dice.choice((7, 40, 1000)), True).run(cut(rows, tasks), dice, steps)
    assert missing_and_repeated(made, rows) == (0, 0)
    Tasks(made, 4, 1000, True).run(cut(rows, 2), dice)
    assert sum(len(target.rows) for target in made.values()) == 2 * len(rows), "another batch has rows of its own"


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 1 << 32), st.lists(st.integers(1, 7), min_size=2, max_size=4), st.booleans(), st.booleans())
def test_none_is_ever_lost(seed: int, plans: list[int], sources: bool, shuffled: bool) -> None:
    """Filtered, in any order, in any tasks: rows may be there twice, but they are there."""
    dice = random.Random(seed)
    made = {f"t{number}": Target() for number in range(2)}
    rows = make_rows(dice, 2, dice.choice((0.0, 0.02, 0.5)))
    for number, tasks in enumerate(plans):
        steps = dice.randrange(1 + len(rows)) if number < len(plans) - 1 else None
        if shuffled:
            plan: list[Rows] = [[] for _ in range(tasks)]
            for row in rows:
                plan[dice.randrange(tasks)].append(row)
            if dice.random() < 0.5:
                for one in plan:
                    dice.shuffle(one)
        else:
            plan = cut(rows, tasks)
        Tasks(made, 3, dice.choice((7, 40, 1000)), sources).run(plan, dice, steps)
    assert missing_and_repeated(made, rows)[0] == 0


@pytest.mark.parametrize("sources", [False, True])
def test_the_same_plan_publishes_nothing_twice(sources: bool) -> None:
    dice = random.Random(1)
    made = {f"t{number}": Target() for number in range(2)}
    rows = make_rows(dice, 2, 0.5)
    for steps in (50, 200, None, None):
        Tasks(made, 3, 40, sources).run(cut(rows, 3), dice, steps)
    assert missing_and_repeated(made, rows) == (0, 0)


def test_equal_rows_are_different_rows() -> None:
    """Ten heartbeats are ten, in one task, in several, and in each batch."""
    made = {"t": Target()}
    dice = random.Random(1)
    for batch in range(3):
        Tasks(made, batch, 3, False).run([[("s", 0, "t")] * 10] * 2, dice)
        Tasks(made, batch, 3, False).run([[("s", 0, "t")] * 10] * 2, dice)
    assert len(made["t"].rows) == 3 * 20


def test_several_rows_of_one_message() -> None:
    """In one task they are known by their contents; in several nobody knows which is which, and that is told."""
    made = {"t": Target(), "u": Target()}
    dice = random.Random(1)
    rows = [("s", offset // 2, "t") for offset in range(40)]
    tasks = Tasks(made, 1, 10, True)
    tasks.run(cut(rows, 2), dice)
    assert len(made["t"].rows) == 40
    assert find_overlap(tasks.taken) is None
    tasks = Tasks(made, 2, 10, True)
    tasks.run([[("s", offset, "t") for offset in range(20)], [("s", offset, "t") for offset in range(15, 30)]], dice)
    assert find_overlap(tasks.taken) == ("s", 15)
    tasks = Tasks(made, 3, 10, True)
    tasks.run([[("s", offset, target) for offset in range(20)] for target in ("t", "u")], dice)
    assert find_overlap(tasks.taken) is None, "they go to different streams"


def test_overlaps() -> None:
    def taken(target: str | None, *intervals: tuple[int, int]) -> Any:
        return {(target, "s"): [Interval(*one) for one in intervals]}

    assert find_overlap([taken("t", (0, 4), (10, 14)), taken("t", (5, 9))]) is None
    assert find_overlap([taken("t", (0, 4), (10, 14)), taken("t", (5, 10))]) == ("s", 10)
    assert find_overlap([taken("t", (0, 100)), taken("t", (3, 3))]) == ("s", 3)
    assert find_overlap([taken("t", (0, 100)), taken(None, (3, 3))]) == ("s", 3)
    assert find_overlap([taken("t", (0, 100)), taken("u", (3, 3))]) is None
    assert find_overlap([taken("t", (0, 5)), taken("u", (0, 9)), taken("u", (9, 12))]) == ("s", 9)


def test_a_write_id_of_another_query_is_refused() -> None:
    made = {"t": Target()}
    rows: Rows = [("s", offset, "t") for offset in range(10)]
    for sources in (False, True):
        Tasks(made, 0, 10, sources).run([rows], random.Random(1))
    for tag in (query_tag("another"), BATCH):
        for sources in (False, True):
            with pytest.raises(WriteIdInUse, match=r"the writeId 'load' is in use: the stream 't' has rows"):
                Tasks(made, 0, 10, sources, WriterName("load", tag, True)).run([rows], random.Random(1))
    # One whose name is longer is another one.
    Tasks({"t": made["t"]}, 0, 10, True, WriterName("lo", query_tag("x"), True)).run([rows], random.Random(1))
    assert WriterName("a", BATCH, True).intervals({"a/b/batch#0.s@3": 1, "a/7": 1}, "t") == {}


def test_names_are_short_enough() -> None:
    writer = WriterName("w" * 200, query_tag("x"), True)
    for stream in ("s", "ä" * 120, "x#@/"):
        label = writer.label(10**9, stream)
        name = writer.producer(f"{label}@{2**63 - 1}")
        assert len(name) <= 255
        assert writer.intervals({name: 2**63 - 1}, "t") == {label: [Interval(2**63 - 1, 2**63 - 1)]}
        assert len(f"{writer.message_ids(label)}-{2**63 - 1}") <= 255
    assert writer.label(1, "x") != writer.label(2, "x")
