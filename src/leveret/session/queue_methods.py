"""Class queue: declare, bind, purge, delete, unbind."""

from __future__ import annotations

from leveret.broker.topology import REPLY_TO_PREFIX, strip_line_ends
from leveret.catalog.records import BindingRecord
from leveret.core.codec.names import name_octets
from leveret.errors import SoftError
from leveret.session.channel import ChannelSession
from leveret.session.suspension import FOR_PURGE
from leveret.wire.queue_methods import (
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
)


def declare(channel_session: ChannelSession, method: QueueDeclare) -> None:
    if method.queue.startswith(REPLY_TO_PREFIX):
        _declare_reply(channel_session, method)
        return
    topology = channel_session.session.topology
    if method.passive:
        queue = topology.find_queue(channel_session, strip_line_ends(method.queue))
    else:
        queue = topology.declare_queue(
            channel_session, method.queue, method.durable, method.exclusive, method.auto_delete, method.arguments
        )
    name = queue.record.name
    channel_session.last_queue = name
    channel_session.vhost.queue_expiry.renew(queue)
    if not method.nowait:
        channel_session.send(QueueDeclareOk(name, queue.ready_count(), queue.subscriber_count()))


def _declare_reply(channel_session: ChannelSession, method: QueueDeclare) -> None:
    """A responder may ask in this way whether the one who awaits its reply is still there."""
    if method.queue != REPLY_TO_PREFIX and name_octets(method.queue) not in channel_session.vhost.replies:
        raise SoftError(404, f"no queue '{method.queue}' in vhost '{channel_session.vhost.name}'")
    channel_session.last_queue = method.queue
    if not method.nowait:
        channel_session.send(QueueDeclareOk(method.queue, 0, 1))


def _binding(channel_session: ChannelSession, method: QueueBind | QueueUnbind) -> BindingRecord:
    queue = channel_session.named_queue(method.queue)
    # Neither queue nor key given: the key is the queue's name, too.
    key = queue if not method.queue and not method.routing_key else method.routing_key
    return BindingRecord(channel_session.vhost.name, method.exchange, True, queue, key, method.arguments)


def bind(channel_session: ChannelSession, method: QueueBind) -> None:
    channel_session.session.topology.bind(channel_session, _binding(channel_session, method))
    if not method.nowait:
        channel_session.send(QueueBindOk())


def unbind(channel_session: ChannelSession, method: QueueUnbind) -> None:
    channel_session.session.topology.unbind(channel_session, _binding(channel_session, method))
    channel_session.send(QueueUnbindOk())


def purge(channel_session: ChannelSession, method: QueuePurge) -> None:
    name = channel_session.named_queue(method.queue)
    session = channel_session.session
    count = session.topology.purge_queue(channel_session, name)
    queue = session.topology.find_queue(channel_session, name)
    if queue.await_purge(lambda: session.board.loop.call_soon(_go_on_after_purge, channel_session, method, count)):
        # What the client sends behind it may be confirmed only after the log knows of all that was purged.
        session.suspend(FOR_PURGE)
    elif not method.nowait:
        channel_session.send(QueuePurgeOk(count))


def _go_on_after_purge(channel_session: ChannelSession, method: QueuePurge, count: int) -> None:
    if channel_session.session.gone:
        return
    if channel_session.is_open and not method.nowait:
        channel_session.send(QueuePurgeOk(count))
    channel_session.session.resume(FOR_PURGE)


def delete(channel_session: ChannelSession, method: QueueDelete) -> None:
    name = channel_session.named_queue(method.queue)
    count = channel_session.session.topology.delete_queue(channel_session, name, method.if_unused, method.if_empty)
    if not method.nowait:
        channel_session.send(QueueDeleteOk(count))


HANDLERS = {
    QueueDeclare.METHOD: declare,
    QueueBind.METHOD: bind,
    QueueUnbind.METHOD: unbind,
    QueuePurge.METHOD: purge,
    QueueDelete.METHOD: delete,
}
