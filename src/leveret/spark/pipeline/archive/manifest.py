"""What the archive consists of: which folders of compacted messages there are, and which batches are in them already.

Each change is a new file with the next number, written whole or not at all; the highest number is what is true. Two
changes at once are found out: the number is taken, and the second fails with nothing done. Where that cannot be found
out, as in an object store, changes are refused unless the lake has a single writer. Readers need no lock."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from leveret.spark.pipeline.lake import Lake
from leveret.spark.pipeline.lake_files import LakeFiles

__all__ = ["Compacted", "Dropped", "Manifest", "ManifestConflict", "Manifests"]

FORMAT = 1
# Old ones are kept for a while, for readers that have just looked which one is the newest, and for people.
KEPT = 20


class ManifestConflict(Exception):
    """Something else changed the archive at the same moment. Nothing was done; run it again."""


@dataclass(frozen=True)
class Compacted:
    """How far a job's batches are compacted: the landing's number, and Spark's batch."""

    number: int = -1
    batch: int = -1


@dataclass(frozen=True)
class Dropped:
    """A folder that is not read any more, and since when. It is deleted when nobody can be reading it still."""

    path: str
    at_ms: int


@dataclass(frozen=True)
class Manifest:
    number: int = 0
    jobs: Mapping[str, Compacted] = field(default_factory=dict)
    # Runs of compaction that have messages of a folder "stream=<name>/date=<day>", each a folder below that.
    runs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # Days before this one are gone, and what comes late for them is not kept.
    kept_from: str = ""
    dropped: tuple[Dropped, ...] = ()

    def compacted(self, job: str) -> Compacted:
        return self.jobs.get(job, Compacted())


class Manifests:
    def __init__(self, files: LakeFiles, lake: Lake) -> None:
        self._files = files
        self._lake = lake
        self._folder = f"{lake.archive}/manifest"

    def read(self) -> Manifest:
        numbers = self._numbers()
        if not numbers:
            return Manifest()
        data = json.loads(self._files.read(self._path(numbers[-1])))
        if data["format"] != FORMAT:
            raise ValueError(
                f"{self._path(numbers[-1])} has the format {data['format']}; this version of Leveret knows {FORMAT}"
            )
        return Manifest(
            numbers[-1],
            {job: Compacted(**one) for job, one in data["jobs"].items()},
            {folder: tuple(runs) for folder, runs in data["runs"].items()},
            data["kept_from"],
            tuple(Dropped(**one) for one in data["dropped"]),
        )

    def change(self, before: Manifest, **changes: Any) -> Manifest:
        """The next one: `before` with these changes."""
        after = replace(before, number=before.number + 1, **changes)
        data = {
            "format": FORMAT,
            "at_ms": int(time.time() * 1000),
            "jobs": {job: vars(one) for job, one in after.jobs.items()},
            "runs": {folder: list(runs) for folder, runs in after.runs.items()},
            "kept_from": after.kept_from,
            "dropped": [vars(one) for one in after.dropped],
        }
        if not self._files.write_new(self._lake, self._path(after.number), json.dumps(data)):
            raise ManifestConflict(
                f"{self._path(after.number)} was written by something else meanwhile; run this again"
            )
        return after

    def forget_old(self) -> None:
        for number in self._numbers()[:-KEPT]:
            self._files.delete(self._path(number))

    def _numbers(self) -> list[int]:
        names = (one.name for one in self._files.list(self._folder))
        return sorted(int(name.removesuffix(".json")) for name in names if name[0] not in "_.")

    def _path(self, number: int) -> str:
        return f"{self._folder}/{number:012d}.json"
