"""Batches of silver become few files, and each row is there once, wherever a merge dies and whatever comes again."""

from __future__ import annotations

import shutil
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install leveret[spark]")

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from leveret.spark.pipeline.analysis import batch_merging
from leveret.spark.pipeline.analysis.batch_merging import mergeable
from leveret.spark.pipeline.analysis.hour_tables import BatchTable, Hour, columns
from leveret.spark.pipeline.lake_files import LakeFiles

SCHEMA = columns(n="long")
OLD, NEW = Hour(date(2026, 3, 1), 12), Hour(date(2026, 3, 1), 13)
# The ways in which the protocol changes anything; it dies before one of them, or after the one before.
CHANGES = ("write_over", "delete", "move")


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_merging, "LOOK_EVERY", 1)
    monkeypatch.setattr(batch_merging, "QUIET_BATCHES", 2)
    monkeypatch.setattr(batch_merging, "FEW", 1)


class Table(BatchTable):
    def __init__(self, spark: SparkSession, path: Path) -> None:
        super().__init__(spark, str(path), SCHEMA)

    def add(self, number: int, *hours: Hour) -> None:
        """The batch of this number: its number once in each of these hours."""
        parts = [self._at(number, hour) for hour in hours]
        rows = parts[0] if len(parts) == 1 else parts[0].union(parts[1])
        self.write(rows, key(number), set(hours))

    def _at(self, number: int, hour: Hour) -> Any:
        rows = self._spark.range(number, number + 1).select(f.col("id").alias("n"))
        return rows.withColumns({"event_date": f.lit(hour.date), "event_hour": f.lit(hour.hour)}).coalesce(1)

    def seen(self) -> Counter[int]:
        """As any tool sees it."""
        return Counter(row.n for row in self._spark.read.parquet(self.path).collect())


def key(number: int) -> str:
    return f"q3f0c-11-{number}"


def folders(path: Path, hour: Hour) -> set[str]:
    return {one.name for one in (path / hour.path).iterdir()}


@pytest.fixture(scope="module")
def four(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Batches in two hours, of which the last has not been committed."""
    path = tmp_path_factory.mktemp("lake") / "silver" / "t"
    table = Table(spark, path)
    table.add(0, OLD)
    table.add(1, OLD, NEW)
    table.add(4, NEW)
    return path


@pytest.fixture
def path(four: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    copy = tmp_path / "silver" / "t"
    shutil.copytree(four, copy)
    return copy


ALL = Counter({0: 1, 1: 2, 4: 1})


def test_what_is_merged() -> None:
    names = [f"batch={key(n)}" for n in range(4)]
    assert mergeable(names, key(5)) == names
    # It grows still; and one folder is few.
    assert mergeable(names, key(4)) == []
    assert mergeable(names[:1], key(9)) == []
    # What has another checkpoint, or was merged, does not come again.
    others = ["batch=merged-77", "batch=q77-100"]
    assert mergeable([*others, "_SUCCESS"], key(0)) == others


def test_what_grows_is_merged_when_it_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_merging, "MANY", 3)
    names = [f"batch={key(n)}" for n in range(5)]
    # But for the newest, which may come again.
    assert mergeable(names, key(4)) == names[:4]
    assert mergeable(names[1:], key(4)) == []


def test_folders_become_few(spark: SparkSession, path: Path) -> None:
    table = Table(spark, path)
    table.merge_old(key(4))
    (merged,) = folders(path, OLD)
    assert merged.startswith("batch=merged-")
    assert len(list((path / OLD.path / merged).glob("*.parquet"))) == 1
    assert folders(path, NEW) == {f"batch={key(1)}", f"batch={key(4)}"}
    assert not list(path.parent.glob("_merging/*"))
    assert table.seen() == ALL
    # What comes late joins it.
    table.add(5, OLD)
    table.merge_old(key(7))
    assert len(folders(path, OLD)) == 1
    assert table.seen() == ALL + Counter({5: 1})


def test_it_is_looked_for_now_and_then_and_not_for_all_at_once(
    spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_merging, "LOOK_EVERY", 5)
    monkeypatch.setattr(batch_merging, "MERGES_MAX", 1)
    table = Table(spark, path)
    table.merge_old(key(11))
    assert (len(folders(path, OLD)), len(folders(path, NEW))) == (2, 2)
    table.merge_old(key(15))
    assert sorted((len(folders(path, OLD)), len(folders(path, NEW)))) == [1, 2]
    table.merge_old(key(20))
    merged = folders(path, OLD), folders(path, NEW)
    assert [len(one) for one in merged] == [1, 1]
    # What is large already is left as it is.
    monkeypatch.setattr(batch_merging, "FILE_BYTES", 1)
    monkeypatch.setattr(batch_merging, "FEW", 0)
    table.merge_old(key(25))
    assert (folders(path, OLD), folders(path, NEW)) == merged
    assert table.seen() == ALL


def test_it_dies_at_any_step(spark: SparkSession, four: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    died = 0
    while True:
        path = tmp_path / str(died) / "silver" / "t"
        shutil.copytree(four, path)
        with monkeypatch.context() as patch:
            die_before(patch, died)
            try:
                Table(spark, path).merge_old(key(4))
            except KeyboardInterrupt:
                died += 1
            else:
                break
        # The batch was not committed: it comes again.
        again = Table(spark, path)
        again.add(4, NEW)
        assert again.seen() == ALL, f"died before change {died}"
        assert not list(path.parent.glob("_merging/*"))
    assert len(folders(path, OLD)) == 1
    # The plan, the hour, a file moved over what is there, the plan again, and what is beside the table.
    assert died == 6


def die_before(patch: pytest.MonkeyPatch, number: int) -> None:
    count = 0

    def dying(before: Any) -> Any:
        def change(self: LakeFiles, *arguments: str) -> Any:
            nonlocal count
            if count == number:
                raise KeyboardInterrupt(arguments)
            count += 1
            return before(self, *arguments)

        return change

    for name in CHANGES:
        patch.setattr(LakeFiles, name, dying(getattr(LakeFiles, name)))


def test_a_store_that_copies_before_it_deletes(
    spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a file is in both places when it dies, and the hour has a batch that stays."""

    def copy(_: LakeFiles, source: str, place: str) -> None:
        Path(place).parent.mkdir(parents=True)
        shutil.copy(source, place)
        raise KeyboardInterrupt

    # The hour that grows has too much.
    monkeypatch.setattr(batch_merging, "MANY", 1)
    monkeypatch.setattr(batch_merging, "FEW", 9)
    table = Table(spark, path)
    table.add(5, NEW)
    with monkeypatch.context() as patch:
        patch.setattr(LakeFiles, "move", copy)
        with pytest.raises(KeyboardInterrupt):
            table.merge_old(key(5))
    again = Table(spark, path)
    again.add(5, NEW)
    assert again.seen() == ALL + Counter({5: 1})
    assert len(folders(path, NEW)) == 2


def test_a_merge_that_fails_does_not_end_the_batch(
    spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError("no room")

    table = Table(spark, path)
    with monkeypatch.context() as patch:
        patch.setattr(LakeFiles, "move", full)
        table.merge_old(key(4))
    assert "not merged, which is tried again: no room" in caplog.text
    # Rows are missing now, which the next batch mends before anything else.
    assert table.seen() < ALL
    table.mend()
    assert table.seen() == ALL
