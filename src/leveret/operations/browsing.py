"""Looking at messages without taking them: what is ready in a queue, what consumers hold of it, what a stream has.

Changes nothing: neither order nor counters nor marks of redelivery. What is on disk is read in passing, a megabyte at a
time, so that neither memory nor other readers feel it. Who may see payloads is decided here: it takes READ on the
queue, like consuming from it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

from leveret.auth.access import READ
from leveret.broker.broker import Broker
from leveret.broker.streams import StreamService
from leveret.broker.topology import Requester, check_owner, queue_text
from leveret.core.codec.message import new_message, shown
from leveret.core.codec.names import name_octets
from leveret.core.codec.properties import parse_properties
from leveret.core.connection.consumer import Consumer
from leveret.core.queue.classic_queue import ClassicQueue
from leveret.core.queue.contract import Queue
from leveret.core.queue.glance import Reading, glance, glance_after, glance_at, returned_count
from leveret.core.stream.entries import Expansion
from leveret.core.stream.queue import StreamQueue
from leveret.errors import SoftError
from leveret.operations.http_leases import HttpLeases
from leveret.queues.stream_offset import Start, read_start

COUNT_MAX = 1000
# Among messages that came back the way to an offset grows with it.
RETURNED_OFFSET_MAX = 20_000
# To find those behind a position, all that came back are looked at.
RETURNED_LOOK_MAX = 1_000_000
READ_DEADLINE_S = 10.0
# Entries of unacked lists that are looked at before others have their turn.
LOOKED_A_TURN = 2048
# Messages of a sub-batch, or steps of decompressing it, before others have their turn.
EXPANDED_A_TURN = 32
ENTRY_HEAD_BYTES = 40
FOREIGN = 1 | 2
NOT_READY = "only queues have messages that are ready; a stream is read by its offsets"


@dataclass(frozen=True, slots=True)
class Seen:
    """One message as it was a moment ago. `place` is its position in the queue, or its offset in the stream; `stamp_ms`
    when it arrived."""

    place: int
    message: Any
    body: bytes
    body_size: int
    redelivered: bool
    delivery_count: int
    stamp_ms: int


@dataclass(frozen=True, slots=True)
class Held:
    """Who holds a message that is not acknowledged. `channel` is the channel's name, or empty for a lease over HTTP,
    which ends by itself at `lease_expires_ms`. `since_ms` is when it was handed out, as far as that is known."""

    entry: Any
    consumer_tag: str
    channel: str
    user: str
    delivery_tag: int
    since_ms: int | None
    lease_expires_ms: int | None


class Browsing:
    def __init__(self, broker: Broker, streams: StreamService, http_leases: HttpLeases) -> None:
        self._broker = broker
        self._streams = streams
        self._http_leases = http_leases

    def find(self, who: Requester, name: str) -> Queue:
        """The queue, if it may be read from; not one that belongs to another connection alone."""
        who.access.check_queue(READ, name)
        found = self.known(who, name)
        check_owner(who, found.record)
        return found

    @staticmethod
    def known(who: Requester, name: str) -> Queue:
        """The queue, for callers that need no permission to read it."""
        found: Queue | None = who.vhost.queues.get(name_octets(name))
        if found is None:
            raise SoftError(404, f"no {queue_text(who.vhost.name, name)}")
        return found

    # ---- what is ready

    async def ready(self, queue: Queue, offset: int, count: int) -> AsyncIterator[Seen]:
        """Messages in the order of delivery. Those that leave meanwhile are left out."""
        if not isinstance(queue, ClassicQueue):
            raise SoftError(406, NOT_READY)
        if RETURNED_OFFSET_MAX < offset < returned_count(queue):
            raise SoftError(406, f"among messages that came back offsets up to {RETURNED_OFFSET_MAX} can be looked at")
        async for seen in self._read(queue, glance(queue, offset, count)):
            yield seen

    async def ready_after(self, queue: Queue, position: int, count: int) -> AsyncIterator[Seen]:
        """Messages behind a position, in the order of positions. Page by page, each going on behind the last position
        of the one before, what stays in the queue is seen once. No message comes only if there is none behind it."""
        if not isinstance(queue, ClassicQueue):
            raise SoftError(406, NOT_READY)
        if returned_count(queue) > RETURNED_LOOK_MAX:
            raise SoftError(406, f"more than {RETURNED_LOOK_MAX} messages came back: too many to go by position")
        while glances := glance_after(queue, position, count):
            position = glances[-1].position
            found = False
            async for seen in self._read(queue, glances):
                found = True
                yield seen
            if found:
                return

    async def _read(self, queue: ClassicQueue, glances: list[Any]) -> AsyncIterator[Seen]:
        """With their bodies, which may have to come from disk."""
        missing = [seen for seen in glances if seen.body is None]
        reading: Reading | None = None
        arrived = asyncio.Event()
        if missing:
            reading = Reading(queue, missing, arrived.set)
        for seen in glances:
            while seen.body is None and reading is not None and not reading.is_over():
                await self._read_more(reading, arrived)
            if seen.body is not None:
                yield _seen(seen)
            # Not held until the last one is sent.
            seen.drop()

    async def _read_more(self, reading: Reading, arrived: asyncio.Event) -> None:
        assert self._broker.store is not None
        arrived.clear()
        self._broker.store.read(reading)
        try:
            await asyncio.wait_for(arrived.wait(), READ_DEADLINE_S)
        except TimeoutError:
            raise SoftError(541, "the disk did not answer in time") from None

    # ---- what is held

    async def held(self, queue: Queue) -> AsyncIterator[Held]:
        """Everything that was delivered and not acknowledged, by channel in the order of delivery; leases last."""
        looked = 0
        for connection in list(self._broker.connections.values()):
            for channel in list(connection.channels()):
                looked += 1 + channel.unacked_count
                if looked > LOOKED_A_TURN:
                    looked = 0
                    await asyncio.sleep(0)
                for entry in channel.core.unacked.entries() if channel.unacked_count else ():
                    if entry.holder is not None and entry.holder.queue is queue:
                        yield _held_by(entry, channel, connection.user)
        for hand, lease, entry in self._http_leases.held(queue):
            yield Held(entry, "", "", hand.identity.name, lease.tag, lease.since_ms, lease.expires_ms)

    async def unacked(self, queue: Queue, offset: int, count: int) -> AsyncIterator[tuple[Held, Seen]]:
        """The same with the messages."""
        if not isinstance(queue, ClassicQueue):
            raise SoftError(406, "unacknowledged messages of a stream cannot be listed: a stream keeps its messages")
        found: list[Held] = []
        async for held in self.held(queue):
            if offset > 0:
                offset -= 1
            elif len(found) < count:
                found.append(held)
        glances = [glance_at(held.entry) for held in found]
        by_position = {held.entry.position: held for held in found}
        async for seen in self._read(queue, glances):
            yield by_position[seen.place], seen

    # ---- streams

    async def stream(self, queue: StreamQueue, start: Any, count: int) -> AsyncIterator[Seen]:
        """From this offset, moment or word (see x-stream-offset) on, up to what is safe on disk now."""
        begin: Start = read_start(start, self._broker.clock.now_ms(), queue_text(queue.record.vhost, queue.record.name))
        offset = await self._streams.locate(queue, begin)
        end: int = queue.committed_offset
        ready = asyncio.Event()
        cursor = queue.open_cursor(_Waker(ready), offset)
        try:
            while count > 0 and cursor.offset < end:
                ready.clear()
                if not cursor.ready():
                    try:
                        await asyncio.wait_for(ready.wait(), READ_DEADLINE_S)
                    except TimeoutError:
                        raise SoftError(541, "the disk did not answer in time") from None
                    continue
                entries = _entries(cursor.data, cursor.at, max(offset, cursor.offset))
                cursor.step()
                for steps, seen in enumerate(entries, 1):
                    if seen is not None:
                        yield seen
                        count -= 1
                        if count == 0:
                            break
                    if steps % EXPANDED_A_TURN == 0:
                        await asyncio.sleep(0)
        finally:
            cursor.close()


class _Waker:
    """The owner of a cursor: sets an event when the cursor is ready."""

    def __init__(self, ready: asyncio.Event) -> None:
        self._ready = ready

    def cursor_ready(self) -> None:
        self._ready.set()


def _seen(found: Any) -> Seen:
    message = found.message
    if message.properties.has_bcc:
        message = shown(message)
    return Seen(
        found.position,
        message,
        found.body,
        found.body_size,
        found.seen,
        found.delivery_count,
        found.message.stamp,
    )


def _held_by(entry: Any, channel: Any, user: str) -> Held:
    holder = entry.holder
    tag = holder.tag.decode("utf-8", "replace") if isinstance(holder, Consumer) else ""
    return Held(entry, tag, channel.name, user, entry.tag, None, None)


def _entries(data: bytearray, at: int, first: int) -> Iterator[Seen | None]:
    """The messages of the record at data[at], from this offset on; None after some work that gave none."""
    if data[at + 17] & FOREIGN:
        for found in Expansion(data, at).messages(first):
            if found is None:
                yield None
            else:
                offset, message = found
                yield Seen(offset, message, message.body, message.body_size, False, 0, message.stamp)
        return
    head = ENTRY_HEAD_BYTES + at
    address_end = head + int.from_bytes(data[at + 18 : at + 20], "big")
    body_at = address_end + int.from_bytes(data[at + 24 : at + 28], "big")
    size = int.from_bytes(data[at + 28 : at + 32], "big")
    key_at = head + 1 + data[head]
    body = bytes(data[body_at : body_at + size])
    message = new_message(
        bytes(data[head + 1 : key_at]),
        bytes(data[key_at + 1 : address_end]),
        parse_properties(bytes(data[address_end:body_at])),
        body,
    )
    if message.properties.has_bcc:
        message = shown(message)
    stamp = int.from_bytes(data[at + 32 : at + 40], "big")
    yield Seen(int.from_bytes(data[at + 8 : at + 16], "big"), message, body, size, False, 0, stamp)
