"""Fetches bodies from disk for queues whose next messages are not in memory: one load at a time, in its own thread.

An error of open or read never costs a message. Where something is short (descriptors, memory) or a file cannot be
opened, the load waits and is tried again while others go on. Where the disk cannot read, its records are read one by
one; those that it cannot give while it gives others are written down in quarantine, and the queue goes on without
them. A disk that gives nothing at all is the end of the store."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any

from leveret.core.log.journal import Journal
from leveret.core.log.load import Load
from leveret.runtime.disk_thread import DiskThread
from leveret.runtime.log import get_logger
from leveret.runtime.read_errors import ReadError, any_can_be_read, kind_of
from leveret.storage.load_attempt import MEDIUM_TRIES, Attempt, LoadTarget, Verdict
from leveret.storage.quarantine import Quarantine
from leveret.storage.segment_files import SegmentFiles

log = get_logger(__name__)

# So many files are tried before the whole disk counts as unreadable.
PROBED_MAX = 16
LIST_RETRY_S = 1.0


class Loader:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        journal: Journal,
        files: SegmentFiles,
        quarantine: Quarantine,
        run: Callable[[Coroutine[Any, Any, None]], None],
        tick: Callable[[], None],
        kick: Callable[[], None],
        on_shortage: Callable[[str, OSError], None],
        on_failure: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._journal = journal
        self._files = files
        self._quarantine = quarantine
        self._run = run
        self._tick = tick
        self._kick = kick
        self._on_shortage = on_shortage
        self._on_failure = on_failure
        self._disk = DiskThread("leveret-read")
        loop.add_reader(self._disk.done_fd, self._done)
        # In the order they asked; those whose messages are not even written yet wait for that.
        self._wanting: dict[LoadTarget, bool] = {}
        self._unwritten: list[LoadTarget] = []
        # Those to be tried again: at once, and later.
        self._again: list[Attempt] = []
        self._timers: dict[Attempt, asyncio.TimerHandle] = {}
        self._current: Attempt | None = None
        # The steps of the disk's job by read, and the segments that are held open for it.
        self._steps: dict[Any, int] = {}
        self._held: list[int] = []
        self._buffer = bytearray()
        self.loads_total = 0
        self.loaded_bytes_total = 0
        self.retries_total = 0
        self.quarantined_total = 0

    def want(self, queue: LoadTarget) -> None:
        if queue not in self._wanting:
            self._wanting[queue] = True
            if self._current is None:
                self._next()

    def written(self) -> None:
        """More of the log can be read."""
        if self._unwritten:
            waiting, self._unwritten = self._unwritten, []
            for queue in waiting:
                self.want(queue)

    @property
    def waiting_count(self) -> int:
        """Loads that wait for another try."""
        return len(self._again) + len(self._timers)

    def _next(self) -> None:
        while self._again and self._current is None:
            self._start(self._again.pop(0))
        while self._wanting and self._current is None:
            queue = next(iter(self._wanting))
            del self._wanting[queue]
            load = queue.take_load(self._journal)
            if load is not None:
                self._start(Attempt(queue, load))
            elif queue.lacks_next():
                self._unwritten.append(queue)

    # ---- reading

    def _start(self, attempt: Attempt) -> None:
        """Has the load read; if a file cannot be opened, it is tried again later."""
        self._files.trim_readers()
        load = attempt.load
        if len(self._buffer) < load.size or len(self._buffer) > 4 * load.size + (4 << 20):
            self._buffer = bytearray(load.size)
        self._steps = {}
        fds: dict[int, int] = {}
        for read in attempt.reads:
            # One that is gone had nothing that anybody still wants.
            segment = self._journal.segments.get(read.segment)
            if segment is not None and read.segment not in fds:
                try:
                    fds[read.segment] = self._files.hold_reader(segment)
                except OSError as error:
                    for number in fds:
                        self._files.release_reader(number)
                    self._cannot_open(attempt, error)
                    return
        for read in attempt.reads:
            if read.segment in fds:
                self._steps[read] = self._disk.read(fds[read.segment], self._buffer, read.place, read.size, read.offset)
        self._held = list(fds)
        self._current = attempt
        self._disk.submit()

    def _done(self) -> None:
        self._disk.finish()
        # What comes from disk may have expired meanwhile.
        self._tick()
        attempt = self._current
        assert attempt is not None
        self._release()
        verdict = attempt.judge({read: self._disk.read_error(step) for read, step in self._steps.items()})
        self._steps = {}
        if verdict is Verdict.STOP:
            # The messages may well be there, so they must not be given up.
            self._on_failure(f"the disk cannot be read: {os.strerror(attempt.error_number())}")
        elif verdict is Verdict.UNREADABLE:
            # What the buffer has is needed: nothing else is read until it is clear what that means.
            self._run(self._without_unreadable(attempt))
        else:
            self._current = None
            try:
                self._after(attempt, verdict)
            finally:
                # Whatever went wrong with one queue, the others go on.
                self._go_on()

    def _after(self, attempt: Attempt, verdict: Verdict) -> None:
        if verdict is Verdict.READ:
            self._finish(attempt)
        elif verdict is Verdict.RECORDS:
            attempt.split()
            self._start(attempt)
        else:
            self._wait(attempt, self._error_of(attempt))

    def _go_on(self) -> None:
        if self._current is None:
            self._next()
        self._kick()

    def _release(self) -> None:
        for number in self._held:
            self._files.release_reader(number)
        self._held = []

    # ---- errors

    def _error_of(self, attempt: Attempt) -> OSError:
        number, read = attempt.error_number(), next(iter(attempt.failed))
        segment = self._journal.segments.get(read.segment)
        return OSError(number, os.strerror(number), str(segment.path) if segment is not None else None)

    def _cannot_open(self, attempt: Attempt, error: OSError) -> None:
        attempt.tries += 1
        if kind_of(error.errno or 0) is ReadError.MEDIUM and attempt.tries % MEDIUM_TRIES == 0:
            self._run(self._stop_if_nothing_can_be_read(error))
        self._wait(attempt, error)

    def _wait(self, attempt: Attempt, error: OSError) -> None:
        """Nothing says that a message is lost: the load is tried again, however long that takes."""
        self.retries_total += 1
        if attempt.is_news:
            log.warning(
                "messages cannot be read now; it is tried again",
                queue=attempt.queue.name,
                file=error.filename,
                error=error.strerror,
                tries=attempt.tries,
            )
        self._on_shortage("reading messages of queues", error)
        self._timers[attempt] = self._loop.call_later(attempt.wait_s, self._try_again, attempt)

    def _try_again(self, attempt: Attempt) -> None:
        del self._timers[attempt]
        self._again.append(attempt)
        self._go_on()

    async def _stop_if_nothing_can_be_read(self, error: OSError) -> None:
        await self._check_disk(error)

    async def _check_disk(self, error: OSError) -> bool:
        """Whether the disk gives anything at all; if not, the store stops."""
        segments = list(self._journal.segments.values())
        paths = [segment.path for segment in segments[-PROBED_MAX:] if segment.written]
        if await self._files.run(any_can_be_read, paths):
            return True
        self._on_failure(f"the disk cannot be read: {error.strerror}")
        return False

    async def _without_unreadable(self, attempt: Attempt) -> None:
        """The load is finished without the records that the disk cannot read, if it reads anything at all."""
        if await self._check_disk(self._error_of(attempt)):
            attempt.give_up_failed()
            self._current = None
            try:
                self._finish(attempt)
            finally:
                self._go_on()

    # ---- what was read

    def _finish(self, attempt: Attempt) -> None:
        load = attempt.load
        self.loads_total += 1
        self.loaded_bytes_total += load.size
        for extent in range(len(load.extents)):
            load.was_read(extent)
        load.finish(self._buffer, self._journal.segments)
        if load.lost and attempt.queue.is_loading(load):
            self._run(self._write_down(attempt))
        else:
            self._hand_over(attempt.queue, load)

    def _hand_over(self, queue: LoadTarget, load: Load) -> None:
        queue.finish_load(load)
        if queue.lacks_next():
            self.want(queue)

    async def _write_down(self, attempt: Attempt) -> None:
        """What is lost of the load goes into the list of what was given up, before the queue lets it go."""
        load = attempt.load
        segments = {number: self._journal.segments[number] for number, *_ in load.extents}
        for i in load.lost:
            segments[load.slot(i)[1] >> 32].damaged = True
        names = {number: self._quarantine.name(segment.path) for number, segment in segments.items()}
        lost = attempt.given_up(names)
        while True:
            try:
                await self._files.run(self._quarantine.add, lost)
                break
            except OSError as error:
                log.warning("what cannot be read is not given up before that is written down", error=str(error))
                self._on_shortage("writing down what cannot be read", error)
                await asyncio.sleep(LIST_RETRY_S)
        if attempt.queue.is_loading(load):
            self.quarantined_total += len(lost)
            for record in lost:
                log.error(
                    "a message cannot be read and is given up; its record stays where it is, and in quarantine later",
                    queue=record.queue,
                    position=record.position,
                    file=record.file,
                    offset=record.offset,
                    reason=record.reason,
                )
        self._hand_over(attempt.queue, load)
        self._kick()

    @property
    def reads(self) -> tuple[int, int]:
        """How often it has read, and how many octets."""
        return self._disk.reads_total, self._disk.read_bytes_total

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._loop.remove_reader(self._disk.done_fd)
        self._disk.stop()
        if not self._disk.thread.is_alive():
            self._release()
