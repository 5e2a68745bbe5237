"""basic.consume on a stream: its own arguments, where the consumer starts, and the end of a range.

x-stream-offset             where it starts: first, last, next, an offset, a moment (ISO 8601, too), or how long ago
x-stream-stop-offset        it ends before this offset, with basic.cancel
x-stream-filter             a filter value or several: only messages with one of them
x-stream-match-unfiltered   and those that have none
x-stream-consumer-name      what it acknowledges is remembered under this name, and it goes on there the next time
x-single-active-consumer    of all consumers with its name only one gets messages; of the partitions of a super stream
                            each of them has its share
x-stream-timestamps         each message says in x-stream-timestamp when it came, in milliseconds since 1970
x-stream-query              no messages, but one answer: which offsets there are, and where it would start
x-stream-id                 it reads the stream with this id alone, and not another one that has its name since
x-stream-store-offset       before it is answered: the consumer of this name is done with everything up to here
x-stream-producers          the answer has a body: producers whose names begin so, with their last ids, as JSON"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, TypeVar

from leveret.broker.stream_groups import GroupKey
from leveret.broker.streams import OFFSET_MAX, StreamService, text
from leveret.broker.super_streams import SuperStreams
from leveret.broker.topology import queue_text
from leveret.catalog import arguments as check
from leveret.core.codec.field_types import Int64
from leveret.core.codec.message import new_message
from leveret.core.codec.names import name_octets
from leveret.core.codec.properties import encode_properties, parse_properties
from leveret.core.connection.consumer import Consumer
from leveret.core.stream.consumer import StreamConsumer
from leveret.core.stream.queue import StreamQueue, octets_of
from leveret.core.stream.segment import make_bloom
from leveret.errors import HardError, SoftError
from leveret.queues.stream_offset import ARGUMENT, Start, read_start
from leveret.session.channel import ChannelSession
from leveret.wire.basic_methods import BasicConsume, BasicConsumeOk

STOP = "x-stream-stop-offset"
FILTER = "x-stream-filter"
UNFILTERED = "x-stream-match-unfiltered"
NAME = "x-stream-consumer-name"
QUERY = "x-stream-query"
STAMPS = "x-stream-timestamps"
STORE = "x-stream-store-offset"
IDENTITY = "x-stream-id"
PRODUCERS = "x-stream-producers"
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


Checked = TypeVar("Checked")

CHECKS: dict[str, check.Check] = {
    STOP: check.non_negative,
    FILTER: _filter_values,
    UNFILTERED: check.boolean,
    NAME: _name,
    QUERY: check.boolean,
    SINGLE_ACTIVE: check.boolean,
    STAMPS: check.boolean,
    STORE: _offset,
    IDENTITY: _name,
    PRODUCERS: _name,
}


def _checked(value: object, kind: type[Checked]) -> Checked:
    """A value of which CHECKS have said that it is of this type."""
    assert isinstance(value, kind)
    return value


def consume_stream(channel_session: ChannelSession, method: BasicConsume, stream: StreamQueue, tag: str) -> None:
    what = queue_text(channel_session.vhost.name, stream.record.name)
    arguments = method.arguments
    start = read_start(arguments.get(ARGUMENT), channel_session.session.broker.office.now, what)
    for name in REFUSED:
        if name in arguments:
            raise SoftError(406, f"invalid arg '{name}' for {what} of queue type rabbit_stream_queue")
    for name, checker in CHECKS.items():
        if name in arguments and (reason := checker(arguments[name])) is not None:
            raise SoftError(406, f"invalid arg '{name}' for {what}: {reason}")
    identity = stream.record.identity
    if (wanted := arguments.get(IDENTITY, identity)) != identity:
        raise SoftError(
            406,
            f"{what} has the {IDENTITY} {identity!r}, and {wanted!r} is asked for: it was deleted and made anew",
        )
    if STORE in arguments:
        _store(method, stream, what)
    if PRODUCERS in arguments and not arguments.get(QUERY):
        raise SoftError(406, f"invalid arg '{PRODUCERS}' for {what}: it takes {QUERY}")
    if arguments.get(QUERY):
        _answer(channel_session, method, stream, tag, start)
        return
    if channel_session.prefetch_count == 0:
        raise SoftError(406, f"consumer prefetch count is not set for '{what}'")
    if channel_session.core.prefetch_count or channel_session.core.prefetch_bytes:
        raise HardError(540, f"{what} does not support global qos")
    if method.no_ack:
        raise HardError(540, stream.refusal("automatic acknowledgement"))
    if arguments.get(SINGLE_ACTIVE) and NAME not in arguments:
        raise SoftError(
            406, f"invalid arg '{SINGLE_ACTIVE}' for {what}: it takes {NAME}, by which consumers are one group"
        )
    consumer = _make_consumer(channel_session, method, stream, tag)
    stream.subscribe(consumer)
    reading = Reading(channel_session, stream, consumer, start)
    if arguments.get(SINGLE_ACTIVE):
        reading.join()
    else:
        reading.activate()


class Reading:
    """A consumer at its place in the stream; as a member of a group, when it is its turn."""

    def __init__(
        self, channel_session: ChannelSession, stream: StreamQueue, consumer: StreamConsumer, start: Start
    ) -> None:
        self._channel_session = channel_session
        self._stream = stream
        self._consumer = consumer
        self._start = start
        # One more with every turn: what an earlier one still looks up no longer counts.
        self._turn = 0

    def join(self) -> None:
        broker = self._channel_session.session.broker
        record = self._stream.record
        partition = SuperStreams(broker).of_stream(record.vhost, record.name)
        index = None if partition is None else partition.index
        key = GroupKey(record.vhost, record.name, text(_checked(self._consumer.name, bytes)), index)
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

        _begin(self._channel_session, self._stream, start, begin)

    def deactivate(self, done: Callable[[], None]) -> None:
        self._turn += 1
        self._consumer.drain(done)


def _make_consumer(
    channel_session: ChannelSession, method: BasicConsume, stream: StreamQueue, tag: str
) -> StreamConsumer:
    arguments = method.arguments
    octets = name_octets(tag)
    consumer = StreamConsumer(
        channel_session.core, stream, octets, channel_session.prefetch_count, channel_session.prefetch_bytes, arguments
    )
    if STOP in arguments:
        consumer.stop_offset = _checked(arguments[STOP], int)
        consumer.on_stop = lambda ended: channel_session.consumer_lost(ended.tag)
    if FILTER in arguments:
        wanted = arguments[FILTER]
        values = [_checked(octets_of(one), bytes) for one in (wanted if isinstance(wanted, list) else [wanted])]
        consumer.values = frozenset(values)
        consumer.blooms = [make_bloom(value) for value in values]
        consumer.unfiltered = _checked(arguments.get(UNFILTERED, False), bool)
    consumer.name = octets_of(arguments.get(NAME))
    consumer.stamped = _checked(arguments.get(STAMPS, False), bool)
    channel_session.add_consumer(consumer)
    if not method.nowait:
        channel_session.send(BasicConsumeOk(tag))
    return consumer


def _begin(channel_session: ChannelSession, stream: StreamQueue, start: Start, begin: Callable[[int], None]) -> None:
    """Calls `begin` with the offset, later if that must be looked up on disk."""
    service = StreamService(channel_session.session.broker, channel_session.session.topology)
    offset = service.locate_now(stream, start)
    if offset is not None:
        begin(offset)
        return
    session = channel_session.session

    def located(task: asyncio.Task[int]) -> None:
        if not task.cancelled() and not session.gone and not stream.deleted and channel_session.is_open:
            begin(task.result())
            session.broker.kick()

    session.board.loop.create_task(service.locate(stream, start)).add_done_callback(located)


def _store(method: BasicConsume, stream: StreamQueue, what: str) -> None:
    """What acks would say, for a reader that keeps its place elsewhere and only tells how far it is."""
    arguments = method.arguments
    if NAME not in arguments or not arguments.get(QUERY):
        raise SoftError(406, f"invalid arg '{STORE}' for {what}: it takes {QUERY}, and {NAME} for whom it is stored")
    stream.store_offset(_checked(octets_of(arguments[NAME]), bytes), _checked(arguments[STORE], int))


def _answer(channel_session: ChannelSession, method: BasicConsume, stream: StreamQueue, tag: str, start: Start) -> None:
    """One message, which says in its headers what there is, and in its body which producers, if that was asked for;
    then the consumer ends."""
    octets = name_octets(tag)
    asking = Consumer(channel_session.core, stream, octets, True, False, 0, 0, 0, method.arguments)
    channel_session.add_consumer(asking)
    if not method.nowait:
        channel_session.send(BasicConsumeOk(tag))

    prefix = octets_of(method.arguments.get(PRODUCERS))
    body = b"" if prefix is None else _producers(stream, prefix)

    def answer(offset: int) -> None:
        if channel_session.core.consumers.get(octets) is not asking:
            # Cancelled while it was looked up.
            return
        headers = {
            "x-stream-offset": Int64(offset),
            "x-stream-first-offset": Int64(stream.first_offset),
            "x-stream-committed-offset": Int64(stream.committed_offset),
            "x-stream-last-offset": Int64(stream.committed_offset - 1),
            IDENTITY: stream.record.identity,
        }
        name = octets_of(method.arguments.get(NAME))
        if name is not None and (stored := stream.stored_offset(name)) >= 0:
            headers["x-stream-stored-offset"] = Int64(stored)
        properties = parse_properties(encode_properties(headers=headers))
        asking.hand(new_message(b"", stream.name, properties, body), False)
        channel_session.consumer_lost(octets)

    if prefix is None:
        _begin(channel_session, stream, start, answer)
    else:
        _when_safe(channel_session, stream, lambda: _begin(channel_session, stream, start, answer))


def _producers(stream: StreamQueue, prefix: bytes) -> bytes:
    found = stream.log.tracking.producers_with(prefix)
    return json.dumps({text(name): last for name, last in found.items()}).encode()


def _when_safe(channel_session: ChannelSession, stream: StreamQueue, then: Callable[[], None]) -> None:
    """When all that the stream has taken is on disk: an id that a crash takes back must not be told."""
    session = channel_session.session
    store = session.broker.store
    if store is None:
        then()
        return

    def synced(task: asyncio.Task[None]) -> None:
        # Without an answer if the disk has failed: the node stops then.
        failed = task.cancelled() or task.exception() is not None
        if not failed and not session.gone and not stream.deleted and channel_session.is_open:
            then()
            session.broker.kick()

    session.board.loop.create_task(store.flush()).add_done_callback(synced)
