"""Compaction: what lives moves to the end of the log, everybody learns where, and notes that are needed move along."""

from __future__ import annotations

from typing import Any

from leveret.core.log.compaction import Compaction
from leveret.core.log.rebuild import Rebuild
from leveret.core.matching.matcher import FanoutMatcher
from tests.unit.core.fake_disk import COUNTED, PLACED, SETTLED, FakeDisk, Note, read_notes
from tests.unit.queues.dataplane import Workbench, message, publish_frames

SEGMENT_BYTES = 2000


class Bench:
    """Durable queues 1 and 2 and one that keeps nothing, all bound to a fanout."""

    def __init__(self, lazy: bool = False) -> None:
        self.disk = FakeDisk(SEGMENT_BYTES, 1 << 20)
        self.wire = Workbench(journal=self.disk.journal)
        self.channel = self.wire.open_channel()
        self.queues: dict[int, Any] = {}
        fanout = self.wire.add_exchange("f", FanoutMatcher())
        for number in (1, 2, 3):
            queue_log = self.disk.queue_log(number) if number < 3 else None
            queue = self.wire.add_queue(
                f"q{number}", paging_context=self.disk.paging_context, queue_log=queue_log, lazy=lazy
            )
            fanout.bind(b"", {}, queue)
            if queue_log is not None:
                self.queues[number] = queue
        self.wire.router.changed()

    def publish(self, key: str, body: bytes) -> None:
        """To one queue, or with an empty key to all."""
        exchange = "" if key else "f"
        self.wire.feed(publish_frames(1, exchange, key, body, {"delivery_mode": 2}))

    def roll(self) -> Any:
        """Fills the segment and goes on in the next; the sealed one."""
        segment = self.disk.journal.segment
        self.disk.provide_spares()
        while self.disk.journal.segment is segment:
            self.disk.journal.keep(self.disk.queue_log(9), message(bytes(500), delivery_mode=2), 1)
        self.disk.commit()
        return segment

    def compact(self, segment: Any) -> Compaction:
        in_memory: dict[Any, Any] = {}
        for queue in self.queues.values():
            queue.ready.collect_located(segment.id, in_memory)
        self.channel.collect_located(segment.id, in_memory)
        compaction = Compaction(self.disk.journal, segment, self.queues, in_memory)
        compaction.run(segment.copy_index(), bytes(self.disk.images[segment.id]))
        self.disk.commit()
        return compaction

    def delete(self, segment: Any) -> None:
        del self.disk.segments[segment.id], self.disk.images[segment.id]

    def settle_first(self, number: int) -> None:
        assert self.wire.get(self.channel, self.queues[number])
        (sent,) = self.wire.sent()
        self.channel.settle(sent.fields["delivery_tag"], False, 0, 0)

    def rebuilt(self, number: int) -> list[int]:
        """Positions that a queue has after a crash."""
        rebuild = Rebuild()
        for segment in self.disk.log_numbers():
            notes = self.disk.scan(segment).notes
            rebuild.add_notes(notes, 0, len(notes), segment, set(self.disk.log_numbers()), set())
        book = rebuild.books[number]
        book.finish({}, set())
        return [int.from_bytes(book.slots[i : i + 8], "big") for i in range(0, len(book.slots), 32)]


def test_messages_in_memory_learn_their_new_place() -> None:
    bench = Bench()
    bench.publish("q1", b"gone")
    bench.publish("q1", b"stays")
    segment = bench.roll()
    bench.settle_first(1)
    (entry,) = bench.queues[1].ready_entries()
    compaction = bench.compact(segment)
    assert (compaction.copied, compaction.damaged) == (1, [])
    assert entry.message.location >> 32 == bench.disk.journal.segment.id
    bench.delete(segment)
    assert bench.rebuilt(1) == [2]


def test_cold_messages_are_found_at_their_new_place() -> None:
    bench = Bench(lazy=True)
    bench.publish("q1", b"one")
    bench.publish("q1", b"two")
    segment = bench.roll()
    assert bench.compact(segment).copied == 2
    bench.delete(segment)
    bench.queues[1].fetch()
    assert bench.disk.load(bench.queues[1])
    assert [entry.message.body for entry in bench.queues[1].ready_entries()] == [b"one", b"two"]


def test_messages_that_a_channel_holds_move_as_well() -> None:
    bench = Bench()
    bench.publish("q1", b"held")
    segment = bench.roll()
    assert bench.wire.get(bench.channel, bench.queues[1])
    assert bench.compact(segment).copied == 1
    bench.delete(segment)
    assert bench.rebuilt(1) == [1]
    bench.channel.settle(1, False, 0, 0)
    bench.disk.commit()
    assert bench.rebuilt(1) == []


def test_live_counts_move_with_the_records() -> None:
    bench = Bench()
    bench.publish("", b"both")
    bench.publish("q1", b"one")
    segment = bench.roll()
    before = bench.disk.live()
    strange = segment.live - 3
    bench.compact(segment)
    # What queue 9, which nobody knows, has in there stays behind.
    assert (segment.live, bench.disk.live()) == (strange, before)


def test_a_fanout_stays_one_record() -> None:
    bench = Bench()
    bench.publish("", b"both")
    segment = bench.roll()
    assert bench.compact(segment).copied == 1
    one, two = (queue.ready_entries()[0].message for queue in bench.queues.values())
    assert one.location == two.location
    bench.delete(segment)
    assert (bench.rebuilt(1), bench.rebuilt(2)) == ([1], [1])


def test_only_those_targets_move_that_still_want_it() -> None:
    """A record has room for every queue the message was routed to, also for those that keep nothing."""
    for settled, left in ((1, 2), (2, 1)):
        bench = Bench()
        bench.publish("", b"both")
        segment = bench.roll()
        bench.settle_first(settled)
        bench.disk.commit()
        bench.compact(segment)
        bench.delete(segment)
        bench.publish("q1", b"later")
        bench.publish("q2", b"later")
        bench.disk.commit()
        assert (bench.rebuilt(left), bench.rebuilt(settled)) == ([1, 2], [2])


def test_a_copy_that_was_copied_is_still_whole() -> None:
    bench = Bench()
    bench.publish("", b"body" * 10)
    for _ in range(3):
        segment = bench.roll()
        bench.compact(segment)
        bench.delete(segment)
    assert (bench.rebuilt(1), bench.rebuilt(2)) == ([1], [1])
    location = bench.queues[1].ready_entries()[0].message.location
    record = bench.disk.images[location >> 32][location & 0xFFFFFFFF :]
    assert b"body" * 10 in record[:120]


def test_notes_about_other_segments_move_along() -> None:
    bench = Bench()
    bench.publish("q1", b"one")
    bench.publish("q1", b"two")
    first = bench.roll()
    bench.settle_first(1)
    assert bench.wire.get(bench.channel, bench.queues[1])
    bench.channel.settle(2, False, 2, 0)
    assert bench.wire.get(bench.channel, bench.queues[1])
    bench.disk.commit()
    second = bench.roll()
    bench.compact(second)
    moved = read_notes(bench.disk.journal.segment.copy_index())
    assert Note(1, 1, 1, first.id, 0, SETTLED) in moved
    assert Note(1, 2, 2, first.id, 0, COUNTED) in moved
    assert first.id in bench.disk.journal.segment.settles
    bench.delete(second)
    assert bench.rebuilt(1) == [2]


def test_notes_about_segments_that_are_gone_are_left_behind() -> None:
    bench = Bench()
    bench.publish("q1", b"one")
    first = bench.roll()
    bench.settle_first(1)
    bench.disk.commit()
    second = bench.roll()
    bench.delete(first)
    bench.compact(second)
    assert [note for note in read_notes(bench.disk.journal.segment.copy_index()) if note.kind == SETTLED] == []


def test_the_copy_may_not_go_before_the_original() -> None:
    bench = Bench()
    bench.publish("q1", b"one")
    segment = bench.roll()
    bench.compact(segment)
    assert segment.id in bench.disk.journal.segment.settles
    assert bench.rebuilt(1) == [1], "two copies are one message"


def test_a_damaged_record_stays_where_it_is() -> None:
    bench = Bench()
    bench.publish("q1", b"damaged" * 5)
    bench.publish("q1", b"whole")
    segment = bench.roll()
    image = bench.disk.images[segment.id]
    image[image.index(b"damaged")] ^= 1
    live = segment.live
    compaction = bench.compact(segment)
    assert (compaction.copied, compaction.damaged) == (1, [64])
    assert segment.live == live - 1
    assert bench.queues[1].ready_entries()[0].message.location == segment.id << 32 | 64


def test_a_copy_has_an_index_entry_of_its_own() -> None:
    bench = Bench()
    bench.publish("q1", b"one")
    segment = bench.roll()
    bench.compact(segment)
    location = bench.queues[1].ready_entries()[0].message.location
    copies = [note for note in read_notes(bench.disk.journal.segment.copy_index()) if note.queue == 1]
    assert [(note.first, note.a, note.kind) for note in copies] == [(1, location & 0xFFFFFFFF, PLACED)]
