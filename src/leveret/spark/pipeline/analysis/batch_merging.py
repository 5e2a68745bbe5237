"""Folders of batches put together: an hour of a BatchTable with many small ones gets one folder with few files.

The job that writes the table does it between its batches, so nobody else changes the table meanwhile. Only batches that
Spark has committed are merged, those before the one that runs: the newest may come again, and must then be found under
its own name and be deleted. A merged folder never comes again, so its name need not say what is in it.

How, so that after a crash at any moment each row is there once when the job has begun again (`mend`):

1. The merged files are written beside the table, to `<silver>/_merging/<table>`, and counted. Nobody reads them there,
   and a crash leaves what the next start deletes.
2. A plan is written there, whole or not at all: which folders go, which files come. From now on it will be done.
3. The old folders are deleted, and then the files are moved to their place, one by one: no folder is renamed, which
   object stores cannot do at once. A reader may miss rows of this hour until that is done, and never sees one twice.
4. The plan is deleted, and what is left beside the table.

Who finds a plan does steps 3 and 4 again: an old folder that is gone stays gone, and a file that is still beside the
table is moved, over what a store may have of it in its place already. Called by BatchTable only."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from pyspark.sql import SparkSession

from leveret.spark.pipeline.lake_files import LakeFiles

__all__ = ["BatchMerger", "mergeable"]

FILE_BYTES = 128 * 1024 * 1024
# An hour in which none of the last so many batches has rows is merged if it has more than FEW folders; one that still
# grows, if it has more than MANY: to merge it over and over would take away what people are reading.
QUIET_BATCHES = 30
FEW, MANY = 4, 400
# It is looked for such hours once in so many batches, and so many of them are merged then: the next batch waits.
LOOK_EVERY = 16
MERGES_MAX = 4
# Days, the newest, that are looked at each time. Of those before one is looked at, in turn.
DAYS_RECENT = 2
MERGED = "batch=merged-"
FORMAT = 1


@dataclass(frozen=True)
class Plan:
    # The folder of the hour, below that of the table, and names of folders in it.
    hour: str
    old: list[str]
    new: str
    files: list[str]
    format: int = FORMAT


def mergeable(names: Sequence[str], key: str) -> list[str]:
    """Which folders of an hour are to be one while the batch `key` is the newest. Empty if it is not worth it."""
    query, _, text = key.rpartition("-")
    own, number = f"batch={query}-", int(text)
    numbers = {name: int(name.removeprefix(own)) for name in names if name.startswith(own)}
    # Those of other queries, whose checkpoint is gone, come as little again as those that were merged.
    others = {name for name in names if name.startswith("batch=") and name not in numbers}
    old = sorted(others | {name for name, one in numbers.items() if one < number})
    is_quiet = all(one <= number - QUIET_BATCHES for one in numbers.values())
    return old if len(old) > (FEW if is_quiet else MANY) else []


class BatchMerger:
    def __init__(self, spark: SparkSession, table: str) -> None:
        self._spark = spark
        self._files = LakeFiles(spark)
        self._table = table
        folder, _, name = table.rpartition("/")
        self._beside = f"{folder}/_merging/{name}"
        self._plan = f"{self._beside}/plan.json"

    def mend(self) -> None:
        """Ends what was begun when the job ended. To be done before the table is read or written."""
        if self._files.exists(self._plan):
            data = json.loads(self._files.read(self._plan))
            if data["format"] != FORMAT:
                raise ValueError(
                    f"{self._plan} has the format {data['format']}; this version of Leveret knows {FORMAT}"
                )
            self._perform(Plan(**data))
        self._files.delete(self._beside)

    def merge_old(self, key: str) -> int:
        """Merges hours for which it is time, while the batch `key` is the newest. Returns how many."""
        turn, is_not_now = divmod(int(key.rpartition("-")[2]), LOOK_EVERY)
        if is_not_now:
            return 0
        merged = 0
        for hour in self._hours(turn):
            names = mergeable(self._names(hour), key)
            if names and self._merge(hour, names):
                merged += 1
                if merged == MERGES_MAX:
                    break
        return merged

    def _hours(self, turn: int) -> Iterable[str]:
        """Folders of the hours that are looked at, the oldest last: a table of years is not listed for each batch."""
        days = [name for name in self._names("") if name.startswith("event_date=")]
        before, recent = days[:-DAYS_RECENT], days[-DAYS_RECENT:]
        for day in [*reversed(recent), *([before[turn % len(before)]] if before else [])]:
            yield from (f"{day}/{hour}" for hour in self._names(day))

    def _names(self, folder: str) -> list[str]:
        return [one.name for one in self._files.list(f"{self._table}/{folder}")]

    def _merge(self, hour: str, names: list[str]) -> bool:
        path = f"{self._table}/{hour}"
        size = self._files.size(path)
        sizes = {name: self._files.size(f"{path}/{name}") for name in names if name.startswith(MERGED)}
        # What is large already would be written again for nothing.
        large = {name for name, octets in sizes.items() if octets >= FILE_BYTES}
        names = [name for name in names if name not in large]
        if len(names) < 2:
            return False
        size -= sum(sizes[name] for name in large)
        # Columns that a newer version has written stay.
        rows = self._spark.read.option("mergeSchema", "true").parquet(*(f"{path}/{name}" for name in names))
        # A name of its own: what a forgotten task of a merge that died writes later is in another folder.
        name = f"{MERGED}{uuid.uuid4().hex}"
        new = f"{self._beside}/{name}"
        rows.coalesce(max(1, -(-size // FILE_BYTES))).write.parquet(new)
        expected, found = rows.count(), self._spark.read.parquet(new).count()
        if expected != found:
            raise OSError(f"{expected} rows of {path} were read and {found} written to {new}; the table is unchanged")
        files = [one.name for one in self._files.list(new) if one.name[0] not in "_."]
        plan = Plan(hour, names, name, files)
        # The job is the table's only writer.
        assert not self._files.exists(self._plan), "a plan is done before another one is made"
        self._files.write_over(self._plan, json.dumps(asdict(plan)))
        self._perform(plan)
        self._files.delete(self._beside)
        return True

    def _perform(self, plan: Plan) -> None:
        """May have been done in part before."""
        path = f"{self._table}/{plan.hour}"
        there = set(self._names(plan.hour))
        if there <= set(plan.old):
            # At once, which is much faster in an object store.
            self._files.delete(path)
        else:
            for name in there & set(plan.old):
                self._files.delete(f"{path}/{name}")
        if left := set(self._names(plan.hour)) & set(plan.old):
            raise OSError(f"{', '.join(sorted(left))} in {path} could not be deleted")
        for name in plan.files:
            staged, place = f"{self._beside}/{plan.new}/{name}", f"{path}/{plan.new}/{name}"
            if self._files.exists(staged):
                self._files.delete(place)
                self._files.move(staged, place)
            elif not self._files.exists(place):
                raise OSError(f"there is neither {staged} nor {place}: who deleted it?")
        self._files.delete(self._plan)
