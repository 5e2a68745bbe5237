"""Where batches of the archive come to land, until compaction has put them in order.

A batch is written to a folder with a name of its own and counts from the moment on in which its mark is there: an empty
file whose name says which one it is. So whatever a batch that died left behind is never read, and neither is what a
forgotten task writes later. Marks are numbered in the order in which they were made, by job; a job is a checkpoint,
known by the id that Spark keeps in it."""

from __future__ import annotations

import uuid
from typing import NamedTuple

from leveret.spark.pipeline.lake import Lake
from leveret.spark.pipeline.lake_files import Entry, LakeFiles

__all__ = ["EMPTY", "Landed", "Landing"]

# Spark passes over names that begin so.
MARKS = "_landed"
# Stands for the folder of a batch without messages: there is none.
EMPTY = "empty"


class Landed(NamedTuple):
    """A batch that counts. `number` is its place among those of its job, `batch` Spark's name for it."""

    job: str
    number: int
    batch: int
    attempt: str

    @property
    def mark(self) -> str:
        return f"{self.number:012d}-{self.batch}-{self.attempt}"

    @property
    def is_empty(self) -> bool:
        return self.attempt == EMPTY


class Landing:
    def __init__(self, files: LakeFiles, lake: Lake) -> None:
        self._files = files
        self.root = f"{lake.archive}/landing"

    def folder(self, job: str, attempt: str) -> str:
        return f"{self.root}/job={job}/attempt={attempt}"

    def _mark(self, one: Landed) -> str:
        return f"{self.root}/{MARKS}/{one.job}/{one.mark}"

    def jobs(self) -> list[str]:
        return [one.name for one in self._files.list(f"{self.root}/{MARKS}")]

    def landed(self, job: str) -> list[Landed]:
        """All batches of a job that count, in their order."""
        found = []
        for name, _ in self._files.list(f"{self.root}/{MARKS}/{job}"):
            number, batch, attempt = name.split("-", 2)
            found.append(Landed(job, int(number), int(batch), attempt))
        return found

    @staticmethod
    def new_attempt() -> str:
        return uuid.uuid4().hex

    def commit(self, job: str, number: int, batch: int, attempt: str) -> Landed:
        """From now on it counts."""
        written = any(one.name.startswith("stream=") for one in self._files.list(self.folder(job, attempt)))
        landed = Landed(job, number, batch, attempt if written else EMPTY)
        self._files.touch(self._mark(landed))
        return landed

    def attempts(self, job: str) -> list[Entry]:
        """The folders of a job by the names of their attempts, whether they count or not."""
        found = self._files.list(f"{self.root}/job={job}")
        return [
            Entry(one.name.removeprefix("attempt="), one.modified_ms)
            for one in found
            if one.name.startswith("attempt=")
        ]

    def forget(self, one: Landed) -> None:
        """Takes the mark away of a batch that is compacted."""
        self._files.delete(self._mark(one))
