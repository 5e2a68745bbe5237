"""The archive put in order: many small files become few large ones, and days that nobody wants any more go.

May run beside the archive and beside readers, which see every message once at any moment, and may die at any moment:
what it writes counts when the manifest says so, which is one step. What it has replaced is deleted an hour later, when
nobody reads it any more; what an attempt that died has left behind, a day later."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from leveret.spark.pipeline.archive.archiving import read_compacted, read_landed
from leveret.spark.pipeline.archive.landing import Landed, Landing
from leveret.spark.pipeline.archive.manifest import Compacted, Dropped, Manifest, Manifests
from leveret.spark.pipeline.lake import Lake
from leveret.spark.pipeline.lake_files import LakeFiles

__all__ = ["BATCHES_MIN", "CompactionResult", "ExpireResult", "compact", "expire", "is_worthwhile"]

FILE_BYTES = 128 * 1024 * 1024
# A day of which there are so many runs is put together again; one that is over, if there are two.
RUNS_MAX = 8
# So many batches are worth a compaction that nobody has asked for.
BATCHES_MIN = 10
GRACE_S = 3600.0
LEFT_BEHIND_S = 86_400.0
STAGING, FOLDERS = "_staging", "_folders.json"


@dataclass(frozen=True)
class CompactionResult:
    batches: int
    messages: int
    # Folders "stream=<name>/date=<day>" that have changed.
    folders: int
    deleted: int


@dataclass(frozen=True)
class ExpireResult:
    kept_from: date
    folders: int


def compact(
    spark: SparkSession,
    lake: Lake,
    *,
    file_bytes: int = FILE_BYTES,
    grace_s: float = GRACE_S,
    on_step: Callable[[str], None] | None = None,
) -> CompactionResult:
    """Compacts everything that has landed. `grace_s` is how long files that are replaced stay for those who read them,
    and `on_step` hears what is done. Raises ManifestConflict if another compaction was faster, and LakeNotAtomic
    where that could not be found out; nothing is done then."""
    return _Compaction(spark, lake, file_bytes, grace_s, on_step or (lambda step: None)).run()


def is_worthwhile(spark: SparkSession, lake: Lake, batches_min: int = BATCHES_MIN, grace_s: float = GRACE_S) -> bool:
    """Whether enough batches have landed since the last compaction, or what it has replaced may be deleted by now. Only
    looks at names."""
    files = LakeFiles(spark)
    landing = Landing(files, lake)
    landed = [one for job in landing.jobs() for one in landing.landed(job)]
    manifest = Manifests(files, lake).read()
    fresh = sum(one.number > manifest.compacted(one.job).number for one in landed)
    return fresh >= batches_min or any(_now_ms() - one.at_ms >= grace_s * 1000 for one in manifest.dropped)


class _Compaction:
    def __init__(
        self, spark: SparkSession, lake: Lake, file_bytes: int, grace_s: float, on_step: Callable[[str], None]
    ) -> None:
        self._spark = spark
        self._lake = lake
        self._file_bytes = file_bytes
        self._grace_s = grace_s
        self._on_step = on_step
        self._files = LakeFiles(spark)
        self._landing = Landing(self._files, lake)
        self._manifests = Manifests(self._files, lake)
        self._root = f"{lake.archive}/compacted"

    def run(self) -> CompactionResult:
        self._files.check_writers(self._lake)
        landed = [one for job in self._landing.jobs() for one in self._landing.landed(job)]
        manifest = self._manifests.read()
        fresh = [one for one in landed if one.number > manifest.compacted(one.job).number]
        again = self._crowded(manifest)
        messages = 0
        changed: dict[str, tuple[str, ...]] = {}
        if fresh or again:
            run = f"{_now_ms():013d}-{uuid.uuid4().hex[:8]}"
            messages, changed = self._write(manifest, fresh, again, run)
            manifest = self._commit(manifest, landed, again, changed)
            self._on_step("committed")
            self._files.delete(f"{self._root}/{STAGING}/{run}")
        deleted = self._sweep(manifest)
        self._on_step("swept")
        return CompactionResult(len(fresh), messages, len(changed), deleted)

    def _crowded(self, manifest: Manifest) -> list[str]:
        """Folders whose runs are to be put together with what is fresh."""
        today = datetime.now(UTC).date().isoformat()
        return [
            folder
            for folder, runs in manifest.runs.items()
            if len(runs) >= RUNS_MAX or (len(runs) > 1 and _day_of(folder) < today)
        ]

    def _write(
        self, manifest: Manifest, fresh: list[Landed], again: list[str], run: str
    ) -> tuple[int, dict[str, tuple[str, ...]]]:
        """Writes them, and says how many messages it were and which runs each folder has now."""
        landed = read_landed(self._spark, self._landing, fresh, merge=True)
        known = read_compacted(self._spark, self._lake, manifest, again, merge=True)
        rows = landed.unionByName(known, allowMissingColumns=True)
        if manifest.kept_from:
            rows = rows.where(f.col("date") >= manifest.kept_from)
        size = sum(self._files.size(self._landing.folder(one.job, one.attempt)) for one in fresh if not one.is_empty)
        size += sum(self._files.size(f"{self._root}/{folder}") for folder in again)
        order = ("stream", "date", "partition", "offset")
        staging = f"{self._root}/{STAGING}/{run}"
        ordered = rows.repartitionByRange(max(1, -(-size // self._file_bytes)), *order).sortWithinPartitions(*order)
        ordered.write.partitionBy("stream", "date").parquet(staging)
        self._on_step("written")
        folders = [
            f"{stream.name}/{day.name}"
            for stream in self._files.list(staging)
            if stream.name.startswith("stream=")
            for day in self._files.list(f"{staging}/{stream.name}")
        ]
        expected = rows.count()
        found = self._spark.read.parquet(staging).count() if folders else 0
        if found != expected:
            raise RuntimeError(
                f"compaction read {expected} messages and wrote {found} to {staging}; nothing was changed, and the "
                "files stay to be looked at"
            )
        self._files.write_over(f"{staging}/{FOLDERS}", json.dumps(folders))
        self._on_step("counted")
        changed = {}
        for folder in folders:
            self._files.move(f"{staging}/{folder}", self._run_folder(folder, run))
            self._on_step("moved")
            changed[folder] = (run,) if folder in again else (*manifest.runs.get(folder, ()), run)
        return expected, changed

    def _commit(
        self, manifest: Manifest, landed: list[Landed], again: list[str], changed: dict[str, tuple[str, ...]]
    ) -> Manifest:
        """The one step in which everything counts that was written, and nothing any more that it was made from."""
        jobs = dict(manifest.jobs)
        for one in landed:
            before = jobs.get(one.job, Compacted())
            jobs[one.job] = Compacted(max(before.number, one.number), max(before.batch, one.batch))
        runs = {folder: names for folder, names in manifest.runs.items() if folder not in again} | changed
        replaced = [self._landing.folder(one.job, one.attempt) for one in _but_newest(landed) if not one.is_empty]
        replaced += [self._run_folder(folder, run) for folder in again for run in manifest.runs[folder]]
        known = {one.path for one in manifest.dropped}
        dropped = (*manifest.dropped, *(Dropped(path, _now_ms()) for path in replaced if path not in known))
        return self._manifests.change(manifest, jobs=jobs, runs=runs, dropped=dropped)

    def _run_folder(self, folder: str, run: str) -> str:
        return f"{self._root}/{folder}/run={run}"

    # ---- what nobody reads any more

    def _sweep(self, manifest: Manifest) -> int:
        self._sweep_landing(manifest)
        self._sweep_staging(manifest)
        old = [one for one in manifest.dropped if _now_ms() - one.at_ms >= self._grace_s * 1000]
        for one in old:
            self._files.delete(one.path)
        if old:
            self._manifests.change(manifest, dropped=tuple(one for one in manifest.dropped if one not in old))
        self._manifests.forget_old()
        return len(old)

    def _sweep_landing(self, manifest: Manifest) -> None:
        dropped = {one.path for one in manifest.dropped}
        for job in self._landing.jobs():
            attempts = self._landing.attempts(job)
            landed = self._landing.landed(job)
            for one in _but_newest([one for one in landed if one.number <= manifest.compacted(job).number]):
                # Its folder is among what was dropped.
                self._landing.forget(one)
            marked = {one.attempt for one in landed}
            for name, modified_ms in attempts:
                folder = self._landing.folder(job, name)
                is_old = _now_ms() - modified_ms >= LEFT_BEHIND_S * 1000
                if is_old and name not in marked and folder not in dropped:
                    self._files.delete(folder)

    def _sweep_staging(self, manifest: Manifest) -> None:
        """What runs that died have left: each has its staging folder still, with the list of what it meant to move."""
        dropped = {one.path for one in manifest.dropped}
        for run, _ in self._files.list(f"{self._root}/{STAGING}"):
            if _now_ms() - int(run.partition("-")[0]) < LEFT_BEHIND_S * 1000:
                continue
            staging = f"{self._root}/{STAGING}/{run}"
            listed = self._files.read(f"{staging}/{FOLDERS}") if self._files.exists(f"{staging}/{FOLDERS}") else "[]"
            for folder in json.loads(listed):
                path = self._run_folder(folder, run)
                if run not in manifest.runs.get(folder, ()) and path not in dropped:
                    self._files.delete(path)
            self._files.delete(staging)


def _but_newest(landed: list[Landed]) -> list[Landed]:
    """All but the newest of each job, which stays: by it messages are known that a queue gives once more."""
    newest = {one.job: one.number for one in sorted(landed, key=lambda one: one.number)}
    return [one for one in landed if one.number != newest[one.job]]


def _now_ms() -> int:
    return int(time.time() * 1000)


def _day_of(folder: str) -> str:
    return folder.rpartition("/date=")[2]


def expire(spark: SparkSession, lake: Lake, older_than_days: int, *, today: date | None = None) -> ExpireResult:
    """Forgets whole days: those that were over `older_than_days` days ago. 0 keeps today alone. What comes late for
    such a day is not kept either. Files of the days go at once, those of batches with the next compaction."""
    if older_than_days < 0:
        raise ValueError(f"older_than_days is {older_than_days}; it must be 0 or more")
    files = LakeFiles(spark)
    files.check_writers(lake)
    manifests = Manifests(files, lake)
    manifest = manifests.read()
    kept_from = ((today or datetime.now(UTC).date()) - timedelta(days=older_than_days)).isoformat()
    kept_from = max(kept_from, manifest.kept_from)
    gone = [folder for folder in manifest.runs if _day_of(folder) < kept_from]
    if gone or kept_from != manifest.kept_from:
        runs = {folder: names for folder, names in manifest.runs.items() if folder not in gone}
        # Written down before anything is deleted: nothing is left half.
        manifests.change(manifest, runs=runs, kept_from=kept_from)
    root = f"{lake.archive}/compacted"
    for stream in files.list(root):
        if stream.name.startswith("stream="):
            for day in files.list(f"{root}/{stream.name}"):
                if day.name.removeprefix("date=") < kept_from:
                    files.delete(f"{root}/{stream.name}/{day.name}")
    return ExpireResult(date.fromisoformat(kept_from), len(gone))
