"""Queues with consumers against a model made of lists and dicts.

The real machine is driven as a session drives it, and watched as a client watches it: deliveries are read off the
frames in the outboxes. The model never predicts who gets a message; it says after every step whether what happened was
right: nothing lost or doubled, the oldest first, nobody above a limit, nobody who could take left waiting, everybody
served in turn."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from leveret.core.connection import Connection
from leveret.core.consumer import Consumer, Getter
from leveret.core.message import new_message
from leveret.core.office import Office
from leveret.core.outbox import Outbox
from leveret.core.properties import parse_properties
from leveret.core.queue import ClassicQueue
from leveret.core.router import Router
from leveret.errors import SoftError
from leveret.session.channel import ChannelDesk
from tests.conformance.raw_client import Frame, Method
from tests.fuzz.effort import effort
from tests.fuzz.frames import assemble, cut_frames

# As in core.outbox, which keeps them to itself when compiled.
CONGESTED_BYTES, CALM_BYTES = 262144, 65536
SETTLED, DISCARDED, REQUEUED = 0, 1, 2
FRAME_MAX = 4096
BODY_SIZES = [8, 8, 9, 100, 5000, 20000, 90000]
PROPERTIES = parse_properties(b"\x00\x00")


class Note:
    """What the model knows of one message."""

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.size = size
        self.returned = False

    def body(self) -> bytes:
        return struct.pack(">Q", self.number).ljust(self.size, b".")


class Shelf:
    """One queue: the real one, and what the model says is ready in it, oldest first."""

    def __init__(self, single_active: bool) -> None:
        self.queue = ClassicQueue(b"q", None, single_active)
        self.single_active = single_active
        self.ready: list[Note] = []
        self.consumers: list[Taker] = []
        self.published = 0


class Taker:
    """One consumer, as the client set it up."""

    def __init__(self, lane: Lane, shelf: Shelf, tag: str, no_ack: bool, priority: int, limits: tuple[int, int]):
        self.lane, self.shelf, self.tag, self.no_ack, self.priority = lane, shelf, tag, no_ack, priority
        self.count_max, self.bytes_max = limits
        # Others of this priority who were served since it was this one's turn to wait.
        self.passed_by: set[Taker] = set()
        self.real = Consumer(
            lane.real, shelf.queue, tag.encode(), no_ack, False, priority, self.count_max, self.bytes_max, {}
        )

    def active(self) -> bool:
        return not self.shelf.single_active or self.shelf.consumers[0] is self

    def held(self) -> list[Held]:
        return [held for held in self.lane.held.values() if held.taker is self]

    def within_limits(self) -> bool:
        if self.no_ack:
            return True
        mine, all_of_them = self.held(), [held for held in self.lane.held.values() if held.taker is not None]
        return (
            below(len(mine), self.count_max)
            and below(sum(held.note.size for held in mine), self.bytes_max)
            and below(len(all_of_them), self.lane.count_max)
            and below(sum(held.note.size for held in all_of_them), self.lane.bytes_max)
        )

    def can_take(self) -> bool:
        return self.active() and self.lane.flowing and not self.lane.peer.congested and self.within_limits()


def below(amount: int, limit: int) -> bool:
    return limit == 0 or amount < limit


class Held:
    """An unacked delivery; `taker` is None for what came by basic.get."""

    def __init__(self, note: Note, shelf: Shelf, taker: Taker | None) -> None:
        self.note, self.shelf, self.taker = note, shelf, taker


class Lane:
    """One channel."""

    def __init__(self, peer: Peer, number: int) -> None:
        self.peer, self.number = peer, number
        self.desk = ChannelDesk(peer.session, number)  # type: ignore[arg-type]
        self.real = self.desk.core
        self.held: dict[int, Held] = {}
        self.last_tag = 0
        self.count_max = self.bytes_max = 0
        self.flowing = True
        peer.core.put_channel(self.real)


class Peer:
    """One connection: its outbox, and how far the model has read what stands in it."""

    def __init__(self) -> None:
        self.outbox = Outbox([], [])
        self.core = Connection(self.outbox, FRAME_MAX, 2047)
        self.lanes: dict[int, Lane] = {}
        self.congested = False
        # Octets of frames read off the outbox, of those the model has judged, and of those the client has taken.
        self.read = self.judged = self.sent = 0
        self.session = SimpleNamespace(
            outbox=self.outbox,
            vhost=SimpleNamespace(router=Router({}, {}), name="/"),
            access=None,
            broker=SimpleNamespace(office=Office()),
            frame_max=FRAME_MAX,
            settings=SimpleNamespace(body_bytes_max=1 << 20),
            journal=None,
        )

    def news(self) -> list[Frame]:
        """Frames written since the last look, sent or not."""
        waiting = b"".join(self.outbox.views(1 << 30))
        assert len(waiting) == self.outbox.pending()
        fresh = waiting[self.read - self.sent :]
        self.read += len(fresh)
        return cut_frames(fresh)


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.peers = [Peer(), Peer()]
        self.shelves: list[Shelf] = []
        self.notes: list[Note] = []
        self.tags = 0

    @initialize(single_active=st.booleans())
    def begin(self, single_active: bool) -> None:
        self.shelves = [Shelf(False), Shelf(single_active)]
        for peer in self.peers:
            for number in (1, 2):
                peer.lanes[number] = Lane(peer, number)

    # ---- choosing

    def lanes(self) -> list[Lane]:
        return [lane for peer in self.peers for lane in peer.lanes.values()]

    def takers(self) -> list[Taker]:
        return [taker for shelf in self.shelves for taker in shelf.consumers]

    def pick_lane(self, choice: int) -> Lane:
        lanes = self.lanes()
        return lanes[choice % len(lanes)]

    def pick_busy_lane(self, choice: int) -> Lane:
        """One with something unacked, if there is one."""
        busy = [lane for lane in self.lanes() if lane.held]
        return busy[choice % len(busy)] if busy else self.pick_lane(choice)

    # ---- steps

    @rule(shelf=st.integers(0, 1), count=st.sampled_from([1, 1, 2, 3, 8]), size=st.sampled_from(BODY_SIZES))
    def publish(self, shelf: int, count: int, size: int) -> None:
        target = self.shelves[shelf]
        for _ in range(count):
            note = Note(len(self.notes), size)
            self.notes.append(note)
            target.ready.append(note)
            target.published += 1
            assert target.queue.publish(new_message(b"", b"q", PROPERTIES, note.body())) == 0
            self.look()

    @precondition(lambda self: len(self.takers()) < 6)
    @rule(
        lane=st.integers(0, 3),
        shelf=st.integers(0, 1),
        no_ack=st.sampled_from([False, False, False, True]),
        priority=st.sampled_from([0, 0, 0, 5, -1]),
        count_max=st.sampled_from([0, 1, 2, 3, 10]),
        bytes_max=st.sampled_from([0, 0, 0, 1, 50, 6000]),
    )
    def consume(self, lane: int, shelf: int, no_ack: bool, priority: int, count_max: int, bytes_max: int) -> None:
        self.tags += 1
        where = self.pick_lane(lane)
        limits = (count_max, bytes_max)
        taker = Taker(where, self.shelves[shelf], f"tag-{self.tags}", no_ack, priority, limits)
        taker.shelf.consumers.append(taker)
        where.real.add_consumer(taker.real)
        taker.shelf.queue.subscribe(taker.real)
        self.look()

    @precondition(lambda self: self.takers())
    @rule(choice=st.integers(0, 5))
    def cancel(self, choice: int) -> None:
        taker = self.takers()[choice % len(self.takers())]
        taker.shelf.consumers.remove(taker)
        assert taker.lane.real.remove_consumer(taker.tag.encode()) is taker.real
        assert taker.lane.real.remove_consumer(taker.tag.encode()) is None
        self.look()

    @rule(
        choice=st.integers(0, 3),
        which=st.integers(0, 20),
        verdict=st.sampled_from([SETTLED, SETTLED, DISCARDED, REQUEUED]),
        multiple=st.booleans(),
    )
    def settle(self, choice: int, which: int, verdict: int, multiple: bool) -> None:
        """Acks, nacks and rejects of what is outstanding; `which` counts from the oldest."""
        lane = self.pick_busy_lane(choice)
        if lane.held:
            tag = list(lane.held)[which % len(lane.held)]
            self.settle_tag(lane, tag, multiple, verdict)

    @rule(
        choice=st.integers(0, 3),
        tag=st.one_of(st.integers(0, 30), st.sampled_from([2**63, 2**64 - 1])),
        verdict=st.sampled_from([SETTLED, DISCARDED, REQUEUED]),
        multiple=st.booleans(),
    )
    def settle_whatever(self, choice: int, tag: int, verdict: int, multiple: bool) -> None:
        self.settle_tag(self.pick_lane(choice), tag, multiple, verdict)

    def settle_tag(self, lane: Lane, tag: int, multiple: bool, verdict: int) -> None:
        if tag not in lane.held and not (multiple and tag == 0):
            with pytest.raises(SoftError, match=f"unknown delivery tag {tag}"):
                lane.real.settle(tag, multiple, verdict, 0x003C0050)
        else:
            upto = max(lane.held, default=0) if tag == 0 else tag
            for named in [other for other in lane.held if other == tag or (multiple and other <= upto)]:
                self.put_away(lane.held.pop(named), verdict)
            lane.real.settle(tag, multiple, verdict, 0x003C0050)
        self.look()

    def put_away(self, held: Held, verdict: int) -> None:
        if verdict == REQUEUED and held.shelf in self.shelves:
            held.note.returned = True
            held.shelf.ready.append(held.note)
            held.shelf.ready.sort(key=lambda note: note.number)

    @rule(choice=st.integers(0, 3), shelf=st.integers(0, 1), no_ack=st.booleans())
    def get(self, choice: int, shelf: int, no_ack: bool) -> None:
        lane, source = self.pick_lane(choice), self.shelves[shelf]
        expected = bool(source.ready)
        assert Getter(lane.real, source.queue, no_ack).fetch() == expected
        self.look(getting=(source, no_ack) if expected else None)

    @rule(choice=st.integers(0, 3))
    def recover(self, choice: int) -> None:
        lane = self.pick_busy_lane(choice)
        for tag in list(lane.held):
            self.put_away(lane.held.pop(tag), REQUEUED)
        lane.real.recover()
        self.look()

    @rule(choice=st.integers(0, 3), count=st.sampled_from([0, 1, 2, 5]), octets=st.sampled_from([0, 0, 10, 6000]))
    def limit_channel(self, choice: int, count: int, octets: int) -> None:
        """basic.qos global=true."""
        lane = self.pick_lane(choice)
        lane.count_max, lane.bytes_max = count, octets
        lane.real.prefetch_count, lane.real.prefetch_bytes = count, octets
        lane.real.unpark()
        self.look()

    @rule(choice=st.integers(0, 3), active=st.booleans())
    def flow(self, choice: int, active: bool) -> None:
        lane = self.pick_lane(choice)
        lane.flowing = lane.real.flowing = active
        if active:
            lane.real.unpark()
        self.look()

    @rule(shelf=st.integers(0, 1))
    def purge(self, shelf: int) -> None:
        assert self.shelves[shelf].queue.purge() == len(self.shelves[shelf].ready)
        self.shelves[shelf].ready.clear()
        self.look()

    @rule(shelf=st.integers(0, 1))
    def delete(self, shelf: int) -> None:
        """The queue goes, its consumers with it; what is unacked stays with the channels until it is settled."""
        old = self.shelves[shelf]
        self.shelves[shelf] = Shelf(old.single_active)
        old.queue.close()
        for taker in old.consumers:
            taker.lane.real.remove_consumer(taker.tag.encode())
        self.look()

    @rule(choice=st.integers(0, 3))
    def close_channel(self, choice: int) -> None:
        self.end_lane(self.pick_lane(choice))

    @rule(choice=st.integers(0, 1))
    def disconnect(self, choice: int) -> None:
        peer = self.peers[choice]
        for lane in list(peer.lanes.values()):
            self.end_lane(lane)
        peer.outbox.discard()
        fresh = self.peers[choice] = Peer()
        for number in (1, 2):
            fresh.lanes[number] = Lane(fresh, number)

    def end_lane(self, lane: Lane) -> None:
        for shelf in self.shelves:
            shelf.consumers = [taker for taker in shelf.consumers if taker.lane is not lane]
        for tag in list(lane.held):
            self.put_away(lane.held.pop(tag), REQUEUED)
        lane.desk.release()
        assert lane.real.unacked.count == lane.real.held_count == lane.real.held_bytes == 0
        lane.peer.core.drop_channel(lane.number)
        lane.peer.lanes[lane.number] = Lane(lane.peer, lane.number)
        self.look()

    @rule(choice=st.integers(0, 1), share=st.sampled_from([0.01, 0.5, 0.8, 0.97, 1.0]), pieces=st.integers(1, 64))
    def drain(self, choice: int, share: float, pieces: int) -> None:
        """The client's socket takes some of what waits for it."""
        peer = self.peers[choice]
        left = int(peer.outbox.pending() * share)
        while left > 0:
            count = min(left, sum(map(len, peer.outbox.views(pieces))))
            peer.outbox.sent(count)
            peer.sent += count
            left -= count
        if peer.congested and peer.outbox.pending() < CALM_BYTES:
            peer.congested = False
            assert peer.outbox.calm_down()
            peer.core.calm()
        else:
            assert not peer.outbox.calm_down()
        self.look()

    # ---- what came of it

    def look(self, getting: tuple[Shelf, bool] | None = None) -> None:
        """Reads all that was delivered in this step, judges it, and compares every count."""
        served: dict[Shelf, list[tuple[Note, Taker | None]]] = {shelf: [] for shelf in self.shelves}
        for peer in self.peers:
            for method, size in with_sizes(peer.news()):
                shelf, note, taker = self.accept(peer, method, getting)
                served[shelf].append((note, taker))
                peer.judged += size
                if peer.judged - peer.sent > CONGESTED_BYTES:
                    peer.congested = True
        for shelf, deliveries in served.items():
            deliveries.sort(key=lambda pair: pair[0].number)
            handed_out = [note for note, _ in deliveries]
            assert handed_out == shelf.ready[: len(handed_out)], "not the oldest were handed out, or one of them twice"
            del shelf.ready[: len(handed_out)]
            self.judge_turns(shelf, [taker for _, taker in deliveries if taker is not None])
        self.compare()

    def accept(
        self, peer: Peer, method: Method, getting: tuple[Shelf, bool] | None
    ) -> tuple[Shelf, Note, Taker | None]:
        """One delivery: to the right consumer, within its limits, with the next tag and the right flag."""
        lane = peer.lanes[method.channel]
        note = self.notes[struct.unpack(">Q", method.body[:8])[0]]
        assert method.body == note.body()
        assert all(size <= FRAME_MAX - 8 for size in method.body_frame_sizes)
        lane.last_tag += 1
        assert method["delivery_tag"] == lane.last_tag
        assert method["redelivered"] == note.returned, note.number
        taker = None
        if method.name == "basic.get-ok":
            assert getting is not None
            shelf, no_ack = getting
            assert method["message_count"] == len(shelf.ready) - 1
        else:
            taker = next(taker for taker in self.takers() if taker.tag == method["consumer_tag"])
            assert taker.lane is lane
            assert taker.can_take(), f"{taker.tag} was full, stopped, or standing by"
            shelf, no_ack = taker.shelf, taker.no_ack
        assert note in shelf.ready
        if not no_ack:
            lane.held[lane.last_tag] = Held(note, shelf, taker)
        return shelf, note, taker

    def judge_turns(self, shelf: Shelf, served: list[Taker]) -> None:
        """Who could still take after the step could take all through it: deliveries only ever fill people up."""
        willing = [taker for taker in shelf.consumers if taker.can_take()]
        assert not (shelf.ready and willing), f"{len(shelf.ready)} messages wait although {willing[0].tag} could take"
        for taker in served:
            taker.passed_by.clear()
            for other in willing:
                assert other.priority <= taker.priority, f"{taker.tag} came before {other.tag} of a higher priority"
                if other is not taker and other.priority == taker.priority:
                    assert taker not in other.passed_by, f"{taker.tag} had two turns while {other.tag} waited for one"
                    other.passed_by.add(taker)
        for taker in shelf.consumers:
            if taker not in willing:
                taker.passed_by.clear()

    def compare(self) -> None:
        lanes = self.lanes()
        for shelf in self.shelves:
            out = [held for lane in lanes for held in lane.held.values() if held.shelf is shelf]
            queue: Any = shelf.queue
            assert [entry.message.body for entry in queue.ready_entries()] == [note.body() for note in shelf.ready]
            assert (queue.ready_count(), queue.ready_bytes()) == sizes(shelf.ready)
            assert (queue.unacked_count, queue.unacked_bytes) == sizes([held.note for held in out])
            gone = queue.settled_total + queue.discarded_total
            assert queue.published_total == shelf.published == len(shelf.ready) + len(out) + gone
            assert queue.subscriber_count() == len(shelf.consumers)
            for taker in shelf.consumers:
                assert taker.real.active == taker.active()
                mine = sizes([held.note for held in taker.held()])
                assert (taker.real.unacked_count, taker.real.unacked_bytes) == mine
        for lane in lanes:
            assert [entry.tag for entry in lane.real.unacked.entries()] == sorted(lane.held)
            metered = [held.note for held in lane.held.values() if held.taker is not None]
            assert (lane.real.held_count, lane.real.held_bytes) == sizes(metered)
            assert lane.peer.outbox.congested == lane.peer.congested


def sizes(notes: list[Note]) -> tuple[int, int]:
    return len(notes), sum(note.size for note in notes)


def with_sizes(frames: list[Frame]) -> list[tuple[Method, int]]:
    """Deliveries, each with the octets its frames take."""
    groups: list[list[Frame]] = []
    for frame in frames:
        if frame.kind == 1:
            groups.append([])
        groups[-1].append(frame)
    return [(assemble(group)[0], sum(8 + len(frame.payload) for frame in group)) for group in groups]


TestQueue = QueueMachine.TestCase
TestQueue.settings = effort(500, stateful_step_count=50)
