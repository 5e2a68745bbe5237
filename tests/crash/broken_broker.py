"""Leveret with one rule broken, to see that the tests notice: `python broken_broker.py BREAKAGE serve ...`.

It runs interpreted, because compiled code cannot be changed from outside. A breakage is applied before anything of
Leveret is imported or, if it names a part of Leveret, to that part. What can be broken without a change of code is
elsewhere: `storage.sync = false`, and a disk that lies (faults.py)."""

import errno
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
    from leveret.core.log.rebuild import QueueBook
    from leveret.core.queue.classic_queue import ClassicQueue

    restore = ClassicQueue.restore
    # What the log knows of deliveries is in the slots of the book already.
    QueueBook.deliveries = lambda book, position: 0

    def forgetful(queue: ClassicQueue, book: QueueBook, all_seen: bool) -> None:
        book.handed = 0
        restore(queue, book, False)

    ClassicQueue.restore = forgetful


def forget_keys() -> None:
    """A broker that starts again believes that it has seen no message before."""
    from leveret.core.queue.dedup import DedupWindow

    DedupWindow.restore = lambda window, found, now: set()


def keep_originals() -> None:
    """A message that goes to another queue is in the log of both."""
    from leveret.core.queue.classic_queue import ClassicQueue

    ClassicQueue.letter_sent = lambda queue, letter: 0


def release_early() -> None:
    """Delayed messages go on their way before their time."""
    from leveret.core.queue import delays

    due_of = delays.due_of
    delays.due_of = lambda position: due_of(position) - 150


def break_rules() -> None:
    """All three at once."""
    forget_keys()
    keep_originals()
    release_early()


def forget_producers() -> None:
    """A stream that starts again knows no id of anybody."""
    from leveret.core.stream.tracking import Tracking

    read = Tracking.read

    def forgetful(tracking: Tracking, data: bytes, at: int, end: int, whole: bool) -> int:
        answer: int = read(tracking, data, at, end, whole)
        tracking.producers.clear()
        return answer

    Tracking.read = forgetful


def skip_messages() -> None:
    """Readers of a stream do not get every hundredth message."""
    from leveret.core.stream.consumer import StreamConsumer
    from leveret.core.stream.cursor import Cursor

    send = StreamConsumer.send

    def careless(consumer: StreamConsumer, cursor: Cursor) -> int:
        return 0 if cursor.offset % 100 == 50 else send(consumer, cursor)

    StreamConsumer.send = careless


def ignore_write_errors() -> None:
    """A failed write counts as done."""
    from leveret.runtime import pure_disk

    write_at = pure_disk.write_at
    pure_disk.write_at = lambda *arguments: write_at(*arguments) and 0


def take_shortage_for_damage() -> None:
    """A segment that cannot be opened just now is read as one with nothing in it."""
    open_really = os.open

    def careless(path: str | os.PathLike[str], flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        try:
            return open_really(path, flags, mode, dir_fd=dir_fd)
        except OSError as error:
            if error.errno != errno.EMFILE or not os.fspath(path).endswith(".segment") or flags & os.O_ACCMODE:
                raise
            return open_really(os.devnull, flags)

    os.open = careless  # type: ignore[assignment]


BREAKAGES: Final[dict[str, Callable[[], None]]] = {
    "ignore-sync-errors": ignore_sync_errors,
    "ignore-write-errors": ignore_write_errors,
    "take-shortage-for-damage": take_shortage_for_damage,
    "forget-deliveries": forget_deliveries,
    "break-rules": break_rules,
    "forget-producers": forget_producers,
    "skip-messages": skip_messages,
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
