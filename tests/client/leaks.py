"""Whether something was left behind: tasks of the running loop, sockets of the process, threads.

    async with no_leaks():
        ...                     # everything opened here must be closed here

    with no_leaks(): ...        # the same outside of a loop, for what blocks

A broker or a proxy in the same process has sockets, too: those of connections that were closed here follow soon, so
there is a little patience at the end. Threads of a pool, such as a loop's executor, stay with whoever has the pool."""

from __future__ import annotations

import asyncio
import os
import re
import threading
import time
from types import TracebackType
from typing import Any, Final

__all__ = ["no_leaks", "open_sockets"]

PATIENCE_S: Final = 30.0
LOOK_S: Final = 0.02
# As concurrent.futures names them.
OF_A_POOL: Final = re.compile(r"_\d+$")
# A thread of the broker that runs in this process: it looks at its disk now and then.
OF_THE_BROKER: Final = "leveret-free-space"


def open_sockets() -> set[str]:
    """The sockets of this process, by their inode."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            # It was closed between the two looks.
            continue
        if target.startswith("socket:"):
            found.add(target)
    return found


def _tasks() -> set[asyncio.Task[Any]]:
    try:
        return asyncio.all_tasks()
    except RuntimeError:
        # No loop is running.
        return set()


class no_leaks:  # noqa: N801 - it is used like a function
    """An error within is not hidden by what it left behind."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._sockets: set[str] = set()
        self._threads: set[threading.Thread] = set()

    def _begin(self) -> None:
        self._tasks, self._sockets, self._threads = _tasks(), open_sockets(), set(threading.enumerate())

    def _left(self) -> list[str]:
        threads = {thread for thread in threading.enumerate() if thread.name != OF_THE_BROKER} - self._threads
        return [
            *(f"task {task!r}" for task in _tasks() - self._tasks),
            *(f"socket {name}" for name in open_sockets() - self._sockets),
            *(f"thread {thread.name}" for thread in threads if not OF_A_POOL.search(thread.name)),
        ]

    def _judge(self) -> None:
        left = self._left()
        assert not left, "left behind: " + ", ".join(left)

    def __enter__(self) -> no_leaks:
        self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            end = time.monotonic() + PATIENCE_S
            while self._left() and time.monotonic() < end:
                time.sleep(LOOK_S)
            self._judge()

    async def __aenter__(self) -> no_leaks:
        self._begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            end = time.monotonic() + PATIENCE_S
            while self._left() and time.monotonic() < end:  # noqa: ASYNC110 - nobody tells when a socket is closed
                await asyncio.sleep(LOOK_S)
            self._judge()
