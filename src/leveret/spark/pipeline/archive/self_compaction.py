"""Compaction that an archive does by itself, now and then, while its queries go on.

On a thread of its own, and in a pool of Spark's of its own: batches land beside it. Only where it is worth it
(compaction.is_worthwhile). Whatever goes wrong, such as another compaction that was faster, is told and tried again
later; nothing is lost by one that dies, so the end of the job cuts it off. In a notebook:

    with SelfCompaction(spark, lake, every_s=600):
        query.awaitTermination()"""

from __future__ import annotations

import queue
import threading
import time
import uuid

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from leveret.spark.pipeline.archive.compaction import BATCHES_MIN, compact, is_worthwhile
from leveret.spark.pipeline.archive.manifest import ManifestConflict
from leveret.spark.pipeline.job_errors import short_error
from leveret.spark.pipeline.job_metrics import CompactionFigures
from leveret.spark.pipeline.lake import Lake
from leveret.spark.pipeline.lake_files import LakeFiles

__all__ = ["EVERY_S", "SelfCompaction"]

EVERY_S = 3600.0
# A job that is started again more often than it compacts would never do it: it looks soon after its start.
FIRST_S = 60.0
RETRY_S = 300.0
# How long the end of the job waits for it at most, and how often it is told to end meanwhile.
END_S = 10.0
TELL_S = 0.2
POOL = "compaction"


class _CutOff(Exception):
    """The job ends, and a compaction with it."""


class SelfCompaction:
    """Compacts as long as it is entered, every `every_s` seconds, if `batches_min` batches have landed."""

    def __init__(
        self, spark: SparkSession, lake: Lake, *, every_s: float = EVERY_S, batches_min: int = BATCHES_MIN
    ) -> None:
        # At once, and not an hour later on another thread.
        LakeFiles(spark).check_writers(lake)
        self.figures = CompactionFigures()
        self._spark = spark
        self._lake = lake
        self._every_s = every_s
        self._batches_min = batches_min
        self._group = f"leveret-compaction-{uuid.uuid4().hex[:8]}"
        # Set if it is not to wait any longer: to compact a last time, or to end at once.
        self._woken, self._cut_off = threading.Event(), threading.Event()
        self._news: queue.SimpleQueue[str] = queue.SimpleQueue()
        # The properties of Spark that are a thread's own stay in this one.
        self._thread = InheritableThread(target=self._run, name="leveret-compaction", daemon=True)

    def __enter__(self) -> SelfCompaction:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._cut_off.set()
        self._woken.set()
        until = time.monotonic() + END_S
        while self._thread.is_alive() and time.monotonic() < until:
            # More than once: it may have been between two of Spark's jobs.
            self._spark.sparkContext.cancelJobGroup(self._group)
            self._thread.join(TELL_S)

    def finish(self, stop: threading.Event) -> None:
        """Compacts once more if it is worth it, and waits for it until `stop` is set."""
        self._woken.set()
        while self._thread.is_alive() and not stop.wait(TELL_S):
            pass

    def news(self) -> list[str]:
        """What has happened since this was asked last, in lines for people."""
        found = []
        while not self._news.empty():
            found.append(self._news.get())
        return found

    # ---- on the thread

    def _run(self) -> None:
        context = self._spark.sparkContext
        context.setLocalProperty("spark.scheduler.pool", POOL)
        context.setJobGroup(self._group, "compaction of the archive")
        wait_s = min(self._every_s, FIRST_S)
        while True:
            is_last = self._woken.wait(wait_s)
            if self._cut_off.is_set():
                return
            wait_s = self._every_s if self._try() else min(self._every_s, RETRY_S)
            if is_last or self._cut_off.is_set():
                return

    def _try(self) -> bool:
        """False if it is to be tried again sooner."""
        start = time.monotonic()
        try:
            if not is_worthwhile(self._spark, self._lake, self._batches_min):
                return True
            done = compact(self._spark, self._lake, on_step=self._on_step)
        except _CutOff:
            return False
        except ManifestConflict:
            self._news.put("something else has compacted the archive meanwhile; this compaction is tried again")
            return False
        except Exception as error:  # noqa: BLE001 - nothing that goes wrong here is to end the archive
            if not self._cut_off.is_set():
                self.figures.failed += 1
                self._news.put(f"compaction failed and is tried again: {short_error(error)}")
            return False
        self.figures.done += 1
        self.figures.batches += done.batches
        self.figures.last_s = time.monotonic() - start
        self._news.put(f"compacted {done.batches} batches with {done.messages:,} messages, {self.figures.last_s:.1f} s")
        return True

    def _on_step(self, step: str) -> None:
        if self._cut_off.is_set():
            raise _CutOff(step)
