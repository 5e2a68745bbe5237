"""Class basic without its data plane: qos, consume, cancel, get, recover."""

from __future__ import annotations

from typing import Any

from leveret.auth.access import READ
from leveret.broker.topology import REPLY_TO_PREFIX, queue_text
from leveret.catalog import arguments as check
from leveret.core.codec.names import name_octets
from leveret.core.connection.consumer import Consumer, Getter
from leveret.core.queue.contract import Queue
from leveret.core.stream.queue import StreamQueue
from leveret.errors import HardError, SoftError
from leveret.session.ack_timeouts import expect_acks
from leveret.session.channel import ChannelSession
from leveret.session.stream_consumers import consume_stream
from leveret.session.super_stream_query import QUERY as SUPER_STREAM_QUERY
from leveret.session.super_stream_query import answer_super_stream_query
from leveret.session.suspension import FOR_LOAD
from leveret.wire.basic_methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverAsync,
    BasicRecoverOk,
)

CONSUMER_ARGUMENT_CHECKS: dict[str, check.Check] = {
    "x-priority": check.integer,
    "x-cancel-on-ha-failover": check.boolean,
    "x-consumer-timeout": check.duration,
}


def qos(channel_session: ChannelSession, method: BasicQos) -> None:
    """global=true limits the channel. global=false is for consumers that start later, each with its own limit; like
    RabbitMQ's it lifts the channel's limit."""
    if method.global_:
        channel_session.core.prefetch_count = method.prefetch_count
        channel_session.core.prefetch_bytes = method.prefetch_size
    else:
        channel_session.prefetch_count = method.prefetch_count
        channel_session.prefetch_bytes = method.prefetch_size
        channel_session.core.prefetch_count = 0
        channel_session.core.prefetch_bytes = 0
    channel_session.send(BasicQosOk())
    channel_session.core.unpark()


def consume(channel_session: ChannelSession, method: BasicConsume) -> None:
    tag = method.consumer_tag or "amq.ctag-" + channel_session.session.broker.dice.name()
    if name_octets(tag) in channel_session.core.consumers:
        raise HardError(530, f"attempt to reuse consumer tag '{tag}'")
    if method.queue == REPLY_TO_PREFIX:
        _consume_replies(channel_session, method, tag)
        return
    if SUPER_STREAM_QUERY in method.arguments:
        answer_super_stream_query(channel_session, method, tag)
        return
    name = channel_session.named_queue(method.queue)
    channel_session.access.check_queue(READ, name)
    queue = channel_session.session.topology.find_queue(channel_session, name)
    if isinstance(queue, StreamQueue):
        consume_stream(channel_session, method, queue, tag)
        return
    what = queue_text(channel_session.vhost.name, name)
    priority = _checked_priority(method.arguments, what)
    _check_exclusive(queue, method.exclusive, what)
    consumer = _add_consumer(channel_session, method, queue, tag, priority)
    if not method.no_ack:
        timeout_ms = method.arguments.get("x-consumer-timeout", -1)
        assert isinstance(timeout_ms, int)
        consumer.ack_timeout_ms = timeout_ms
        expect_acks(channel_session, consumer)
    queue.subscribe(consumer)


def _checked_priority(arguments: dict[str, Any], what: str) -> int:
    """The consumer's priority; refuses arguments that RabbitMQ refuses."""
    if "x-stream-offset" in arguments:
        raise SoftError(406, f"invalid arg 'x-stream-offset' for {what} of queue type rabbit_classic_queue")
    for name, checker in CONSUMER_ARGUMENT_CHECKS.items():
        if name in arguments and (reason := checker(arguments[name])) is not None:
            raise SoftError(406, f"invalid arg '{name}' for {what}: {reason}")
    priority: int = arguments.get("x-priority", 0)
    return priority


def _check_exclusive(queue: Queue, exclusive: bool, what: str) -> None:
    consumers = queue.subscribers
    if (exclusive and queue.single_active) or (consumers and (exclusive or next(iter(consumers)).exclusive)):
        raise SoftError(403, f"{what} in exclusive use")


def _add_consumer(
    channel_session: ChannelSession, method: BasicConsume, queue: Queue, tag: str, priority: int
) -> Consumer:
    """Makes the consumer and answers; the answer must be out before the first delivery."""
    consumer = Consumer(
        channel_session.core,
        queue,
        name_octets(tag),
        method.no_ack,
        method.exclusive,
        priority,
        channel_session.prefetch_count,
        channel_session.prefetch_bytes,
        method.arguments,
    )
    channel_session.add_consumer(consumer)
    if not method.nowait:
        channel_session.send(BasicConsumeOk(tag))
    return consumer


def _consume_replies(channel_session: ChannelSession, method: BasicConsume, tag: str) -> None:
    """Direct reply-to: the channel gets an address of its own, which requests carry from now on."""
    if not method.no_ack:
        raise SoftError(406, "reply consumer cannot acknowledge")
    if channel_session.reply_name is not None:
        raise SoftError(406, "reply consumer already set")
    name = f"{REPLY_TO_PREFIX}.{channel_session.session.broker.dice.name()}".encode()
    reply = channel_session.vhost.add_reply(name)
    channel_session.reply_name = name
    # Like RabbitMQ, looks at no argument: there is no other consumer to precede.
    reply.subscribe(_add_consumer(channel_session, method, reply, tag, 0))


def cancel(channel_session: ChannelSession, method: BasicCancel) -> None:
    """What was delivered stays with the channel and can still be acknowledged."""
    consumer = channel_session.remove_consumer(name_octets(method.consumer_tag))
    if consumer is not None:
        if consumer.queue.name == channel_session.reply_name:
            channel_session.vhost.remove_reply(consumer.queue.name)
            channel_session.reply_name = None
        else:
            channel_session.session.topology.consumer_left(channel_session.vhost, consumer.queue)
    if not method.nowait:
        channel_session.send(BasicCancelOk(method.consumer_tag))


def get(channel_session: ChannelSession, method: BasicGet) -> None:
    name = channel_session.named_queue(method.queue)
    channel_session.access.check_queue(READ, name)
    queue = channel_session.session.topology.find_queue(channel_session, name)
    if (refusal := queue.refusal("basic.get")) is not None:
        raise HardError(540, refusal)
    channel_session.vhost.queue_expiry.renew(queue)
    _answer_get(channel_session, queue, method.no_ack)


def _answer_get(channel_session: ChannelSession, queue: Queue, no_ack: bool) -> bool:
    """False if the answer must wait for the disk."""
    getter = Getter(channel_session.core, queue, no_ack)
    found = getter.fetch()
    if found is None:
        # On disk: nothing else of this client is handled until it is here, since answers come in order.
        session = channel_session.session
        session.suspend(FOR_LOAD)
        queue.await_load(lambda: session.board.loop.call_soon(_go_on_with_get, channel_session, queue, no_ack))
        return False
    if not found:
        channel_session.send(BasicGetEmpty())
    elif not no_ack:
        expect_acks(channel_session, getter)
    return True


def _go_on_with_get(channel_session: ChannelSession, queue: Queue, no_ack: bool) -> None:
    session = channel_session.session
    if not session.gone and (not channel_session.is_open or _answer_get(channel_session, queue, no_ack)):
        session.resume(FOR_LOAD)


def recover(channel_session: ChannelSession, method: BasicRecover | BasicRecoverAsync) -> None:
    if not method.requeue:
        raise HardError(540, "requeue=false")
    channel_session.core.check_recovery(method.METHOD)
    # The answer goes first: everything may come straight back to this channel.
    if isinstance(method, BasicRecover):
        channel_session.send(BasicRecoverOk())
    channel_session.core.recover()
    channel_session.session.core.await_channel(channel_session.core)


HANDLERS = {
    BasicQos.METHOD: qos,
    BasicConsume.METHOD: consume,
    BasicCancel.METHOD: cancel,
    BasicGet.METHOD: get,
    BasicRecover.METHOD: recover,
    BasicRecoverAsync.METHOD: recover,
}
