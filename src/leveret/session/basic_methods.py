"""Class basic without its data plane: qos, consume, cancel, get, recover."""

from __future__ import annotations

from typing import Any

from leveret.broker.access import READ
from leveret.broker.topology import REPLY_TO_PREFIX, queue_text
from leveret.catalog import arguments as check
from leveret.core.consumer import Consumer, Getter
from leveret.core.contract import Queue
from leveret.core.stream.queue import StreamQueue
from leveret.errors import HardError, SoftError
from leveret.session.ack_timeouts import expect_acks
from leveret.session.channel import ChannelDesk
from leveret.session.stream_consumers import consume_stream
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


def qos(desk: ChannelDesk, method: BasicQos) -> None:
    """global=true limits the channel. global=false is for consumers that start later, each with its own limit; like
    RabbitMQ's it lifts the channel's limit."""
    if method.global_:
        desk.core.prefetch_count = method.prefetch_count
        desk.core.prefetch_bytes = method.prefetch_size
    else:
        desk.prefetch_count = method.prefetch_count
        desk.prefetch_bytes = method.prefetch_size
        desk.core.prefetch_count = 0
        desk.core.prefetch_bytes = 0
    desk.send(BasicQosOk())
    desk.core.unpark()


def consume(desk: ChannelDesk, method: BasicConsume) -> None:
    tag = method.consumer_tag or "amq.ctag-" + desk.session.broker.dice.name()
    if tag.encode("utf-8", "surrogateescape") in desk.core.consumers:
        raise HardError(530, f"attempt to reuse consumer tag '{tag}'")
    if method.queue == REPLY_TO_PREFIX:
        _consume_replies(desk, method, tag)
        return
    name = desk.named_queue(method.queue)
    desk.access.check_queue(READ, name)
    queue = desk.session.topology.find_queue(desk, name)
    if isinstance(queue, StreamQueue):
        consume_stream(desk, method, queue, tag)
        return
    what = queue_text(desk.vhost.name, name)
    priority = _checked_priority(method.arguments, what)
    _check_exclusive(queue, method.exclusive, what)
    consumer = _add_consumer(desk, method, queue, tag, priority)
    if not method.no_ack:
        consumer.ack_timeout_ms = method.arguments.get("x-consumer-timeout", -1)
        expect_acks(desk, consumer)
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


def _add_consumer(desk: ChannelDesk, method: BasicConsume, queue: Queue, tag: str, priority: int) -> Consumer:
    """Makes the consumer and answers; the answer must be out before the first delivery."""
    consumer = Consumer(
        desk.core,
        queue,
        tag.encode("utf-8", "surrogateescape"),
        method.no_ack,
        method.exclusive,
        priority,
        desk.prefetch_count,
        desk.prefetch_bytes,
        method.arguments,
    )
    desk.core.add_consumer(consumer)
    if not method.nowait:
        desk.send(BasicConsumeOk(tag))
    return consumer


def _consume_replies(desk: ChannelDesk, method: BasicConsume, tag: str) -> None:
    """Direct reply-to: the channel gets an address of its own, which requests carry from now on."""
    if not method.no_ack:
        raise SoftError(406, "reply consumer cannot acknowledge")
    if desk.reply_name is not None:
        raise SoftError(406, "reply consumer already set")
    name = f"{REPLY_TO_PREFIX}.{desk.session.broker.dice.name()}".encode()
    reply = desk.vhost.add_reply(name)
    desk.reply_name = name
    # Like RabbitMQ, looks at no argument: there is nobody to come before.
    reply.subscribe(_add_consumer(desk, method, reply, tag, 0))


def cancel(desk: ChannelDesk, method: BasicCancel) -> None:
    """What was delivered stays with the channel and can still be acknowledged."""
    consumer = desk.core.remove_consumer(method.consumer_tag.encode("utf-8", "surrogateescape"))
    if consumer is not None:
        if consumer.queue.name == desk.reply_name:
            desk.vhost.remove_reply(consumer.queue.name)
            desk.reply_name = None
        else:
            desk.session.topology.consumer_left(desk.vhost, consumer.queue)
    if not method.nowait:
        desk.send(BasicCancelOk(method.consumer_tag))


def get(desk: ChannelDesk, method: BasicGet) -> None:
    name = desk.named_queue(method.queue)
    desk.access.check_queue(READ, name)
    queue = desk.session.topology.find_queue(desk, name)
    if isinstance(queue, StreamQueue):
        raise HardError(540, queue.refusal("basic.get"))
    desk.vhost.leases.renew(queue)
    _answer_get(desk, queue, method.no_ack)


def _answer_get(desk: ChannelDesk, queue: Queue, no_ack: bool) -> bool:
    """False if the answer must wait for the disk."""
    getter = Getter(desk.core, queue, no_ack)
    found = getter.fetch()
    if found is None:
        # On disk: nothing else of this client is handled until it is here, since answers come in order.
        session = desk.session
        session.suspend(FOR_LOAD)
        queue.await_load(lambda: session.board.loop.call_soon(_go_on_with_get, desk, queue, no_ack))
        return False
    if not found:
        desk.send(BasicGetEmpty())
    elif not no_ack:
        expect_acks(desk, getter)
    return True


def _go_on_with_get(desk: ChannelDesk, queue: Queue, no_ack: bool) -> None:
    session = desk.session
    if not session.gone and (not desk.is_open or _answer_get(desk, queue, no_ack)):
        session.resume(FOR_LOAD)


def recover(desk: ChannelDesk, method: BasicRecover | BasicRecoverAsync) -> None:
    if not method.requeue:
        raise HardError(540, "requeue=false")
    desk.core.check_recovery(method.METHOD)
    # The answer goes first: everything may come straight back to this channel.
    if isinstance(method, BasicRecover):
        desk.send(BasicRecoverOk())
    desk.core.recover()


HANDLERS = {
    BasicQos.METHOD: qos,
    BasicConsume.METHOD: consume,
    BasicCancel.METHOD: cancel,
    BasicGet.METHOD: get,
    BasicRecover.METHOD: recover,
    BasicRecoverAsync.METHOD: recover,
}
