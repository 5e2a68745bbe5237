"""Class queue: declare, bind, purge, delete, unbind."""

from __future__ import annotations

from leveret.broker.topology import REPLY_TO_PREFIX, strip_line_ends
from leveret.broker.vhost import octets
from leveret.catalog.records import BindingRecord
from leveret.errors import SoftError
from leveret.session.channel import ChannelDesk
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


def declare(desk: ChannelDesk, method: QueueDeclare) -> None:
    if method.queue.startswith(REPLY_TO_PREFIX):
        _declare_reply(desk, method)
        return
    topology = desk.session.topology
    if method.passive:
        queue = topology.find_queue(desk, strip_line_ends(method.queue))
    else:
        queue = topology.declare_queue(
            desk, method.queue, method.durable, method.exclusive, method.auto_delete, method.arguments
        )
    name = queue.record.name
    desk.last_queue = name
    desk.vhost.leases.renew(queue)
    if not method.nowait:
        desk.send(QueueDeclareOk(name, queue.ready_count(), queue.subscriber_count()))


def _declare_reply(desk: ChannelDesk, method: QueueDeclare) -> None:
    """A responder may ask in this way whether the one who awaits its reply is still there."""
    if method.queue != REPLY_TO_PREFIX and octets(method.queue) not in desk.vhost.replies:
        raise SoftError(404, f"no queue '{method.queue}' in vhost '{desk.vhost.name}'")
    desk.last_queue = method.queue
    if not method.nowait:
        desk.send(QueueDeclareOk(method.queue, 0, 1))


def _binding(desk: ChannelDesk, method: QueueBind | QueueUnbind) -> BindingRecord:
    queue = desk.named_queue(method.queue)
    # Neither queue nor key given: the key is the queue's name, too.
    key = queue if not method.queue and not method.routing_key else method.routing_key
    return BindingRecord(desk.vhost.name, method.exchange, True, queue, key, method.arguments)


def bind(desk: ChannelDesk, method: QueueBind) -> None:
    desk.session.topology.bind(desk, _binding(desk, method))
    if not method.nowait:
        desk.send(QueueBindOk())


def unbind(desk: ChannelDesk, method: QueueUnbind) -> None:
    desk.session.topology.unbind(desk, _binding(desk, method))
    desk.send(QueueUnbindOk())


def purge(desk: ChannelDesk, method: QueuePurge) -> None:
    count = desk.session.topology.purge_queue(desk, desk.named_queue(method.queue))
    if not method.nowait:
        desk.send(QueuePurgeOk(count))


def delete(desk: ChannelDesk, method: QueueDelete) -> None:
    name = desk.named_queue(method.queue)
    count = desk.session.topology.delete_queue(desk, name, method.if_unused, method.if_empty)
    if not method.nowait:
        desk.send(QueueDeleteOk(count))


HANDLERS = {
    QueueDeclare.METHOD: declare,
    QueueBind.METHOD: bind,
    QueueUnbind.METHOD: unbind,
    QueuePurge.METHOD: purge,
    QueueDelete.METHOD: delete,
}
