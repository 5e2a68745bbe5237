"""Free space: how much the file system of a directory has left for us.

Asked in a thread, because a disk that hangs makes the question hang, and the loop must not. The figures are judged by
node.watch."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable


def free_bytes(directory: str) -> int:
    """What anybody but root may still write there: the reserve that some file systems keep is not counted."""
    answer = os.statvfs(directory)
    return answer.f_bavail * answer.f_frsize


class FreeSpace:
    """Asks for the free space of one directory, one question at a time, and answers on the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, directory: str) -> None:
        self._loop = loop
        self._directory = directory
        # The owner of the question under way. None when there is none, or nobody wants the answer any more.
        self._waiting: Callable[[int | OSError], None] | None = None
        self._under_way = False

    def ask(self, answered: Callable[[int | OSError], None]) -> bool:
        """False, and nothing happens, while an earlier question is under way: if it hangs, so would this one."""
        if self._under_way:
            return False
        # Not a thread of an executor: those are joined when the loop or the interpreter ends, so that a hung disk
        # would keep the process from stopping.
        thread = threading.Thread(target=self._ask, name="leveret-free-space", daemon=True)
        self._under_way, self._waiting = True, answered
        try:
            thread.start()
        except RuntimeError as error:
            self._loop.call_soon(self._answer, OSError(str(error)))
        return True

    def _ask(self) -> None:
        """In the thread: touches nothing of this object but what never changes."""
        answer: int | OSError
        try:
            answer = free_bytes(self._directory)
        except OSError as error:
            answer = error
        # The loop may be closed by now: then nobody is left to be told.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._answer, answer)

    def _answer(self, answer: int | OSError) -> None:
        waiting, self._waiting = self._waiting, None
        self._under_way = False
        if waiting is not None:
            waiting(answer)

    def close(self) -> None:
        """The answer under way, if any, is not wanted any more. Does not wait for it."""
        self._waiting = None
