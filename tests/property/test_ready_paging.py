"""Queues whose bodies come and go between memory and disk, against a model made of lists.

The real journals, ready lists and loads work on a disk in memory, driven as sessions, committer, loader and reclaimer
drive them, in any order. The model says after every step: the oldest first, nothing lost or doubled, counts exact, and
each segment alive as long as a message needs it and no longer."""

from __future__ import annotations

import struct
from collections import Counter
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from leveret.core.connection.consumer import Getter
from leveret.core.matching.matcher import FanoutMatcher
from tests.fuzz.effort import effort
from tests.unit.core.fake_disk import PLACED, FakeDisk, read_notes
from tests.unit.queues.dataplane import Sent, Workbench, new_consumer, publish_frames

SETTLED, DISCARDED, REQUEUED = 0, 1, 2
WINDOW_BYTES, WINDOW_BYTES_PRESSED, SEGMENT_BYTES = 400, 60, 1500
SIZES = [8, 20, 90, 300, 700]
INDEXES = st.integers(0, 1000)


class Copy:
    """One message in one queue, as the model knows it."""

    def __init__(self, position: int, number: int, size: int, persistent: bool) -> None:
        self.position, self.size, self.persistent = position, size, persistent
        self.body = struct.pack(">Q", number).ljust(size, b".")
        self.times = 0


class Stand:
    """One queue with what the model says of it."""

    def __init__(self, queue: Any, tag: str) -> None:
        self.queue, self.tag = queue, tag
        self.ready: list[Copy] = []
        self.next_position = 1
        self.consumer: Any = None
        self.no_ack = False
        # Whether gets that wait for the disk take for good; and those that were called and may look again.
        self.waiting_gets: list[bool] = []
        self.called: list[bool] = []

    def place(self, number: int, size: int, persistent: bool) -> None:
        self.ready.append(Copy(self.next_position, number, size, persistent))
        self.next_position += 1


class PagingMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.disk = FakeDisk(SEGMENT_BYTES, WINDOW_BYTES)
        self.bench = Workbench(journal=self.disk.journal)
        self.channel = self.bench.open_channel()
        self.stands: list[Stand] = []
        # By delivery tag
        self.held: dict[int, tuple[Stand, Copy]] = {}
        self.tag = 0
        self.number = 0
        self.flying: tuple[Stand, Any] | None = None
        # (queue id, position) -> segment, from the indexes of all that ever were.
        self.placed: dict[tuple[int, int], int] = {}

    @initialize(
        durable=st.lists(st.sampled_from([True, True, False]), min_size=2, max_size=3),
        lazy=st.lists(st.booleans(), min_size=3, max_size=3),
        pressed=st.booleans(),
    )
    def declare(self, durable: list[bool], lazy: list[bool], pressed: bool) -> None:
        self.press(pressed)
        fanout = self.bench.add_exchange("f", FanoutMatcher())
        for i, kept in enumerate(durable):
            queue_log = self.disk.queue_log(i + 1) if kept else None
            queue = self.bench.add_queue(
                f"q{i}", paging_context=self.disk.paging_context, queue_log=queue_log, lazy=lazy[i]
            )
            fanout.bind(b"", {}, queue)
            self.stands.append(Stand(queue, f"c{i}"))
        self.bench.router.changed()

    def stand(self, index: int) -> Stand:
        return self.stands[index % len(self.stands)]

    # ---- what clients do

    @rule(
        index=INDEXES,
        sizes=st.lists(st.sampled_from(SIZES), min_size=1, max_size=6),
        persistent=st.booleans(),
        fanout=st.booleans(),
    )
    def publish(self, index: int, sizes: list[int], persistent: bool, fanout: bool) -> None:
        targets = self.stands if fanout else [self.stand(index)]
        address = ("f", "") if fanout else ("", f"q{self.stands.index(targets[0])}")
        for size in sizes:
            self.number += 1
            for target in targets:
                target.place(self.number, size, persistent)
            body = targets[0].ready[-1].body
            self.bench.feed(publish_frames(1, *address, body, {"delivery_mode": 2 if persistent else 1}))
            self.judge()

    @precondition(lambda self: any(stand.consumer is None for stand in self.stands))
    @rule(index=INDEXES, no_ack=st.sampled_from([False, False, True]), prefetch=st.sampled_from([0, 1, 3]))
    def consume(self, index: int, no_ack: bool, prefetch: int) -> None:
        free = [stand for stand in self.stands if stand.consumer is None]
        stand = free[index % len(free)]
        stand.no_ack = no_ack
        stand.consumer = new_consumer(self.channel, stand.queue, stand.tag, no_ack, prefetch_count=prefetch)
        self.channel.add_consumer(stand.consumer)
        stand.queue.subscribe(stand.consumer)
        self.judge()

    @precondition(lambda self: any(stand.consumer is not None for stand in self.stands))
    @rule(index=INDEXES)
    def cancel(self, index: int) -> None:
        busy = [stand for stand in self.stands if stand.consumer is not None]
        stand = busy[index % len(busy)]
        assert self.channel.remove_consumer(stand.tag.encode()) is stand.consumer
        stand.consumer = None
        self.judge()

    @rule(index=INDEXES, count=st.integers(1, 4), no_ack=st.sampled_from([False, False, True]))
    def get(self, index: int, count: int, no_ack: bool) -> None:
        for _ in range(count):
            self.get_one(self.stand(index), no_ack)

    def get_one(self, stand: Stand, no_ack: bool) -> None:
        before = len(stand.ready)
        found = Getter(self.channel, stand.queue, no_ack).fetch()
        self.judge(stand, no_ack)
        if found is None:
            assert before > 0
            stand.waiting_gets.append(no_ack)

            def look_again() -> None:
                stand.waiting_gets.remove(no_ack)
                stand.called.append(no_ack)

            stand.queue.await_load(look_again)
        else:
            assert found == (before > 0)

    @precondition(lambda self: self.held)
    @rule(
        picks=st.lists(INDEXES, min_size=1, max_size=5),
        verdict=st.sampled_from([REQUEUED, SETTLED, REQUEUED, DISCARDED]),
    )
    def settle(self, picks: list[int], verdict: int) -> None:
        for pick in picks:
            if self.held:
                self.settle_one(list(self.held)[pick % len(self.held)], verdict)

    @precondition(lambda self: len(self.held) > 1)
    @rule(seed=st.randoms(use_true_random=False))
    def requeue_all(self, seed: Any) -> None:
        tags = list(self.held)
        seed.shuffle(tags)
        for tag in tags:
            if tag in self.held:
                self.settle_one(tag, REQUEUED)

    def settle_one(self, tag: int, verdict: int) -> None:
        stand, copy = self.held.pop(tag)
        if verdict == REQUEUED:
            stand.ready.append(copy)
            stand.ready.sort(key=lambda one: one.position)
        self.channel.settle(tag, False, verdict, 0)
        self.judge()

    @rule(index=INDEXES, how=st.sampled_from(["", "", "purge", "drain"]))
    def empty(self, index: int, how: str) -> None:
        """Rarer than the rest, or there would never be much to look at."""
        if how == "purge":
            self.purge(self.stand(index))
        elif how == "drain":
            self.drain()

    def purge(self, stand: Stand) -> None:
        assert stand.queue.purge() == len(stand.ready)
        stand.ready.clear()
        assert not stand.waiting_gets
        self.judge()

    def judge(self, asked: Stand | None = None, no_ack_get: bool = False) -> None:
        """Reads off the write buffer what was delivered, and sees that each was the next."""
        for sent in self.bench.sent():
            if sent.name == "basic.deliver":
                stand = next(stand for stand in self.stands if stand.tag == sent.fields["consumer_tag"])
                no_ack = stand.no_ack
            else:
                assert sent.name == "basic.get-ok" and asked is not None
                stand, no_ack = asked, no_ack_get
            self.judge_one(stand, no_ack, sent)

    def judge_one(self, stand: Stand, no_ack: bool, sent: Sent) -> None:
        assert stand.ready, "something was delivered that is not there"
        copy = stand.ready.pop(0)
        assert sent.body == copy.body, f"{sent.body[:8]!r} came instead of {copy.body[:8]!r}"
        assert sent.fields["redelivered"] == (copy.times > 0)
        copy.times += 1
        self.tag += 1
        assert sent.fields["delivery_tag"] == self.tag
        if not no_ack:
            self.held[self.tag] = (stand, copy)

    # ---- what the store does

    @rule(commit=st.booleans(), spares=st.booleans(), delete=st.booleans(), answer=st.booleans())
    def keep_house(self, commit: bool, spares: bool, delete: bool, answer: bool) -> None:
        if commit:
            self.disk.commit()
        if spares:
            self.disk.provide_spares()
        if delete:
            self.delete_dead_segments()
        if answer:
            self.answer_gets()

    @rule()
    def load_something_written(self) -> None:
        self.disk.commit()
        for stand in self.stands:
            if stand.ready and not stand.queue.ready.has_next():
                stand.queue.fetch()
        self.load_something()

    @precondition(lambda self: self.flying is None)
    @rule(index=INDEXES)
    def start_load(self, index: int) -> None:
        """As the loader: only for those that asked, and again later if nothing is written yet."""
        if self.disk.wanting:
            queue = self.disk.wanting.pop(index % len(self.disk.wanting))
            load = queue.take_load(self.disk.journal)
            if load is not None:
                self.flying = (next(stand for stand in self.stands if stand.queue is queue), load)
            elif queue.ready.wants_load() and not queue.ready.has_next():
                self.disk.wanting.append(queue)

    @precondition(lambda self: self.flying is not None)
    @rule()
    def finish_load(self) -> None:
        assert self.flying is not None
        (stand, load), self.flying = self.flying, None
        if stand.queue.ready.is_loading(load):
            self.disk.read(load)
            assert load.lost == {}
        stand.queue.finish_load(load)
        self.judge()
        if stand.queue.ready.wants_load() and not stand.queue.ready.has_next():
            self.disk.want(stand.queue)

    @rule(pressed=st.booleans())
    def press(self, pressed: bool) -> None:
        self.disk.paging_context.pressed = pressed
        self.disk.paging_context.window_bytes = WINDOW_BYTES_PRESSED if pressed else WINDOW_BYTES

    @rule(index=INDEXES, bytes_max=st.sampled_from([1, 200, 100_000]))
    def page_out(self, index: int, bytes_max: int) -> None:
        self.stand(index).queue.page_out(bytes_max)

    def delete_dead_segments(self) -> None:
        self.learn_places()
        for segment in list(self.disk.segments.values()):
            if segment.sealed and segment.live == 0 and segment.written == segment.end:
                del self.disk.segments[segment.id], self.disk.images[segment.id]

    # ---- what must be true

    def answer_gets(self) -> None:
        for stand in self.stands:
            called, stand.called = stand.called, []
            for no_ack in called:
                self.get_one(stand, no_ack)

    def learn_places(self) -> None:
        for segment in self.disk.segments.values():
            if not segment.paging:
                for note in read_notes(segment.copy_index()):
                    if note.kind == PLACED:
                        self.placed[note.queue, note.first] = segment.id

    @invariant()
    def counts_are_exact(self) -> None:
        held = Counter[int]()
        bytes_held = Counter[int]()
        for stand, copy in self.held.values():
            held[id(stand)] += 1
            bytes_held[id(stand)] += copy.size
        for stand in self.stands:
            queue = stand.queue
            assert (queue.ready_count(), queue.ready_bytes()) == (
                len(stand.ready),
                sum(copy.size for copy in stand.ready),
            )
            assert (queue.unacked_count, queue.unacked_bytes) == (held[id(stand)], bytes_held[id(stand)])

    @invariant()
    def segments_live_as_long_as_they_are_needed(self) -> None:
        self.learn_places()
        living = [(stand, copy) for stand in self.stands for copy in stand.ready] + list(self.held.values())
        needed = Counter(
            self.placed[stand.queue.queue_log.id, copy.position]
            for stand, copy in living
            if stand.queue.queue_log is not None and copy.persistent
        )
        for segment in self.disk.segments.values():
            assert segment.live == needed[segment.id] if not segment.paging else segment.live >= 0
        for stand in self.stands:
            queue_log = stand.queue.queue_log
            if queue_log is not None:
                mine = [copy for other, copy in living if other is stand and copy.persistent]
                assert queue_log.live == len(mine)

    def drain(self) -> None:
        """Everything comes out, in order; then nothing is needed any more, and nobody waits."""
        for stand in self.stands:
            rounds = 0
            while stand.ready or stand.waiting_gets or stand.called:
                rounds += 1
                assert rounds < 10 * self.number + 10, "it does not come out"
                self.disk.commit()
                self.answer_gets()
                if stand.ready:
                    self.get_one(stand, False)
                if not self.load_something():
                    assert not stand.waiting_gets, "a get waits for what nobody will bring"
        for tag in list(self.held):
            self.settle_one(tag, SETTLED)
        assert {number: segment.live for number, segment in self.disk.segments.items() if segment.live} == {}

    def load_something(self) -> bool:
        for _ in range(len(self.disk.wanting)):
            if self.flying is None:
                self.start_load(0)
        if self.flying is None:
            return False
        self.finish_load()
        return True


TestPaging = PagingMachine.TestCase
TestPaging.settings = effort(200, stateful_step_count=50)
