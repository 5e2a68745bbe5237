"""Threads that are there from the start: one that is only started when it is needed fails when it is needed most."""

from __future__ import annotations

import errno
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

# How long new threads may take to run.
START_DEADLINE_S = 10.0
# How much nicer such a thread is: beside one that is busy all the time it still gets a quarter of a core.
NICER_BY = 5


def started_pool(name: str, count: int = 1) -> ThreadPoolExecutor:
    """A pool whose threads all run already. Raises OSError if the system has none to give."""
    pool = ThreadPoolExecutor(max_workers=count, thread_name_prefix=name)
    start_threads(pool, count)
    return pool


def start_threads(pool: ThreadPoolExecutor, count: int = 1) -> None:
    """Has a new pool start so many threads now. Raises OSError, and the pool is of no use, if it cannot."""
    # Each holds one thread until all are there, so that the pool starts another for the next.
    together = threading.Barrier(count)
    waiting: list[Future[int]] = []
    try:
        for _ in range(count):
            waiting.append(pool.submit(together.wait, START_DEADLINE_S))
        for future in waiting:
            future.result()
    except (RuntimeError, threading.BrokenBarrierError) as error:
        together.abort()
        pool.shutdown(wait=False, cancel_futures=True)
        raise OSError(errno.EAGAIN, "cannot start a thread") from error


def usable_cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0))


def give_way() -> None:
    """The calling thread leaves the processor to the others when they want it: Linux has priorities of single threads.
    Where the system does not let it, nothing changes."""
    with suppress(OSError):
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + NICER_BY)
