"""Leveret with one rule broken, to see that the tests notice: `python broken_broker.py BREAKAGE serve ...`.

It runs interpreted, because compiled code cannot be changed from outside. A breakage is applied before anything of
Leveret is imported or, if it names a part of Leveret, to that part. What can be broken without a change of code is
elsewhere: `storage.sync = false`, and a disk that lies (faults.py)."""

import importlib
import os
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

PROGRAM: Final = str(Path(__file__).resolve())


def sync_nothing() -> None:
    """Every sync claims success at once: confirms come before anything is safe."""
    os.fdatasync = os.fsync = lambda fd: None  # type: ignore[assignment]


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


def replace(place: str, replacement: object) -> Callable[[], None]:
    """A breakage that puts something else in the place of "module:attribute.attribute"."""

    def apply() -> None:
        module, _, path = place.partition(":")
        *owners, name = path.split(".")
        owner: object = importlib.import_module(module)
        for step in owners:
            owner = getattr(owner, step)
        # A name that is gone must not make the control green.
        assert hasattr(owner, name), f"{place} does not exist"
        setattr(owner, name, replacement)

    return apply


BREAKAGES: Final[dict[str, Callable[[], None]]] = {
    "sync-nothing": sync_nothing,
    "ignore-sync-errors": ignore_sync_errors,
}


def program(breakage: str) -> tuple[str, ...]:
    """What to run instead of `-m leveret`."""
    assert breakage in BREAKAGES, f"no breakage {breakage}"
    return (PROGRAM, breakage)


if __name__ == "__main__":
    os.environ["LEVERET_PURE"] = "1"
    BREAKAGES[sys.argv.pop(1)]()
    # This folder must not hide what Leveret imports.
    del sys.path[0]
    runpy.run_module("leveret", run_name="__main__", alter_sys=True)
