"""What publishers notice while Spark reads all there is.

Both ways are measured in turn, in windows of a few seconds: Spark is stopped for one and goes on for the next, so that
both meet the same machine. The median of the windows' p99 counts: one stall of a virtual disk, and they have some by
themselves, is the whole last hundredth of a window.

On two cores a Spark that may take both competes with broker and publishers for the processor itself. That is the
scheduler's share, not the broker's: two loops that do nothing at all cost publishers as much. So there are two
settings: Spark on both cores, like any busy neighbour; and Spark on the one, broker and publishers on the other, with
Spark and without. Only the second says what serving a backfill costs publishers, as it would with a Spark elsewhere."""

from __future__ import annotations

import contextlib
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.broker.load import Load
from benchmarks.broker.peers import Running, process_tree

__all__ = ["APART", "RATE", "SHARED", "SIZE", "Noticed", "measure_publishers"]

SIZE, RATE = 1024, 5_000
WINDOW_S = 4
SHARED, APART = "on the same cores", "on a core of its own"
# After a signal, until all of Spark stands still or is at work again.
SETTLE_S = 0.5


@dataclass(frozen=True, slots=True)
class Noticed:
    """Microseconds from the moment a message was due until its confirm: the medians of the windows."""

    p50_alone: float
    p99_alone: float
    p50_beside: float
    p99_beside: float

    @property
    def times(self) -> float:
        return self.p99_beside / self.p99_alone


def measure_publishers(load: Load, broker: Running, url: str, windows: int) -> dict[str, Noticed]:
    """By setting."""
    cores = sorted(os.sched_getaffinity(0))
    found = {SHARED: _measure(load, broker, url, windows, set(cores))}
    if len(cores) > 1:
        ours, sparks = set(cores[: len(cores) // 2]), set(cores[len(cores) // 2 :])
        with _held_to(broker.pid, ours, set(cores)):
            found[APART] = _measure(load, broker, url, windows, sparks)
    return found


def _measure(load: Load, broker: Running, url: str, windows: int, sparks: set[int]) -> Noticed:
    alone: list[dict[str, float]] = []
    beside: list[dict[str, float]] = []
    with _backfill(url, sparks) as signal_all:
        for _ in range(windows):
            for number, told in ((signal.SIGSTOP, alone), (signal.SIGCONT, beside)):
                signal_all(number)
                time.sleep(SETTLE_S)
                told.append(_window(load, broker))

    def median(told: list[dict[str, float]], which: str) -> float:
        return statistics.median(one[which] for one in told)

    return Noticed(median(alone, "p50"), median(alone, "p99"), median(beside, "p50"), median(beside, "p99"))


def _window(load: Load, broker: Running) -> dict[str, float]:
    """Confirms of persistent messages at a steady rate."""
    options = ["--latency", "--persistent", "--confirm", "1000", "--ack", "100", "--prefetch", "1000"]
    options += ["--size", str(SIZE), "--rate", str(RATE), "--seconds", str(WINDOW_S)]
    return load.run(broker.port, broker.pid, *options).confirm_us


@contextlib.contextmanager
def _held_to(pid: int, cores: set[int], before: set[int]) -> Iterator[None]:
    """Holds a process with all its threads, and what is started from here, to these cores."""

    def hold(to: set[int]) -> None:
        os.sched_setaffinity(0, to)
        for thread in os.listdir(f"/proc/{pid}/task"):
            os.sched_setaffinity(int(thread), to)

    hold(cores)
    try:
        yield
    finally:
        hold(before)


@contextlib.contextmanager
def _backfill(url: str, cores: set[int]) -> Iterator[Callable[[signal.Signals], None]]:
    """Another Spark that reads all there is on these cores; gives what sends a signal to all of its processes."""

    def signal_all(number: signal.Signals) -> None:
        for pid in process_tree(running.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    command = ["taskset", "--cpu-list", ",".join(map(str, cores)), sys.executable, "-m", "benchmarks.spark.backfill"]
    with subprocess.Popen(
        [*command, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as running:
        assert running.stdout is not None
        running.stdout.readline()
        try:
            yield signal_all
        finally:
            signal_all(signal.SIGCONT)
            running.communicate("enough\n", timeout=120)
