"""Runs the queries of a job until they end, fail or are to stop, and shows how far they are.

SIGTERM and SIGINT let the batches that run come to their end, for a while; a batch that is cut off is run again from
the checkpoint, so nothing is lost by that either. A second signal does not wait any longer."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Container, Iterator, Sequence
from types import FrameType
from typing import Any

from pyspark.errors.exceptions.base import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from leveret.spark.pipeline.archive.self_compaction import SelfCompaction
from leveret.spark.pipeline.job_errors import short_error
from leveret.spark.pipeline.job_metrics import MetricsPage, QueryWatch, text_of
from leveret.spark.pipeline.progress import QueryProgress

__all__ = ["run_queries"]

LOOK_S = 0.5
# How long a batch may go on after a signal.
PATIENCE_S = 20.0
ENDED, FAILED = 0, 1


def run_queries(
    queries: Sequence[StreamingQuery],
    *,
    once: bool = False,
    metrics_port: int | None = None,
    title: str = "pipeline",
    compaction: SelfCompaction | None = None,
    landed_before: Container[int] = (),
) -> int:
    """An exit code: 0 if all ended well or were stopped, 1 if one has failed, whose error is shown then. With `once`
    the queries are expected to end by themselves (trigger availableNow); without it, one that ends before it was asked
    to is a failure. `metrics_port` serves figures for Prometheus on 127.0.0.1; 0 takes any free port, and says which
    one. `compaction` runs beside the queries, and with `once` a last time when they have ended; whatever becomes of it,
    the exit code is that of the queries. Messages that were lost are told as it is noticed, and once more at the end;
    `landed_before` are batches that start_archive did not read again."""
    watches = [QueryWatch(query, landed_before) for query in queries]
    # What the page shows is what was seen last: its thread does not talk to Spark.
    with QueryProgress(title) as shown, contextlib.ExitStack() as stack:
        stop = stack.enter_context(_signals())
        if metrics_port is not None:
            page = stack.enter_context(MetricsPage(metrics_port, lambda: text_of([one.figures for one in watches])))
            shown.say(f"figures for Prometheus at http://127.0.0.1:{page.port}/metrics")
        if compaction is None:
            return _watch(watches, once, shown, stop, list)
        watches[0].figures.compaction = compaction.figures
        with compaction:
            code = _watch(watches, once, shown, stop, compaction.news)
            if once and code == ENDED:
                compaction.finish(stop.asked)
        for line in compaction.news():
            shown.say(line)
        return code


def _watch(
    watches: list[QueryWatch], once: bool, shown: QueryProgress, stop: _Stop, news: Callable[[], list[str]]
) -> int:
    code = ENDED
    while True:
        for line in news():
            shown.say(line)
        shown.show([one.look() for one in watches])
        _tell_losses(watches, shown)
        ended = [one for one in watches if not one.figures.active]
        failed = [one for one in ended if one.query.exception() is not None]
        if failed or (ended and not once and not stop.asked.is_set()):
            code = FAILED
            break
        if len(ended) == len(watches) or stop.asked.wait(LOOK_S):
            break
    if stop.asked.is_set():
        shown.say("stopping: the batches that run come to their end")
    # If one has failed the others are stopped too: half a job that looks alive is worse than none.
    _stop_all(watches, stop)
    for one in watches:
        one.look()
        error = one.query.exception()
        if error is not None:
            one.figures.failed = True
            code = FAILED
    _tell_losses(watches, shown)
    shown.show([one.figures for one in watches], last=True)
    for one in watches:
        summary = one.figures.losses.summary()
        if summary is not None:
            shown.say(f"{one.figures.name}: {summary}")
        error = one.query.exception()
        if error is not None:
            shown.say(f"{one.figures.name} failed: {short_error(error)}")
        elif code == FAILED and not once and one in ended:
            shown.say(f"{one.figures.name} ended, and nobody had asked it to")
    return code


def _tell_losses(watches: list[QueryWatch], shown: QueryProgress) -> None:
    for one in watches:
        for line in one.figures.losses.news():
            shown.say(f"{one.figures.name}: {line}")


def _stop_all(watches: list[QueryWatch], stop: _Stop) -> None:
    until = time.monotonic() + PATIENCE_S
    batches = [one.look().batch for one in watches]
    for one, batch in zip(watches, batches, strict=True):
        # Until it has nothing to do, or the batch that ran is through.
        while one.query.isActive and _is_busy(one.query) and one.look().batch == batch and time.monotonic() < until:
            if stop.at_once.wait(0.05):
                break
        with contextlib.suppress(PySparkException):
            # One that has failed meanwhile says so by its exception().
            one.query.stop()


def _is_busy(query: StreamingQuery) -> bool:
    status = query.status
    return bool(status["isTriggerActive"] and status["isDataAvailable"])


class _Stop:
    def __init__(self) -> None:
        self.asked = threading.Event()
        self.at_once = threading.Event()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        (self.at_once if self.asked.is_set() else self.asked).set()


@contextlib.contextmanager
def _signals() -> Iterator[_Stop]:
    """Only the main thread of a program hears signals; from others, as in a notebook, queries are stopped by their
    stop()."""
    stop = _Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before: dict[int, Any] = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
