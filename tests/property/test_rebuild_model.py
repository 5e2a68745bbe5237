"""Random histories of durable queues, then a crash: what recovery makes of the log is what the model has.

Queues are driven as sessions drive them, the log is written into segments in memory, rolled, compacted and deleted as
the store does it. After any step the queues are made anew from the indexes, and from the records themselves; both must
give each live message once, with its body, its priority, its time and the number of its deliveries, and no position may
be given twice. Messages that wait for their time, dead letters on their way and keys against duplicates must be found
as well: a letter that was not carried is back in its queue."""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from leveret.core.log.compaction import Compaction
from leveret.core.log.rebuild import QueueBook, Rebuild
from leveret.core.log.segment import Segment
from leveret.core.matching.matcher import FanoutMatcher
from leveret.core.queue.dedup import DedupWindow, digest_of
from leveret.core.queue.delays import due_of
from leveret.core.queue.office import Office
from leveret.core.queue.rules import Rules
from tests.fuzz.effort import effort, scaled
from tests.property.histories import play
from tests.property.log_steps import STEPS
from tests.property.rules_reference import KNOWN, ReferenceWindow
from tests.unit.core.fake_disk import SETTLED as NOTE_SETTLED
from tests.unit.core.fake_disk import FakeDisk, read_notes
from tests.unit.queues.dataplane import Workbench, message, publish_frames

SETTLED, DISCARDED, REQUEUED = 0, 1, 2
SEGMENT_BYTES, WINDOW_BYTES = 400, 200
INDEXES = st.integers(0, 1000)
# Whole seconds, as the log counts them for keys.
START = 1_800_000_000_000
KEYED, BY_PRIORITY = 2, 3
NOTE_KEY = 5
DELAYED = 1 << 63
# (queue, position) -> (body, times handed out)
State = dict[tuple[int, int], tuple[bytes, int]]
# (queue, due, body) of those that wait for their time, in that order
Waiting = list[tuple[int, int, bytes]]


class LogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.number = 0
        # What must be found after a crash: now, and as it was at the last commit.
        self.now: State = {}
        self.committed: State = {}
        self.waiting: Waiting = []
        self.committed_waiting: Waiting = []
        self.keys = ReferenceWindow(3, 0)
        self.committed_keys: list[tuple[str, int, int]] = []
        # Priority, time and expiration, which never change: by queue and position, or by body for those that wait.
        self.facts: dict[Any, tuple[int, int, bool]] = {}
        self.clock = START
        self.last_positions = {1: 0, 2: 0, 3: 0}
        # All up to here are delivered as seen before, because nobody knows better after a crash.
        self.seen_upto = {1: 0, 2: 0, 3: 0}
        self.doubtful: list[tuple[int, int, bytes]] = []
        self.lazy = [False, False, False]
        self.start(FakeDisk(SEGMENT_BYTES, WINDOW_BYTES))

    @initialize(
        lazy=st.lists(st.booleans(), min_size=3, max_size=3), pressed=st.booleans(), ttl=st.sampled_from([0, 8000])
    )
    def declare(self, lazy: list[bool], pressed: bool, ttl: int) -> None:
        self.lazy = lazy
        self.keys = ReferenceWindow(3, ttl)
        self.start(FakeDisk(SEGMENT_BYTES, WINDOW_BYTES))
        self.disk.paging_context.pressed = pressed

    def start(self, disk: FakeDisk) -> None:
        """A broker on this disk, whose queues are still empty."""
        self.disk = disk
        self.bench = Workbench(journal=disk.journal)
        self.office = Office(self.clock)
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
                f"q{number}",
                paging_context=disk.paging_context,
                queue_log=disk.queue_log(number),
                lazy=self.lazy[number - 1],
                office=self.office,
                priority_max=3 if number == BY_PRIORITY else 0,
                window=self.new_window(disk.journal) if number == KEYED else None,
            )
            for number in (1, 2, 3)
        }
        for queue in self.queues.values():
            queue.set_rules(Rules(dead_letter_exchange=b"x"))
        # One keeps nothing, so that a record has room for a target that it never gets.
        fleeting = self.bench.add_queue("fleeting", paging_context=disk.paging_context)
        fanout = self.bench.add_exchange("f", FanoutMatcher())
        for queue in [self.queues[1], fleeting, self.queues[2], self.queues[3]]:
            fanout.bind(b"", {}, queue)
        self.bench.router.changed()

    def new_window(self, journal: Any) -> DedupWindow:
        return DedupWindow(KEYED, journal, self.keys.size_max, self.keys.ttl)

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
                self.facts[target, position] = (0, 0, False)
        self.bench.feed(publish_frames(1, *address, body, {"delivery_mode": 2 if persistent else 1}))

    @rule(
        queue=st.sampled_from([1, 2, 3, 3]),
        sizes=st.lists(st.sampled_from([8, 60, 250]), min_size=1, max_size=4),
        priority=st.integers(0, 5),
        delay=st.sampled_from([0, 0, 1000, 3000]),
        expires=st.booleans(),
        key=st.sampled_from([None, "a", "b", "c", "d", "e"]),
    )
    def publish_special(self, queue: int, sizes: list[int], priority: int, delay: int, expires: bool, key: Any) -> None:
        properties: dict[str, Any] = {"delivery_mode": 2, "priority": priority}
        properties |= {"expiration": "100000000"} if expires else {}
        properties |= {"message_id": key} if key else {}
        properties |= {"headers": {"x-delay": -delay}} if delay else {}
        for size in sizes:
            self.disk.provide_spares()
            self.number += 1
            # The log counts in seconds: one for each key, so that their order is known.
            self.clock = self.office.now = self.clock + 1000
            body = struct.pack(">Q", self.number).ljust(size, b".")
            known = bool(key) and queue == KEYED and self.keys.has(key, self.clock)
            if not known:
                if key and queue == KEYED:
                    self.keys.remember(key, self.clock, 0)
                self.facts[body] = (priority, self.clock + delay, expires)
                if delay:
                    self.waiting.append((queue, self.clock + delay, body))
                    self.waiting.sort(key=lambda one: one[:2])
                else:
                    self.arrive(queue, body)
            published = message(body, **properties)
            published.stamp = self.clock + delay
            assert self.queues[queue].publish(published) == (KNOWN if known else 0)

    def arrive(self, queue: int, body: bytes, times: int = 0) -> None:
        position = self.last_positions[queue] = self.last_positions[queue] + 1
        self.now[queue, position] = (body, times)
        priority, _, expires = self.facts[body]
        self.facts[queue, position] = (priority, self.clock, expires)

    @rule(seconds=st.integers(1, 4))
    def advance(self, seconds: int) -> None:
        """What is due arrives, each at the end of its queue, if need be from disk."""
        self.clock += seconds * 1000
        self.office.now = self.clock
        for number, queue in self.queues.items():
            due = [one for one in self.waiting if one[0] == number and one[1] <= self.clock]
            if not due:
                continue
            self.disk.provide_spares()
            # Only what is written can be read.
            self.commit()
            for one in due:
                self.waiting.remove(one)
                # What was due when the broker crashed may have been handed out before.
                self.arrive(number, one[2], int(one in self.doubtful))
            queue.delays.ring()
            while queue.delays.lacks_next():
                assert self.disk.load(queue.delays)

    @rule(count=st.integers(1, 4), to=st.sampled_from([0, 1]))
    def carry(self, count: int, to: int) -> None:
        """Dead letters go to queue 1, or nowhere."""
        letters = self.office.take_letters()
        self.office.put_back(letters[count:])
        for letter in letters[:count]:
            if to:
                self.disk.provide_spares()
                copy = message(letter.message.body, delivery_mode=2)
                copy.stamp = self.clock
                self.facts[copy.body] = (0, self.clock, False)
                self.arrive(to, copy.body)
                assert self.queues[to].receive(copy) == 0
            if letter.position > 0:
                del self.now[letter.queue.queue_log.id, letter.position]
            letter.queue.letter_sent(letter)

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
    @rule(
        picks=st.lists(INDEXES, min_size=1, max_size=6),
        verdict=st.sampled_from([SETTLED, SETTLED, DISCARDED, REQUEUED]),
    )
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
        held |= {(letter.queue.queue_log.id, letter.position) for letter in self.office.letters}
        self.now = {key: value for key, value in self.now.items() if key[0] != queue or key in held}

    @rule(queue=st.sampled_from([1, 2, 3]))
    def load(self, queue: int) -> None:
        if self.queues[queue].ready.wants_load():
            self.disk.load(self.queues[queue])

    # ---- the store

    @rule()
    def commit(self) -> None:
        self.disk.commit()
        self.remember_commit()
        for segment in self.log_segments():
            if segment.sealed and segment.index is not None:
                self.indexes[segment.id] = bytes(segment.copy_index())
                segment.index = None

    def remember_commit(self) -> None:
        self.committed = dict(self.now)
        self.committed_waiting = list(self.waiting)
        self.committed_keys = list(self.keys.keys)

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
        self.office.collect_located(segment.id, in_memory)
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

    def judge(self, notes: dict[int, bytes]) -> tuple[dict[int, QueueBook], dict[int, Segment], State, Waiting]:
        found: State = {}
        waiting: Waiting = []
        books, segments = self.rebuilt(notes)
        for queue, book in books.items():
            assert len(book.slots) == 32 * book.count
            last = 0
            for position, location, length, size, times, priority in struct.iter_unpack(">QQIIII", bytes(book.slots)):
                assert position > last, "in order, each once"
                last = position
                body, stamp, expires = self.record_at(location, length, size)
                facts = self.facts[body if position >= DELAYED else (queue, position)]
                assert facts == (priority, stamp, expires)
                assert book.expiring or not expires
                if position >= DELAYED:
                    assert (due_of(position), times) == (stamp, 0)
                    waiting.append((queue, stamp, body))
                else:
                    found[queue, position] = (body, times)
            assert book.next_position > max(self.spoken_of(queue, notes)), "a position of the log is given again"
        for key, value in found.items():
            assert self.committed.get(key) == value
        # What was settled since the last commit may be there or not.
        assert {key: value for key, value in self.committed.items() if key in self.now and key not in found} == {}
        assert {*self.committed_waiting} & {*self.waiting} <= {*waiting} <= {*self.committed_waiting}
        assert sum(segment.live for segment in segments.values()) == len(found) + len(waiting)
        self.judge_keys(books)
        return books, segments, found, waiting

    def spoken_of(self, queue: int, notes: dict[int, bytes]) -> list[int]:
        return [0] + [
            note.first + (note.a - 1 if note.kind == NOTE_SETTLED else 0)
            for octets in notes.values()
            for note in read_notes(octets)
            if note.queue == queue and note.kind & 0xFF != NOTE_KEY and note.first < DELAYED
        ]

    def judge_keys(self, books: dict[int, QueueBook]) -> None:
        """Oldest first, as they go. One that had to make room for another since the last commit may be there or not."""
        window = self.new_window(None)
        window.restore(books[KEYED].keys if KEYED in books else [], self.clock)
        alive = [seen for seen in self.committed_keys if not self.keys.is_over(seen, self.clock)]
        self.found_keys = [seen for seen in alive if key_digest(seen[0]) in window.keys]
        assert list(window.keys) == [key_digest(seen[0]) for seen in self.found_keys]
        assert [seen for seen in alive if seen in self.keys.keys and seen not in self.found_keys] == []

    def record_at(self, location: int, length: int, size: int) -> tuple[bytes, int, bool]:
        """Body, time and whether it expires."""
        offset = location & 0xFFFFFFFF
        record = bytes(self.disk.images[location >> 32][offset : offset + length])
        body_at = 40 + (struct.unpack(">H", record[18:20])[0] & 0x0FFF) + struct.unpack(">I", record[24:28])[0]
        assert struct.unpack(">I", record[28:32])[0] == size
        stamp = struct.unpack(">Q", record[32:40])[0]
        return record[body_at : body_at + size], stamp, record[18] & 0x80 != 0

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
        books, segments, self.now, self.waiting = self.judge(notes)
        self.keys.keys = self.found_keys
        self.remember_commit()
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
                if number == KEYED:
                    for segment_id in queue.window.restore(book.keys, self.clock):
                        disk.segments[segment_id].noted_by.add(queue.window)
            self.last_positions[number] = book.next_position - 1 if book is not None else 0
            self.seen_upto[number] = self.last_positions[number] if all_seen else 0
        self.doubtful = [one for one in self.waiting if all_seen and one[1] <= self.clock]


def key_digest(key: str) -> bytes:
    return bytes(digest_of(message(message_id=key).properties))


TestLog = LogMachine.TestCase
TestLog.settings = effort(200, stateful_step_count=40)


def test_long_histories() -> None:
    for seed in range(scaled(30)):
        machine = LogMachine()

        def check(machine: LogMachine = machine) -> None:
            machine.the_records_tell_everything()
            machine.the_indexes_tell_the_same()

        play(machine, STEPS, seed, 80, check)
