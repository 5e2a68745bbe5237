"""Random histories of durable queues, then a crash: what recovery makes of the log is what the model has.

Queues are driven as sessions drive them, the log is written into segments in memory, rolled, compacted and deleted as
the store does it. After any step the queues are made anew from the indexes, and from the records themselves; both must
give each live message once, with its body and the number of its deliveries, and no position may be given twice."""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from leveret.core.compact import Compaction
from leveret.core.matcher import FanoutMatcher
from leveret.core.rebuild import QueueBook, Rebuild
from leveret.core.segment import Segment
from tests.fuzz.effort import effort
from tests.unit.core.fake_disk import SETTLED as NOTE_SETTLED
from tests.unit.core.fake_disk import FakeDisk, read_notes
from tests.unit.queues.dataplane import Workbench, publish_frames

SETTLED, DISCARDED, REQUEUED = 0, 1, 2
SEGMENT_BYTES, WINDOW_BYTES = 400, 200
INDEXES = st.integers(0, 1000)
# (queue, position) -> (body, times handed out)
State = dict[tuple[int, int], tuple[bytes, int]]


class LogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.number = 0
        # What must be found after a crash: now, and as it was at the last commit.
        self.now: State = {}
        self.committed: State = {}
        self.last_positions = {1: 0, 2: 0, 3: 0}
        # All up to here are delivered as seen before, because nobody knows better after a crash.
        self.seen_upto = {1: 0, 2: 0, 3: 0}
        self.lazy = [False, False, False]
        self.start(FakeDisk(SEGMENT_BYTES, WINDOW_BYTES))

    @initialize(lazy=st.lists(st.booleans(), min_size=3, max_size=3), pressed=st.booleans())
    def declare(self, lazy: list[bool], pressed: bool) -> None:
        self.lazy = lazy
        self.start(FakeDisk(SEGMENT_BYTES, WINDOW_BYTES))
        self.disk.shelf.pressed = pressed

    def start(self, disk: FakeDisk) -> None:
        """A broker on this disk, whose queues are still empty."""
        self.disk = disk
        self.bench = Workbench(journal=disk.journal)
        self.channel = self.bench.open_channel()
        # Delivery tag -> (queue, position)
        self.held: dict[int, tuple[int, int]] = {}
        # Of sealed segments, as they were handed over.
        self.indexes: dict[int, bytes] = {}
        # Segment -> the batch that must be synced before it may go, because things were moved out of it.
        self.moved: dict[int, int] = {}
        # Segments with older copies of messages that are elsewhere now.
        self.superseded: set[int] = set()
        self.queues: dict[int, Any] = {
            number: self.bench.add_queue(
                f"q{number}", shelf=disk.shelf, ledger=disk.ledger(number), lazy=self.lazy[number - 1]
            )
            for number in (1, 2, 3)
        }
        # One keeps nothing, so that a record has room for a target that it never gets.
        fleeting = self.bench.add_queue("fleeting", shelf=disk.shelf)
        fanout = self.bench.add_exchange("f", FanoutMatcher())
        for queue in [self.queues[1], fleeting, self.queues[2], self.queues[3]]:
            fanout.bind(b"", {}, queue)
        self.bench.router.changed()

    # ---- history

    @rule(
        queue=st.sampled_from([0, 0, 1, 2, 3]),
        sizes=st.lists(st.sampled_from([8, 60, 250]), min_size=1, max_size=5),
        persistent=st.sampled_from([True, True, False]),
    )
    def publish(self, queue: int, sizes: list[int], persistent: bool) -> None:
        for size in sizes:
            self.disk.provide_spares()
            self.publish_one(queue, size, persistent)

    def publish_one(self, queue: int, size: int, persistent: bool) -> None:
        """To one queue, or with 0 to all."""
        address = ("", f"q{queue}") if queue else ("f", "")
        self.number += 1
        body = struct.pack(">Q", self.number).ljust(size, b".")
        for target in [queue] if queue else [1, 2, 3]:
            position = self.last_positions[target] = self.last_positions[target] + 1
            if persistent:
                self.now[target, position] = (body, 0)
        self.bench.feed(publish_frames(1, *address, body, {"delivery_mode": 2 if persistent else 1}))

    @rule(queue=st.sampled_from([1, 2, 3]), count=st.integers(1, 6))
    def deliver(self, queue: int, count: int) -> None:
        for _ in range(count):
            if not self.queues[queue].ready.has_next():
                self.load(queue)
            if not self.bench.get(self.channel, self.queues[queue]):
                return
            (sent,) = self.bench.sent()
            (entry,) = [one for one in self.channel.unacked.entries() if one.tag == sent.fields["delivery_tag"]]
            key = (queue, entry.position)
            if key in self.now:
                body, times = self.now[key]
                seen = times > 0 or entry.position <= self.seen_upto[queue]
                assert (sent.body, sent.fields["redelivered"]) == (body, seen)
                self.now[key] = (body, times + 1)
            self.held[sent.fields["delivery_tag"]] = key

    @precondition(lambda self: self.held)
    @rule(picks=st.lists(INDEXES, min_size=1, max_size=6), verdict=st.sampled_from([SETTLED, SETTLED, REQUEUED]))
    def settle(self, picks: list[int], verdict: int) -> None:
        for pick in picks:
            if self.held:
                tag = list(self.held)[pick % len(self.held)]
                key = self.held.pop(tag)
                if verdict == SETTLED:
                    self.now.pop(key, None)
                self.channel.settle(tag, False, verdict, 0)

    @rule(queue=st.sampled_from([1, 2, 3]))
    def purge(self, queue: int) -> None:
        self.queues[queue].purge()
        held = set(self.held.values())
        self.now = {key: value for key, value in self.now.items() if key[0] != queue or key in held}

    @rule(queue=st.sampled_from([1, 2, 3]))
    def load(self, queue: int) -> None:
        if self.queues[queue].ready.wants_load():
            self.disk.load(self.queues[queue])

    # ---- the store

    @rule()
    def commit(self) -> None:
        self.disk.commit()
        self.committed = dict(self.now)
        for segment in self.log_segments():
            if segment.sealed and segment.index is not None:
                self.indexes[segment.id] = bytes(segment.copy_index())
                segment.index = None

    def log_segments(self) -> list[Any]:
        return [self.disk.segments[number] for number in self.disk.log_numbers()]

    @rule(index=INDEXES)
    def compact(self, index: int) -> None:
        """As the reclaimer does it; the file goes later, if at all before the crash."""
        sealed = [
            one
            for one in self.log_segments()
            if one.id in self.indexes and one.id not in self.moved and not self.follows_a_copy(one)
        ]
        if not sealed:
            return
        segment = sealed[index % len(sealed)]
        in_memory: dict[Any, Any] = {}
        for queue in self.queues.values():
            queue.collect_located(segment.id, in_memory)
        self.channel.collect_located(segment.id, in_memory)
        compaction = Compaction(self.disk.journal, segment, self.queues, in_memory)
        compaction.run(bytearray(self.indexes[segment.id]), bytes(self.disk.images[segment.id]))
        assert compaction.damaged == []
        assert segment.live == 0, "everything that lives was moved"
        segment.settles.clear()
        self.moved[segment.id] = self.disk.journal.batch
        self.superseded.add(segment.id)

    def follows_a_copy(self, segment: Any) -> bool:
        """Whether older copies of what was here still exist: they must go first, or what is settled comes back."""
        return bool(segment.settles & self.superseded & self.disk.segments.keys())

    @rule()
    def delete(self) -> None:
        """Segments that nothing needs go, as the reclaimer judges it. None before the first batch after a start is
        synced: that notes the deliveries anew."""
        if self.disk.journal.synced_batch == 0:
            return
        segments = self.disk.segments
        for segment in self.log_segments():
            segment.settles.intersection_update(segments.keys())
            safe = segment.id in self.indexes and self.moved.get(segment.id, 0) <= self.disk.journal.synced_batch
            if safe and segment.live == 0 and not segment.settles and not self.notes_again(segment):
                del segments[segment.id], self.disk.images[segment.id], self.indexes[segment.id]

    def notes_again(self, segment: Any) -> bool:
        again = [noting for noting in segment.noted_by if noting.note_again(segment.id)]
        segment.noted_by.clear()
        if again:
            self.moved[segment.id] = self.disk.journal.batch
        return bool(again)

    # ---- after the crash

    def found_notes(self) -> dict[int, bytes]:
        """The indexes where there are some, as after a restart; the last segments are read record by record."""
        numbers = self.disk.log_numbers()
        return {number: self.indexes.get(number) or bytes(self.disk.scan(number).notes) for number in numbers}

    def rebuilt(self, notes: dict[int, bytes]) -> tuple[dict[int, QueueBook], dict[int, Segment]]:
        """Books and segments, as storage's recovery makes them."""
        rebuild = Rebuild()
        segments = {}
        for number, octets in notes.items():
            known = self.disk.segments[number]
            found = segments[number] = Segment(number, known.salt, None, len(self.disk.images[number]))
            rebuild.add_notes(bytearray(octets), 0, len(octets), number, set(notes), found.settles)
            found.settles.discard(number)
            found.sealed = True
        live: dict[int, int] = {}
        self.found_copies: set[int] = set()
        for book in rebuild.books.values():
            book.finish(live, self.found_copies)
        for number, found in segments.items():
            found.live = live.get(number, 0)
            found.settles |= {older for older in self.found_copies if older < number}
        return rebuild.books, segments

    def judge(self, notes: dict[int, bytes]) -> tuple[dict[int, QueueBook], dict[int, Segment], State]:
        found: State = {}
        books, segments = self.rebuilt(notes)
        for queue, book in books.items():
            assert len(book.slots) == 32 * book.count
            last = 0
            for position, location, length, size, times, _ in struct.iter_unpack(">QQIIII", bytes(book.slots)):
                assert position > last, "in order, each once"
                last = position
                found[queue, position] = (self.body_at(location, length, size), times)
            spoken_of = [
                note.first + (note.a - 1 if note.kind == NOTE_SETTLED else 0)
                for octets in notes.values()
                for note in read_notes(octets)
                if note.queue == queue
            ]
            assert book.next_position > max(spoken_of), "a position that the log speaks of must not be given again"
        for key, value in found.items():
            assert self.committed.get(key) == value
        # What was settled since the last commit may be there or not.
        assert {key: value for key, value in self.committed.items() if key in self.now and key not in found} == {}
        assert sum(segment.live for segment in segments.values()) == len(found)
        return books, segments, found

    def body_at(self, location: int, length: int, size: int) -> bytes:
        offset = location & 0xFFFFFFFF
        record = bytes(self.disk.images[location >> 32][offset : offset + length])
        body_at = 40 + (struct.unpack(">H", record[18:20])[0] & 0x0FFF) + struct.unpack(">I", record[24:28])[0]
        assert struct.unpack(">I", record[28:32])[0] == size
        return record[body_at : body_at + size]

    @invariant()
    def the_records_tell_everything(self) -> None:
        scans = {number: self.disk.scan(number) for number in self.disk.log_numbers()}
        assert all(scan.gaps == [] for scan in scans.values())
        self.judge({number: bytes(scan.notes) for number, scan in scans.items()})

    @invariant()
    def the_indexes_tell_the_same(self) -> None:
        self.judge(self.found_notes())

    @rule(all_seen=st.booleans())
    def crash(self, all_seen: bool) -> None:
        """And go on with what was found."""
        old, notes = self.disk, self.found_notes()
        books, segments, self.now = self.judge(notes)
        self.committed = dict(self.now)
        disk = FakeDisk(SEGMENT_BYTES, WINDOW_BYTES, max(old.log_numbers()) + 1)
        disk.journal.sequence = old.journal.sequence
        disk.journal.synced_sequence = old.journal.sequence - 1
        self.start(disk)
        self.superseded = self.found_copies
        for number, segment in segments.items():
            disk.segments[number], disk.images[number] = segment, old.images[number]
            self.indexes[number] = notes[number]
        for number, queue in self.queues.items():
            book = books.get(number)
            if book is not None:
                queue.restore(book, all_seen)
            self.last_positions[number] = queue.ready.next_position - 1
            self.seen_upto[number] = self.last_positions[number] if all_seen else 0


TestLog = LogMachine.TestCase
TestLog.settings = effort(200, stateful_step_count=40)
