"""Queues with consumers against a model made of lists and dicts.

The real machine is driven as a session drives it, and watched as a client watches it: deliveries are read off the
frames in the write buffers. The model never predicts who gets a message; it says after every step whether what happened
was right: nothing lost or doubled, the oldest first, nobody above a limit, nobody who could take left waiting,
everybody served in turn."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from leveret.core.codec.message import new_message
from leveret.core.codec.properties import parse_properties
from leveret.core.codec.write_buffer import WriteBuffer
from leveret.core.connection.connection import Connection
from leveret.core.connection.consumer import Consumer, Getter
from leveret.core.connection.router import Router
from leveret.core.queue.classic_queue import ClassicQueue
from leveret.core.queue.office import Office
from leveret.errors import SoftError
from leveret.session.channel import ChannelSession
from tests.conformance.raw_client import Frame, Method
from tests.fuzz.effort import effort
from tests.fuzz.frames import assemble, cut_frames

# As in core.codec.write_buffer, which keeps them to itself when compiled.
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


class PagingContext:
    """One queue: the real one, and what the model says is ready in it, oldest first."""

    def __init__(self, single_active: bool) -> None:
        self.queue = ClassicQueue(b"q", None, single_active)
        self.single_active = single_active
        self.ready: list[Note] = []
        self.consumers: list[Taker] = []
        self.published = 0


class Taker:
    """One consumer, as the client set it up."""

    def __init__(
        self,
        codec: ChannelCodec,
        paging_context: PagingContext,
        tag: str,
        no_ack: bool,
        priority: int,
        limits: tuple[int, int],
    ):
        self.codec, self.paging_context, self.tag, self.no_ack, self.priority = (
            codec,
            paging_context,
            tag,
            no_ack,
            priority,
        )
        self.count_max, self.bytes_max = limits
        # Others of this priority who were served since it was this one's turn to wait.
        self.passed_by: set[Taker] = set()
        self.real = Consumer(
            codec.real, paging_context.queue, tag.encode(), no_ack, False, priority, self.count_max, self.bytes_max, {}
        )

    def active(self) -> bool:
        return not self.paging_context.single_active or self.paging_context.consumers[0] is self

    def held(self) -> list[Held]:
        return [held for held in self.codec.held.values() if held.taker is self]

    def within_limits(self) -> bool:
        # Without acks it holds nothing itself, but waits while others use up what the channel may hold.
        mine, all_of_them = self.held(), [held for held in self.codec.held.values() if held.taker is not None]
        return (
            below(len(mine), self.count_max)
            and below(sum(held.note.size for held in mine), self.bytes_max)
            and below(len(all_of_them), self.codec.count_max)
            and below(sum(held.note.size for held in all_of_them), self.codec.bytes_max)
        )

    def can_take(self) -> bool:
        return self.active() and self.codec.flowing and not self.codec.peer.congested and self.within_limits()


def below(amount: int, limit: int) -> bool:
    return limit == 0 or amount < limit


class Held:
    """An unacked delivery; `taker` is None for what came by basic.get."""

    def __init__(self, note: Note, paging_context: PagingContext, taker: Taker | None) -> None:
        self.note, self.paging_context, self.taker = note, paging_context, taker


class ChannelCodec:
    """One channel."""

    def __init__(self, peer: Peer, number: int) -> None:
        self.peer, self.number = peer, number
        self.channel_session = ChannelSession(peer.session, number)  # type: ignore[arg-type]
        self.real = self.channel_session.core
        self.held: dict[int, Held] = {}
        self.last_tag = 0
        self.count_max = self.bytes_max = 0
        self.flowing = True
        peer.core.put_channel(self.real)


class Peer:
    """One connection: its write buffer, and how far the model has read what stands in it."""

    def __init__(self) -> None:
        self.write_buffer = WriteBuffer([], [])
        self.core = Connection(self.write_buffer, FRAME_MAX, 2047)
        self.codecs: dict[int, ChannelCodec] = {}
        self.congested = False
        # Octets of frames read off the write buffer, of those the model has judged, and of those the client has taken.
        self.read = self.judged = self.sent = 0
        self.session = SimpleNamespace(
            write_buffer=self.write_buffer,
            vhost=SimpleNamespace(router=Router({}, {}), name="/", firehose=None),
            access=None,
            # Consumers are added to the channel itself, so nobody has counted them.
            broker=SimpleNamespace(
                office=Office(), limits=SimpleNamespace(consumers=SimpleNamespace(leave=lambda *_: None))
            ),
            connection_id=1,
            user="guest",
            frame_max=FRAME_MAX,
            settings=SimpleNamespace(body_bytes_max=1 << 20),
            unfinished=None,
            journal=None,
        )

    def news(self) -> list[Frame]:
        """Frames written since the last look, sent or not."""
        waiting = b"".join(self.write_buffer.views(1 << 30))
        assert len(waiting) == self.write_buffer.pending()
        fresh = waiting[self.read - self.sent :]
        self.read += len(fresh)
        return cut_frames(fresh)


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.peers = [Peer(), Peer()]
        self.shelves: list[PagingContext] = []
        self.notes: list[Note] = []
        self.tags = 0

    @initialize(single_active=st.booleans())
    def begin(self, single_active: bool) -> None:
        self.shelves = [PagingContext(False), PagingContext(single_active)]
        for peer in self.peers:
            for number in (1, 2):
                peer.codecs[number] = ChannelCodec(peer, number)

    # ---- choosing

    def codecs(self) -> list[ChannelCodec]:
        return [codec for peer in self.peers for codec in peer.codecs.values()]

    def takers(self) -> list[Taker]:
        return [taker for paging_context in self.shelves for taker in paging_context.consumers]

    def pick_lane(self, choice: int) -> ChannelCodec:
        codecs = self.codecs()
        return codecs[choice % len(codecs)]

    def pick_busy_lane(self, choice: int) -> ChannelCodec:
        """One with something unacked, if there is one."""
        busy = [codec for codec in self.codecs() if codec.held]
        return busy[choice % len(busy)] if busy else self.pick_lane(choice)

    # ---- steps

    @rule(paging_context=st.integers(0, 1), count=st.sampled_from([1, 1, 2, 3, 8]), size=st.sampled_from(BODY_SIZES))
    def publish(self, paging_context: int, count: int, size: int) -> None:
        target = self.shelves[paging_context]
        for _ in range(count):
            note = Note(len(self.notes), size)
            self.notes.append(note)
            target.ready.append(note)
            target.published += 1
            assert target.queue.publish(new_message(b"", b"q", PROPERTIES, note.body())) == 0
            self.look()

    @precondition(lambda self: len(self.takers()) < 6)
    @rule(
        codec=st.integers(0, 3),
        paging_context=st.integers(0, 1),
        no_ack=st.sampled_from([False, False, False, True]),
        priority=st.sampled_from([0, 0, 0, 5, -1]),
        count_max=st.sampled_from([0, 1, 2, 3, 10]),
        bytes_max=st.sampled_from([0, 0, 0, 1, 50, 6000]),
    )
    def consume(
        self, codec: int, paging_context: int, no_ack: bool, priority: int, count_max: int, bytes_max: int
    ) -> None:
        self.tags += 1
        where = self.pick_lane(codec)
        limits = (count_max, bytes_max)
        taker = Taker(where, self.shelves[paging_context], f"tag-{self.tags}", no_ack, priority, limits)
        taker.paging_context.consumers.append(taker)
        where.real.add_consumer(taker.real)
        taker.paging_context.queue.subscribe(taker.real)
        self.look()

    @precondition(lambda self: self.takers())
    @rule(choice=st.integers(0, 5))
    def cancel(self, choice: int) -> None:
        taker = self.takers()[choice % len(self.takers())]
        taker.paging_context.consumers.remove(taker)
        assert taker.codec.real.remove_consumer(taker.tag.encode()) is taker.real
        assert taker.codec.real.remove_consumer(taker.tag.encode()) is None
        self.look()

    @rule(
        choice=st.integers(0, 3),
        which=st.integers(0, 20),
        verdict=st.sampled_from([SETTLED, SETTLED, DISCARDED, REQUEUED]),
        multiple=st.booleans(),
    )
    def settle(self, choice: int, which: int, verdict: int, multiple: bool) -> None:
        """Acks, nacks and rejects of what is outstanding; `which` counts from the oldest."""
        codec = self.pick_busy_lane(choice)
        if codec.held:
            tag = list(codec.held)[which % len(codec.held)]
            self.settle_tag(codec, tag, multiple, verdict)

    @rule(
        choice=st.integers(0, 3),
        tag=st.one_of(st.integers(0, 30), st.sampled_from([2**63, 2**64 - 1])),
        verdict=st.sampled_from([SETTLED, DISCARDED, REQUEUED]),
        multiple=st.booleans(),
    )
    def settle_whatever(self, choice: int, tag: int, verdict: int, multiple: bool) -> None:
        self.settle_tag(self.pick_lane(choice), tag, multiple, verdict)

    def settle_tag(self, codec: ChannelCodec, tag: int, multiple: bool, verdict: int) -> None:
        if tag not in codec.held and not (multiple and tag == 0):
            with pytest.raises(SoftError, match=f"unknown delivery tag {tag}"):
                codec.real.settle(tag, multiple, verdict, 0x003C0050)
        else:
            upto = max(codec.held, default=0) if tag == 0 else tag
            for named in [other for other in codec.held if other == tag or (multiple and other <= upto)]:
                self.put_away(codec.held.pop(named), verdict)
            codec.real.settle(tag, multiple, verdict, 0x003C0050)
        self.look()

    def put_away(self, held: Held, verdict: int) -> None:
        if verdict == REQUEUED and held.paging_context in self.shelves:
            held.note.returned = True
            held.paging_context.ready.append(held.note)
            held.paging_context.ready.sort(key=lambda note: note.number)

    @rule(choice=st.integers(0, 3), paging_context=st.integers(0, 1), no_ack=st.booleans())
    def get(self, choice: int, paging_context: int, no_ack: bool) -> None:
        codec, source = self.pick_lane(choice), self.shelves[paging_context]
        expected = bool(source.ready)
        assert Getter(codec.real, source.queue, no_ack).fetch() == expected
        self.look(getting=(source, no_ack) if expected else None)

    @rule(choice=st.integers(0, 3))
    def recover(self, choice: int) -> None:
        codec = self.pick_busy_lane(choice)
        for tag in list(codec.held):
            self.put_away(codec.held.pop(tag), REQUEUED)
        codec.real.recover()
        self.look()

    @rule(choice=st.integers(0, 3), count=st.sampled_from([0, 1, 2, 5]), octets=st.sampled_from([0, 0, 10, 6000]))
    def limit_channel(self, choice: int, count: int, octets: int) -> None:
        """basic.qos global=true."""
        codec = self.pick_lane(choice)
        codec.count_max, codec.bytes_max = count, octets
        codec.real.prefetch_count, codec.real.prefetch_bytes = count, octets
        codec.real.unpark()
        self.look()

    @rule(choice=st.integers(0, 3), active=st.booleans())
    def flow(self, choice: int, active: bool) -> None:
        codec = self.pick_lane(choice)
        codec.flowing = codec.real.flowing = active
        if active:
            codec.real.unpark()
        self.look()

    @rule(paging_context=st.integers(0, 1))
    def purge(self, paging_context: int) -> None:
        assert self.shelves[paging_context].queue.purge() == len(self.shelves[paging_context].ready)
        self.shelves[paging_context].ready.clear()
        self.look()

    @rule(paging_context=st.integers(0, 1))
    def delete(self, paging_context: int) -> None:
        """The queue goes, its consumers with it; what is unacked stays with the channels until it is settled."""
        old = self.shelves[paging_context]
        self.shelves[paging_context] = PagingContext(old.single_active)
        old.queue.close()
        for taker in old.consumers:
            taker.codec.real.remove_consumer(taker.tag.encode())
        self.look()

    @rule(choice=st.integers(0, 3))
    def close_channel(self, choice: int) -> None:
        self.end_lane(self.pick_lane(choice))

    @rule(choice=st.integers(0, 1))
    def disconnect(self, choice: int) -> None:
        peer = self.peers[choice]
        for codec in list(peer.codecs.values()):
            self.end_lane(codec)
        peer.write_buffer.discard()
        fresh = self.peers[choice] = Peer()
        for number in (1, 2):
            fresh.codecs[number] = ChannelCodec(fresh, number)

    def end_lane(self, codec: ChannelCodec) -> None:
        for paging_context in self.shelves:
            paging_context.consumers = [taker for taker in paging_context.consumers if taker.codec is not codec]
        for tag in list(codec.held):
            self.put_away(codec.held.pop(tag), REQUEUED)
        codec.channel_session.release()
        assert codec.real.unacked.count == codec.real.held_count == codec.real.held_bytes == 0
        codec.peer.core.drop_channel(codec.number)
        codec.peer.codecs[codec.number] = ChannelCodec(codec.peer, codec.number)
        self.look()

    @rule(choice=st.integers(0, 1), share=st.sampled_from([0.01, 0.5, 0.8, 0.97, 1.0]), pieces=st.integers(1, 64))
    def drain(self, choice: int, share: float, pieces: int) -> None:
        """The client's socket takes some of what waits for it."""
        peer = self.peers[choice]
        left = int(peer.write_buffer.pending() * share)
        while left > 0:
            count = min(left, sum(map(len, peer.write_buffer.views(pieces))))
            peer.write_buffer.sent(count)
            peer.sent += count
            left -= count
        if peer.congested and peer.write_buffer.pending() < CALM_BYTES:
            peer.congested = False
            assert peer.write_buffer.calm_down()
            peer.core.calm()
        else:
            assert not peer.write_buffer.calm_down()
        self.look()

    # ---- what came of it

    def look(self, getting: tuple[PagingContext, bool] | None = None) -> None:
        """Reads all that was delivered in this step, judges it, and compares every count."""
        served: dict[PagingContext, list[tuple[Note, Taker | None]]] = {
            paging_context: [] for paging_context in self.shelves
        }
        for peer in self.peers:
            for method, size in with_sizes(peer.news()):
                paging_context, note, taker = self.accept(peer, method, getting)
                served[paging_context].append((note, taker))
                peer.judged += size
                if peer.judged - peer.sent > CONGESTED_BYTES:
                    peer.congested = True
        for paging_context, deliveries in served.items():
            deliveries.sort(key=lambda pair: pair[0].number)
            handed_out = [note for note, _ in deliveries]
            assert handed_out == paging_context.ready[: len(handed_out)], (
                "not the oldest were handed out, or one of them twice"
            )
            del paging_context.ready[: len(handed_out)]
            self.judge_turns(paging_context, [taker for _, taker in deliveries if taker is not None])
        self.compare()

    def accept(
        self, peer: Peer, method: Method, getting: tuple[PagingContext, bool] | None
    ) -> tuple[PagingContext, Note, Taker | None]:
        """One delivery: to the right consumer, within its limits, with the next tag and the right flag."""
        codec = peer.codecs[method.channel]
        note = self.notes[struct.unpack(">Q", method.body[:8])[0]]
        assert method.body == note.body()
        assert all(size <= FRAME_MAX - 8 for size in method.body_frame_sizes)
        codec.last_tag += 1
        assert method["delivery_tag"] == codec.last_tag
        assert method["redelivered"] == note.returned, note.number
        taker = None
        if method.name == "basic.get-ok":
            assert getting is not None
            paging_context, no_ack = getting
            assert method["message_count"] == len(paging_context.ready) - 1
        else:
            taker = next(taker for taker in self.takers() if taker.tag == method["consumer_tag"])
            assert taker.codec is codec
            assert taker.can_take(), f"{taker.tag} was full, stopped, or standing by"
            paging_context, no_ack = taker.paging_context, taker.no_ack
        assert note in paging_context.ready
        if not no_ack:
            codec.held[codec.last_tag] = Held(note, paging_context, taker)
        return paging_context, note, taker

    def judge_turns(self, paging_context: PagingContext, served: list[Taker]) -> None:
        """Who could still take after the step could take all through it: deliveries only ever fill people up."""
        willing = [taker for taker in paging_context.consumers if taker.can_take()]
        assert not (paging_context.ready and willing), (
            f"{len(paging_context.ready)} messages wait although {willing[0].tag} could take"
        )
        for taker in served:
            taker.passed_by.clear()
            for other in willing:
                assert other.priority <= taker.priority, f"{taker.tag} came before {other.tag} of a higher priority"
                if other is not taker and other.priority == taker.priority:
                    assert taker not in other.passed_by, f"{taker.tag} had two turns while {other.tag} waited for one"
                    other.passed_by.add(taker)
        for taker in paging_context.consumers:
            if taker not in willing:
                taker.passed_by.clear()

    def compare(self) -> None:
        codecs = self.codecs()
        for paging_context in self.shelves:
            out = [held for codec in codecs for held in codec.held.values() if held.paging_context is paging_context]
            queue: Any = paging_context.queue
            assert [entry.message.body for entry in queue.ready_entries()] == [
                note.body() for note in paging_context.ready
            ]
            assert (queue.ready_count(), queue.ready_bytes()) == sizes(paging_context.ready)
            assert (queue.unacked_count, queue.unacked_bytes) == sizes([held.note for held in out])
            gone = queue.settled_total + queue.discarded_total
            assert queue.published_total == paging_context.published == len(paging_context.ready) + len(out) + gone
            assert queue.subscriber_count() == len(paging_context.consumers)
            for taker in paging_context.consumers:
                assert taker.real.active == taker.active()
                mine = sizes([held.note for held in taker.held()])
                assert (taker.real.unacked_count, taker.real.unacked_bytes) == mine
        for codec in codecs:
            assert [entry.tag for entry in codec.real.unacked.entries()] == sorted(codec.held)
            metered = [held.note for held in codec.held.values() if held.taker is not None]
            assert (codec.real.held_count, codec.real.held_bytes) == sizes(metered)
            assert codec.peer.write_buffer.congested == codec.peer.congested


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
