"""A disk in memory: journals whose batches are sealed and put into images of segments, and read back from there.

Does what storage's committer, loader and reclaimer do, in the moment a test says so, and nothing by itself."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from leveret.core.codec.message import Message
from leveret.core.log.batch import Batch
from leveret.core.log.journal import Journal
from leveret.core.log.load import Load
from leveret.core.log.paging_context import PagingContext
from leveret.core.log.queue_log import QueueLog
from leveret.core.log.rebuild import QueueBook, Rebuild
from leveret.core.log.records import sealed
from leveret.core.log.scan import Scan
from leveret.core.log.segment import Segment
from leveret.core.queue.classic_queue import ClassicQueue
from tests.unit.queues.dataplane import message

# As storage.file_head has it, and as storage.segment_files numbers pages.
HEAD_BYTES = 64
FIRST_PAGE = 0x80000000
PLACED, SETTLED, HANDED, COUNTED, KEY = 1, 2, 3, 4, 5


class Note(NamedTuple):
    """One note of a segment's index, see core.log.records.write_note."""

    queue: int
    first: int
    a: int
    b: int
    c: int
    kind: int


def read_notes(notes: bytes | bytearray) -> list[Note]:
    return [Note(*fields) for fields in struct.iter_unpack(">QQIIII", bytes(notes))]


def persistent(body: bytes = b"body", **properties: Any) -> Message:
    return message(body, delivery_mode=2, **properties)


class FakeDisk:
    def __init__(self, segment_bytes: int = 1 << 20, window_bytes: int = 1 << 20, first_number: int = 1) -> None:
        self.segments: dict[int, Segment] = {}
        self.images: dict[int, bytearray] = {}
        # Every (urgent) call of the journals.
        self.wakes: list[bool] = []
        self.wanting: list[ClassicQueue] = []
        self._numbers = {False: first_number, True: FIRST_PAGE}
        self.journal = Journal(self.segments, segment_bytes, self._wake)
        self.pager = Journal(self.segments, segment_bytes, self._wake, True)
        self.journal.use_segment(self.new_segment(False))
        self.pager.use_segment(self.new_segment(True))
        self.paging_context = PagingContext(self.pager, window_bytes, self.want)
        self.last_batch: Any = None

    def _wake(self, urgent: bool = True) -> None:
        self.wakes.append(urgent)

    def want(self, queue: ClassicQueue) -> None:
        if queue not in self.wanting:
            self.wanting.append(queue)

    def new_segment(self, paging: bool = False) -> Segment:
        number = self._numbers[paging]
        self._numbers[paging] += 1
        self.images[number] = bytearray(HEAD_BYTES)
        return Segment(number, self.salt_of(number), None, HEAD_BYTES)

    def salt_of(self, number: int) -> int:
        return number * 7919 % (1 << 32)

    def queue_log(self, queue_id: int = 1) -> QueueLog:
        return QueueLog(self.journal, queue_id)

    def queue(self, queue_id: int | None = 1, lazy: bool = False, **features: Any) -> ClassicQueue:
        """A durable queue, or with None one that keeps nothing."""
        queue_log = None if queue_id is None else self.queue_log(queue_id)
        return ClassicQueue(b"q", None, paging_context=self.paging_context, queue_log=queue_log, lazy=lazy, **features)

    # ---- as the committer

    def provide_spares(self) -> None:
        for paging, journal in ((False, self.journal), (True, self.pager)):
            if journal.spare is None:
                journal.spare = self.new_segment(paging)

    def write(self, batch: Batch) -> None:
        for segment, start, end, offset in batch.parts:
            image = self.images[segment.id]
            assert len(image) == offset == segment.written, "every part goes where the last one ended"
            image += sealed(bytearray(batch.data[start:end]), segment.salt)

    def commit(self, sync: bool = True) -> Batch:
        """Writes what gathered in both journals; the log's batch is synced as well if asked."""
        pages = self.pager.take_batch()
        self.write(pages)
        self.pager.batch_written(pages)
        batch = self.journal.take_batch()
        self.complete(batch, sync)
        return batch

    def complete(self, batch: Batch, sync: bool = True) -> None:
        """Writes a batch that was taken, and syncs it if asked."""
        self.write(batch)
        self.journal.batch_written(batch)
        if sync:
            self.journal.batch_synced(batch)

    # ---- as the loader

    def read(self, load: Load) -> None:
        buffer = bytearray(load.size)
        for number, offset, size, place in load.extents:
            assert offset + size <= len(self.images[number]), "only what is written is read"
            buffer[place : place + size] = self.images[number][offset : offset + size]
        for extent in range(len(load.extents)):
            load.was_read(extent)
        load.finish(buffer, self.segments)

    def load(self, queue: ClassicQueue) -> bool:
        """One whole load; false if nothing can be read now."""
        load = queue.take_load(self.journal)
        if load is None:
            return False
        self.read(load)
        queue.finish_load(load)
        return True

    # ---- for those who look

    def live(self, paging: bool = False) -> int:
        return sum(segment.live for segment in self.segments.values() if segment.paging == paging)

    def log_numbers(self) -> list[int]:
        """Segments of the log, those in use, in order."""
        return sorted(number for number, segment in self.segments.items() if not segment.paging)

    def scan(self, number: int) -> Scan:
        scan = Scan(self.segments[number].salt)
        scan.run(bytes(self.images[number]), HEAD_BYTES)
        return scan

    def notes(self) -> list[Note]:
        """What the images say, segment by segment."""
        return [note for number in self.log_numbers() for note in read_notes(self.scan(number).notes)]

    def noted(self, *kinds: int) -> list[Note]:
        return [note for note in self.notes() if note.kind & 0xFF in kinds]

    def book(self, queue_id: int = 1) -> QueueBook:
        """What a start would find of this queue."""
        rebuild, numbers = Rebuild(), self.log_numbers()
        for number in numbers:
            notes = self.scan(number).notes
            rebuild.add_notes(notes, 0, len(notes), number, set(numbers), set())
        book = rebuild.books.get(queue_id) or QueueBook()
        book.finish({}, set())
        return book


def kept(disk: FakeDisk, queue_log: QueueLog, count: int = 1, body: bytes = b"body") -> list[Any]:
    """Messages at positions 1 to `count`."""
    made = [persistent(body) for _ in range(count)]
    for position, one in enumerate(made, 1):
        disk.journal.keep(queue_log, one, position)
    return made
