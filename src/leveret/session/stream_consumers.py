"""basic.consume on a stream: its own arguments, where the consumer starts, and the end of a range.

x-stream-offset             where it starts: first, last, next, an offset, a timestamp, or how long ago
x-stream-stop-offset        it ends before this offset, with basic.cancel
x-stream-filter             a filter value or several: only messages with one of them
x-stream-match-unfiltered   and those that have none
x-stream-consumer-name      what it acknowledges is remembered under this name, and it goes on there the next time
x-single-active-consumer    of all consumers with its name only one gets messages; of the partitions of a super stream
                            each of them has its share
x-stream-timestamps         each message says in x-stream-timestamp when it came, in milliseconds since 1970
x-stream-query              no messages, but one answer: which offsets there are, and where it would start
x-stream-store-offset       before it is answered: the consumer of this name is done with everything up to here"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from leveret.broker.stream_groups import GroupKey
from leveret.broker.streams import OFFSET_MAX, StreamService, text
from leveret.broker.super_streams import SuperStreams
from leveret.broker.topology import queue_text
from leveret.catalog import arguments as check
from leveret.core.consumer import Consumer
from leveret.core.field_types import Int64
from leveret.core.message import new_message
from leveret.core.properties import encode_properties, parse_properties
from leveret.core.stream.consumer import StreamConsumer
from leveret.core.stream.queue import StreamQueue, octets_of
from leveret.core.stream.segment import make_bloom
from leveret.errors import HardError, SoftError
from leveret.queues.stream_offset import ARGUMENT, Start, read_start
from leveret.session.channel import ChannelDesk
from leveret.wire.basic_methods import BasicConsume, BasicConsumeOk

STOP = "x-stream-stop-offset"
FILTER = "x-stream-filter"
UNFILTERED = "x-stream-match-unfiltered"
NAME = "x-stream-consumer-name"
QUERY = "x-stream-query"
STAMPS = "x-stream-timestamps"
STORE = "x-stream-store-offset"
SINGLE_ACTIVE = "x-single-active-consumer"
# What RabbitMQ's streams refuse, whatever the value.
REFUSED = ("x-priority", "x-cancel-on-ha-failover")
FILTER_VALUES_MAX = 64


def _filter_values(value: Any) -> str | None:
    values = value if isinstance(value, list) else [value]
    if not values or len(values) > FILTER_VALUES_MAX or any(octets_of(item) is None for item in values):
        return f'"expected a text of 1 to 255 octets, or up to {FILTER_VALUES_MAX} of them"'
    return None


def _name(value: Any) -> str | None:
    return None if octets_of(value) is not None else '"expected a text of 1 to 255 octets"'


def _offset(value: Any) -> str | None:
    return check.non_negative(value) or (
        None if value <= OFFSET_MAX else f'"expected an offset of at most {OFFSET_MAX}"'
    )


CHECKS: dict[str, check.Check] = {
    STOP: check.non_negative,
    FILTER: _filter_values,
    UNFILTERED: check.boolean,
    NAME: _name,
    QUERY: check.boolean,
    SINGLE_ACTIVE: check.boolean,
    STAMPS: check.boolean,
    STORE: _offset,
}


def consume_stream(desk: ChannelDesk, method: BasicConsume, stream: StreamQueue, tag: str) -> None:
    what = queue_text(desk.vhost.name, stream.record.name)
    arguments = method.arguments
    start = read_start(arguments.get(ARGUMENT), desk.session.broker.office.now, what)
    for name in REFUSED:
        if name in arguments:
            raise SoftError(406, f"invalid arg '{name}' for {what} of queue type rabbit_stream_queue")
    for name, checker in CHECKS.items():
        if name in arguments and (reason := checker(arguments[name])) is not None:
            raise SoftError(406, f"invalid arg '{name}' for {what}: {reason}")
    if STORE in arguments:
        _store(method, stream, what)
    if arguments.get(QUERY):
        _answer(desk, method, stream, tag, start)
        return
    if desk.prefetch_count == 0:
        raise SoftError(406, f"consumer prefetch count is not set for '{what}'")
    if desk.core.prefetch_count or desk.core.prefetch_bytes:
        raise HardError(540, f"{what} does not support global qos")
    if method.no_ack:
        raise HardError(540, stream.refusal("automatic acknowledgement"))
    if arguments.get(SINGLE_ACTIVE) and NAME not in arguments:
        raise SoftError(
            406, f"invalid arg '{SINGLE_ACTIVE}' for {what}: it takes {NAME}, by which consumers are one group"
        )
    consumer = _make_consumer(desk, method, stream, tag)
    stream.subscribe(consumer)
    reading = Reading(desk, stream, consumer, start)
    if arguments.get(SINGLE_ACTIVE):
        reading.join()
    else:
        reading.activate()


class Reading:
    """A consumer at its place in the stream; as a member of a group, when it is its turn."""

    def __init__(self, desk: ChannelDesk, stream: StreamQueue, consumer: StreamConsumer, start: Start) -> None:
        self._desk = desk
        self._stream = stream
        self._consumer = consumer
        self._start = start
        # One more with every turn: what an earlier one still looks up no longer counts.
        self._turn = 0

    def join(self) -> None:
        broker = self._desk.session.broker
        record = self._stream.record
        partition = SuperStreams(broker).of_stream(record.vhost, record.name)
        index = None if partition is None else partition.index
        key = GroupKey(record.vhost, record.name, text(self._consumer.name), index)
        self._consumer.on_gone = lambda: broker.stream_groups.leave(key, self)
        broker.stream_groups.join(key, self)

    def activate(self) -> None:
        start = self._start
        name = self._consumer.name
        if name is not None and (stored := self._stream.stored_offset(name)) >= 0:
            # It has been here before, or another of its group: it goes on behind what is done with.
            start = Start("offset", stored + 1)
        self._turn += 1
        turn = self._turn

        def begin(offset: int) -> None:
            if turn == self._turn:
                self._consumer.begin(offset)

        _begin(self._desk, self._stream, start, begin)

    def deactivate(self, done: Callable[[], None]) -> None:
        self._turn += 1
        self._consumer.drain(done)


def _make_consumer(desk: ChannelDesk, method: BasicConsume, stream: StreamQueue, tag: str) -> StreamConsumer:
    arguments = method.arguments
    octets = tag.encode("utf-8", "surrogateescape")
    consumer = StreamConsumer(desk.core, stream, octets, desk.prefetch_count, desk.prefetch_bytes, arguments)
    if STOP in arguments:
        consumer.stop_offset = arguments[STOP]
        consumer.on_stop = lambda ended: desk.consumer_lost(ended.tag)
    if FILTER in arguments:
        wanted = arguments[FILTER]
        values = [octets_of(value) for value in (wanted if isinstance(wanted, list) else [wanted])]
        consumer.values = frozenset(values)
        consumer.blooms = [make_bloom(value) for value in values]
        consumer.unfiltered = arguments.get(UNFILTERED, False)
    consumer.name = octets_of(arguments.get(NAME))
    consumer.stamped = arguments.get(STAMPS, False)
    desk.core.add_consumer(consumer)
    if not method.nowait:
        desk.send(BasicConsumeOk(tag))
    return consumer


def _begin(desk: ChannelDesk, stream: StreamQueue, start: Start, begin: Callable[[int], None]) -> None:
    """Calls `begin` with the offset, later if that must be looked up on disk."""
    service = StreamService(desk.session.broker, desk.session.topology)
    offset = service.locate_now(stream, start)
    if offset is not None:
        begin(offset)
        return
    session = desk.session

    def located(task: asyncio.Task[int]) -> None:
        if not task.cancelled() and not session.gone and not stream.deleted and desk.is_open:
            begin(task.result())
            session.broker.kick()

    session.board.loop.create_task(service.locate(stream, start)).add_done_callback(located)


def _store(method: BasicConsume, stream: StreamQueue, what: str) -> None:
    """What acks would say, for a reader that keeps its place elsewhere and only tells how far it is."""
    arguments = method.arguments
    if NAME not in arguments or not arguments.get(QUERY):
        raise SoftError(406, f"invalid arg '{STORE}' for {what}: it takes {QUERY}, and {NAME} for whom it is stored")
    stream.store_offset(octets_of(arguments[NAME]), arguments[STORE])


def _answer(desk: ChannelDesk, method: BasicConsume, stream: StreamQueue, tag: str, start: Start) -> None:
    """One message without a body, which says in its headers what there is; then the consumer ends."""
    octets = tag.encode("utf-8", "surrogateescape")
    asking = Consumer(desk.core, stream, octets, True, False, 0, 0, 0, method.arguments)
    desk.core.add_consumer(asking)
    if not method.nowait:
        desk.send(BasicConsumeOk(tag))

    def answer(offset: int) -> None:
        if desk.core.consumers.get(octets) is not asking:
            # Cancelled while it was looked up.
            return
        headers = {
            "x-stream-offset": Int64(offset),
            "x-stream-first-offset": Int64(stream.first_offset),
            "x-stream-committed-offset": Int64(stream.committed_offset),
            "x-stream-last-offset": Int64(stream.committed_offset - 1),
        }
        name = octets_of(method.arguments.get(NAME))
        if name is not None and (stored := stream.stored_offset(name)) >= 0:
            headers["x-stream-stored-offset"] = Int64(stored)
        properties = parse_properties(encode_properties(headers=headers))
        asking.hand(new_message(b"", stream.name, properties, b""), False)
        desk.consumer_lost(octets)

    _begin(desk, stream, start, answer)
