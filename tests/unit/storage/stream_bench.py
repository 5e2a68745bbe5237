"""Streams on real files without a broker: a test appends, commits, reads and retains, each when it says so.

Does what the store and the committer do, one step at a time, and remembers what a loss of power would leave: the files
as they were at the last sync. A crash leaves that, and of what was written since whatever the test chooses."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from leveret.core.log.batch import Batch
from leveret.core.log.journal import Journal
from leveret.core.log.records import sealed
from leveret.core.log.segment import Segment
from leveret.core.stream.cursor import Cursor
from leveret.core.stream.log import Snapshot, StreamLog
from leveret.storage.damage import DamageReport
from leveret.storage.layout import Layout
from leveret.storage.quarantine import Quarantine
from leveret.storage.reconcile import open_manifest
from leveret.storage.stream.opener import Opened
from leveret.storage.streams import Streams

T = TypeVar("T")
SALT = 0x5EED
STREAM_ID = 7
HEAD_BYTES = 64
PAGE_BYTES = 4096
ENTRY, TRACK = 6, 7
WAIT_S = 20.0


class Message(NamedTuple):
    """An entry as a reader finds it."""

    offset: int
    count: int
    flags: int
    stamp: int
    properties: bytes
    body: bytes
    filter_value: bytes | None


def message_in(data: bytes | bytearray, at: int, length: int) -> Message:
    address, count, properties, body = (
        int.from_bytes(data[at + 18 : at + 20], "big"),
        int.from_bytes(data[at + 20 : at + 24], "big"),
        int.from_bytes(data[at + 24 : at + 28], "big"),
        int.from_bytes(data[at + 28 : at + 32], "big"),
    )
    to = at + 40 + address
    rest = to + properties + body
    return Message(
        int.from_bytes(data[at + 8 : at + 16], "big"),
        count,
        data[at + 17],
        int.from_bytes(data[at + 32 : at + 40], "big"),
        bytes(data[to : to + properties]),
        bytes(data[to + properties : rest]),
        bytes(data[rest : at + length]) or None,
    )


class Record(NamedTuple):
    """A record as it lies in a file."""

    place: int
    length: int
    kind: int
    sequence: int
    count: int

    @property
    def end(self) -> int:
        return self.place + (self.length + 7 & ~7)


def records_in(data: bytes, end: int | None = None) -> list[Record]:
    """The records of a segment's file, which is undamaged, up to where it is filled."""
    found = []
    at = HEAD_BYTES
    while at + 32 <= (len(data) if end is None else end):
        length = int.from_bytes(data[at + 4 : at + 8], "big")
        if length < 32:
            break
        sequence = int.from_bytes(data[at + 8 : at + 16], "big")
        found.append(Record(at, length, data[at + 16], sequence, int.from_bytes(data[at + 20 : at + 24], "big")))
        at = found[-1].end
    return found


class InlineFiles:
    """What the store's files' thread does, done at once."""

    async def run(self, work: Callable[..., T], *arguments: object) -> T:
        return work(*arguments)


class Job:
    """A job of the disk that is done when the test says so."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, bytes, int]] = []
        self._sealed: dict[tuple[int, int], bytes] = {}

    def prepare(self, data: bytearray, start: int, size: int, salt: int) -> None:
        self._sealed[id(data), start] = bytes(sealed(bytearray(data[start : start + size]), salt))

    def reserve(self, fd: int, size: int, offset: int) -> None:
        os.posix_fallocate(fd, offset, size)

    def write(self, fd: int, data: bytearray, start: int, size: int, offset: int) -> None:
        octets = self._sealed[id(data), start]
        assert len(octets) == size
        self.steps.append((fd, octets, offset))

    def perform(self) -> None:
        for fd, octets, offset in self.steps:
            assert os.pwrite(fd, octets, offset) == len(octets)


class Reader:
    """A cursor and what it gave. With `credit` it takes so many entries and waits for more, as a slow client does."""

    def __init__(self, bench: StreamBench, offset: int, credit: int | None = None) -> None:
        self.credit = credit
        self.got: list[Message] = []
        self.wakes = 0
        self.cursor = Cursor(bench.log, self)
        self.cursor.seek(offset)

    def cursor_ready(self) -> None:
        self.wakes += 1
        self.take()

    def take(self) -> None:
        cursor = self.cursor
        while self.credit != 0 and not cursor.closed and cursor.ready():
            self.got.append(message_in(cursor.data, cursor.at, cursor.length))
            cursor.step()
            if self.credit is not None:
                self.credit -= 1

    def give(self, credit: int) -> None:
        self.credit = (self.credit or 0) + credit
        self.take()

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.got]


class StreamBench:
    def __init__(self, root: Path, segment_bytes: int = 1 << 20) -> None:
        self.layout = Layout(root)
        self.layout.make()
        self.segment_bytes = segment_bytes
        self.loop = asyncio.new_event_loop()
        self.tasks: set[asyncio.Task[None]] = set()
        self.failures: list[str] = []
        self.shortages: list[tuple[str, OSError]] = []
        # What is safe: the content of every segment that has a name on disk, as of the last sync.
        self.durable: dict[Path, bytes] = {}
        # Segments with something that was written and not synced.
        self.unsynced: set[Path] = set()
        self.now = 1_800_000_000_000
        self.open()

    # ---- a broker's life

    def open(self, log_next: int = 0) -> None:
        """A start: recovers whatever is there, beside a log that goes on with this sequence."""
        journal_segment = Segment(1, 1, None, HEAD_BYTES)
        self.journal = Journal({1: journal_segment}, 1 << 40, lambda urgent=True: None)
        self.journal.use_segment(journal_segment)
        self.report = DamageReport(self.layout)
        self.manifest = open_manifest(self.layout, SALT, self.report)
        self.streams = Streams(self.layout, SALT, self.journal, self.manifest)
        self.streams.now_ms = lambda: self.now
        self.log: StreamLog = self.streams.create(STREAM_ID)
        self.log.segment_bytes = self.segment_bytes
        self.streams.recover(self.report, log_next)
        self.manifest.record()
        self.quarantine = Quarantine(self.layout)
        self.streams.start(
            self.loop,
            InlineFiles(),  # type: ignore[arg-type]
            self.quarantine,
            self._run,
            lambda: None,
            lambda what, error: self.shortages.append((what, error)),
            self.failures.append,
        )
        # What recovery found counts as safe.
        self.unsynced.clear()
        self.durable = {path: path.read_bytes() for path in self.files()}

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def settle(self) -> None:
        """Lets what is in the background come to its end."""

        async def settled() -> None:
            # Twice: what was called soon may start tasks.
            for _ in range(2):
                await asyncio.sleep(0)
                while self.tasks:
                    await asyncio.wait(set(self.tasks), timeout=WAIT_S)

        self.loop.run_until_complete(settled())

    def wait(self, condition: Callable[[], bool], what: str = "it") -> None:
        async def waited() -> None:
            deadline = self.loop.time() + WAIT_S
            while not condition():
                assert self.loop.time() < deadline, f"waited {WAIT_S} s for {what}"
                await asyncio.sleep(0.0002)

        self.loop.run_until_complete(waited())

    def die(self) -> None:
        """The process ends as by a kill: the files stay as they are."""
        for task in self.tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.streams.close()
        self.manifest.close()

    def restart(self) -> None:
        self.die()
        self.open()

    def stop_cleanly(self) -> None:
        self.commit()
        self.commit(evidence=True)
        self.streams.write_indexes()
        self.die()

    def close(self) -> None:
        self.die()
        self.loop.close()

    # ---- appending and committing

    def append(
        self,
        body: bytes = b"",
        filter_value: bytes | None = None,
        count: int = 1,
        flags: int = 0,
        properties: bytes = b"\x00\x00",
    ) -> int:
        offset: int = self.log.append(b"\x00\x01s", properties, body, count, flags, filter_value, self.now)
        return offset

    def commit(self, sync: bool = True, evidence: bool = False) -> Batch:
        """Writes what gathered; a batch with messages is always synced, one without only if asked."""
        if evidence:
            self.journal.want_evidence()
        batch = self.write()
        if sync or any(part.count for part in batch.beside):
            self.sync(batch)
        return batch

    def open_files(self) -> Opened:
        """Has the files made and opened that the next batch needs."""
        done: list[Opened] = []
        wanted = [segment for stream in self.journal.beside for segment in stream.unwritten_segments()]
        self.streams.open(self.streams.closed_of(wanted, len(wanted)), True, done.append)
        self.wait(lambda: bool(done), "the files")
        return done[0]

    def write(self) -> Batch:
        opened = self.open_files()
        assert opened.error is None, opened.error
        batch: Batch = self.journal.take_batch()
        job = Job()
        pieces = [(part, *piece) for part in batch.beside for piece in part.pieces]
        self.streams.add_pieces(job, pieces)  # type: ignore[arg-type]
        job.perform()
        self.unsynced |= {segment.path for part in batch.beside for segment, *_ in part.pieces}
        self.journal.batch_written(batch)
        return batch

    def sync(self, batch: Batch) -> None:
        self.streams.all_synced()
        for path in self.unsynced & set(self.files()):
            self.durable[path] = path.read_bytes()
        self.unsynced.clear()
        self.journal.batch_synced(batch)
        self.settle()
        self.durable = {path: data for path, data in self.durable.items() if path.exists()}

    def checkpoint(self) -> None:
        """Writes the index of the segment that grows; everything must be synced."""
        if self.log.segment is not None:
            self.streams.write_checkpoint(self.log, Snapshot(self.log))
            self.settle()

    def retain(self, max_bytes: int = -1, max_age_ms: int = 0) -> None:
        self.log.max_bytes, self.log.max_age_ms = max_bytes, max_age_ms
        self.streams.retain(self.log)
        self.settle()
        self.log.max_bytes, self.log.max_age_ms = -1, 0
        self.durable = {path: data for path, data in self.durable.items() if path.exists()}

    # ---- looking

    def files(self) -> list[Path]:
        """The segments' files, from the oldest to the newest."""
        directory = self.layout.streams / f"{STREAM_ID:010}"
        return sorted(directory.glob("*.segment")) if directory.exists() else []

    def indexes(self) -> list[Path]:
        return [index for path in self.files() if (index := path.with_suffix(".index")).exists()]

    def read_all(self, offset: int = 0, before: Callable[[Cursor], None] = lambda _: None) -> list[Message]:
        """What a reader finds from this offset on who reads up to the end."""
        reader = Reader(self, offset, credit=0)
        before(reader.cursor)
        reader.credit = None
        reader.take()
        self.wait(lambda: reader.cursor.waiting, f"the end at {self.log.committed_offset}: {reader.cursor.offset}")
        reader.cursor.close()
        return reader.got
