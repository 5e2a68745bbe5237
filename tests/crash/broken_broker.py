"""Leveret with one rule broken, to see that the tests notice: `python broken_broker.py BREAKAGE serve ...`.

It runs interpreted, because compiled code cannot be changed from outside. A breakage is applied before anything of
Leveret is imported or, if it names a part of Leveret, to that part. What can be broken without a change of code is
elsewhere: `storage.sync = false`, and a disk that lies (faults.py)."""

import os
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

PROGRAM: Final = str(Path(__file__).resolve())


def ignore_sync_errors() -> None:
    """A failed sync counts as done, as if a retry had helped."""
    for name in ("fdatasync", "fsync"):
        setattr(os, name, _without_errors(getattr(os, name)))


def _without_errors(sync: Callable[[int], None]) -> Callable[[int], None]:
    def tolerant(fd: int) -> None:
        try:
            sync(fd)
        except OSError:
            return

    return tolerant


def forget_deliveries() -> None:
    """A broker that starts again believes that nobody ever got anything."""
    from leveret.core.queue import ClassicQueue

    restore = ClassicQueue.restore

    def forgetful(queue: ClassicQueue, slots: bytearray, count: int, next_position: int, *_: object) -> None:
        restore(queue, slots, count, next_position, 0, False)

    ClassicQueue.restore = forgetful


BREAKAGES: Final[dict[str, Callable[[], None]]] = {
    "ignore-sync-errors": ignore_sync_errors,
    "forget-deliveries": forget_deliveries,
}


def program(breakage: str) -> tuple[str, ...]:
    """What to run instead of `-m leveret`."""
    assert breakage in BREAKAGES, f"no breakage {breakage}"
    return (PROGRAM, breakage)


if __name__ == "__main__":
    os.environ["LEVERET_PURE"] = "1"
    # This folder must not hide what Leveret imports.
    del sys.path[0]
    BREAKAGES[sys.argv.pop(1)]()
    runpy.run_module("leveret", run_name="__main__", alter_sys=True)
