"""Has the files of streams ready before a batch is written to them: made, their names synced, and open.

What blocks runs in a thread of its own, so that a disk that hangs holds up nobody who does not wait for it. Called by
the committer alone, for one lot of segments at a time. A shortage is no failure: what could be made and opened is kept,
and the committer comes again for the rest."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from leveret.core.stream.segment import StreamSegment
from leveret.runtime.files import SHORTAGES, sync_directory
from leveret.runtime.threads import start_threads
from leveret.storage.stream.files import StreamFiles


@dataclass(slots=True)
class Opened:
    """What one go has brought about, and the error that ended it early."""

    made: list[StreamSegment] = field(default_factory=list)
    writers: list[tuple[StreamSegment, int]] = field(default_factory=list)
    error: BaseException | None = None

    @property
    def shortage(self) -> OSError | None:
        """The error, if it may pass by itself."""
        return self.error if isinstance(self.error, OSError) and self.error.errno in SHORTAGES else None


class Opener:
    def __init__(self, files: StreamFiles, sync: bool) -> None:
        self._files = files
        self._sync = sync
        # Segments without a file, each with its stream's id. Changed on the loop only.
        self._planned: dict[StreamSegment, int] = {}
        # Directories with a name in them that is not synced. Changed in the thread, read while that is idle.
        self._new_names: dict[Path, None] = {}
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="leveret-opener")
        self._closed = False

    # ---- on the loop

    def begin(self) -> None:
        """Starts the thread: when it is needed there may be no room for one."""
        start_threads(self._thread)

    def plan(self, stream_id: int, segment: StreamSegment) -> None:
        self._planned[segment] = stream_id

    def forget(self, segment: StreamSegment) -> None:
        """The segment's stream is deleted."""
        self._planned.pop(segment, None)

    @property
    def is_behind(self) -> bool:
        """Whether a file is still to be made, or a name to be synced."""
        return bool(self._planned or self._new_names)

    def open(
        self,
        loop: asyncio.AbstractEventLoop,
        segments: list[StreamSegment],
        making: bool,
        done: Callable[[Opened], None],
    ) -> None:
        """Opens these segments, after making every file that was planned if asked; `done` is called on the loop, once
        what was opened is known to the files."""
        planned = list(self._planned.items()) if making else []
        future = loop.run_in_executor(self._thread, self._work, planned, segments, making)
        future.add_done_callback(lambda finished: self._finish(finished, done))

    def _finish(self, future: asyncio.Future[Opened], done: Callable[[Opened], None]) -> None:
        if self._closed or future.cancelled():
            return
        error = future.exception()
        opened = Opened(error=error) if error is not None else future.result()
        for segment in opened.made:
            self._planned.pop(segment, None)
            self._files.made(segment)
        for segment, fd in opened.writers:
            self._files.opened(segment, fd)
        done(opened)

    async def barrier(self) -> None:
        """Returns once nothing that was begun before goes on in the thread."""
        await asyncio.get_running_loop().run_in_executor(self._thread, lambda: None)

    def close(self) -> None:
        self._closed = True
        self._thread.shutdown(wait=False, cancel_futures=True)

    # ---- in the thread

    def _work(self, planned: list[tuple[StreamSegment, int]], segments: list[StreamSegment], making: bool) -> Opened:
        opened = Opened()
        try:
            if making:
                self._make(planned, set(segments), opened)
                self._sync_names()
            self._open(segments, opened)
        except OSError as error:
            opened.error = error
        if self._closed:
            # Nobody takes them any more.
            for _, fd in opened.writers:
                os.close(fd)
        return opened

    def _make(self, planned: Iterable[tuple[StreamSegment, int]], wanted: set[StreamSegment], opened: Opened) -> None:
        for segment, stream_id in planned:
            if segment.gone:
                # Its stream is deleted: it has no directory any more, and is not to get one.
                continue
            directory: Path = segment.path.parent
            if self._files.make_directory(directory) or segment.number == 1:
                self._new_names[directory.parent] = None
            fd = self._files.create(stream_id, segment)
            self._new_names[directory] = None
            opened.made.append(segment)
            if segment in wanted:
                opened.writers.append((segment, fd))
            else:
                # A message may go to thousands of streams, more than can be open.
                os.close(fd)

    def _sync_names(self) -> None:
        while self._new_names:
            path = next(iter(self._new_names))
            if self._sync:
                # A stream that was deleted has no directory any more.
                with contextlib.suppress(FileNotFoundError):
                    sync_directory(path)
            del self._new_names[path]

    @staticmethod
    def _open(segments: list[StreamSegment], opened: Opened) -> None:
        made = set(opened.made)
        for segment in segments:
            if segment not in made and not segment.gone:
                opened.writers.append((segment, os.open(segment.path, os.O_RDWR | os.O_CLOEXEC)))
