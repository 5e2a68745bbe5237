"""What people and programs ask of a stream beside its messages: which offsets it has, where a moment is, how far a
consumer has come."""

from __future__ import annotations

from dataclasses import dataclass

from leveret.auth.access import READ
from leveret.broker.broker import Broker
from leveret.broker.topology import Requester, Topology, queue_text
from leveret.core.codec.names import NAME_OCTETS_MAX, name_octets
from leveret.core.stream.queue import StreamQueue
from leveret.errors import SoftError
from leveret.queues.stream_offset import LAST, NEXT, Start, read_start

OFFSET_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class StreamView:
    """`committed_offset` is behind the last message that is safe on disk, which is the last that consumers see."""

    first_offset: int
    committed_offset: int
    next_offset: int
    first_stamp_ms: int
    last_stamp_ms: int
    segments: int
    size_bytes: int
    consumers: int
    # By name: how far consumers have come, and the last id of producers.
    stored_offsets: dict[str, int]
    # And how many messages there are behind that.
    stored_lags: dict[str, int]
    producer_ids: dict[str, int]


def text(name: bytes) -> str:
    return name.decode("utf-8", "replace")


class StreamService:
    def __init__(self, broker: Broker, topology: Topology) -> None:
        self._broker = broker
        self._topology = topology

    def find(self, who: Requester, name: str) -> StreamQueue:
        queue = self._topology.find_queue(who, name)
        if not isinstance(queue, StreamQueue):
            raise SoftError(406, f"{queue_text(who.vhost.name, name)} is not a stream")
        return queue

    # ---- where something is

    async def locate(self, stream: StreamQueue, start: Start) -> int:
        """The offset at which somebody who asks for this starts."""
        offset = self.locate_now(stream, start)
        if offset is not None:
            return offset
        assert self._broker.store is not None
        found: int = await self._broker.store.streams.offset_since(stream.log, start.value)
        return found

    @staticmethod
    def locate_now(stream: StreamQueue, start: Start) -> int | None:
        """The same if it is known without looking into files, else None."""
        first: int = stream.first_offset
        if start.what == "offset":
            return max(start.value, first)
        if start.what == LAST:
            # Which may be on its way to disk: whoever has just published it means this one.
            return max(first, int(stream.next_offset) - 1)
        if start.what == NEXT:
            following: int = stream.next_offset
            return following
        if start.what == "since":
            return None
        return first

    async def offset_at(self, who: Requester, name: str, when: object) -> int:
        """Where a consumer with this x-stream-offset would start."""
        who.access.check_queue(READ, name)
        stream = self.find(who, name)
        self._broker.tick()
        return await self.locate(stream, read_start(when, self._broker.office.now, queue_text(who.vhost.name, name)))

    def view(self, who: Requester, name: str) -> StreamView:
        who.access.check_queue(READ, name)
        stream = self.find(who, name)
        log = stream.log
        return StreamView(
            log.first_offset(),
            log.committed_offset,
            log.next_offset,
            log.segments[0].first_stamp if log.segments else 0,
            log.last_stamp,
            len(log.segments),
            log.size_bytes(),
            stream.subscriber_count(),
            {text(consumer): offset for consumer, offset in log.tracking.consumers.items()},
            {text(consumer): lag for consumer, lag in stream.stored_lags().items()},
            {text(producer): last for producer, last in log.tracking.producers.items()},
        )

    # ---- how far consumers have come

    def stored_offset(self, who: Requester, name: str, consumer: str) -> int | None:
        """The last offset that this consumer is done with; None if it has none."""
        who.access.check_queue(READ, name)
        offset: int = self.find(who, name).stored_offset(self._name(consumer))
        return None if offset < 0 else offset

    def store_offset(self, who: Requester, name: str, consumer: str, offset: int) -> None:
        """From now on a consumer of this name goes on behind this offset. It is durable after the next flush."""
        who.access.check_queue(READ, name)
        stream = self.find(who, name)
        if not 0 <= offset <= OFFSET_MAX:
            raise SoftError(406, f"{offset} is no offset of a stream")
        stream.store_offset(self._name(consumer), offset)

    def forget_offset(self, who: Requester, name: str, consumer: str) -> bool:
        """The consumer begins anew the next time; whether it had an offset. It is durable after the next flush."""
        who.access.check_queue(READ, name)
        return bool(self.find(who, name).forget_offset(self._name(consumer)))

    @staticmethod
    def _name(consumer: str) -> bytes:
        octets = name_octets(consumer)
        if not 0 < len(octets) <= NAME_OCTETS_MAX:
            raise SoftError(406, f"the name of a consumer has 1 to {NAME_OCTETS_MAX} octets")
        return octets
