"""Class exchange: declare, delete, bind, unbind."""

from __future__ import annotations

from leveret.broker.topology import strip_line_ends
from leveret.catalog.records import BindingRecord, ExchangeRecord
from leveret.session.channel import ChannelDesk
from leveret.wire.exchange_methods import (
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
)


def declare(desk: ChannelDesk, method: ExchangeDeclare) -> None:
    topology = desk.session.topology
    if method.passive:
        topology.declare_exchange_passively(desk, method.exchange)
    else:
        record = ExchangeRecord(
            desk.vhost.name,
            strip_line_ends(method.exchange),
            method.type,
            method.durable,
            method.auto_delete,
            method.internal,
            method.arguments,
        )
        topology.declare_exchange(desk, record)
    if not method.nowait:
        desk.send(ExchangeDeclareOk())


def delete(desk: ChannelDesk, method: ExchangeDelete) -> None:
    desk.session.topology.delete_exchange(desk, method.exchange, method.if_unused)
    if not method.nowait:
        desk.send(ExchangeDeleteOk())


def _binding(desk: ChannelDesk, method: ExchangeBind | ExchangeUnbind) -> BindingRecord:
    return BindingRecord(
        desk.vhost.name, method.source, False, method.destination, method.routing_key, method.arguments
    )


def bind(desk: ChannelDesk, method: ExchangeBind) -> None:
    desk.session.topology.bind(desk, _binding(desk, method))
    if not method.nowait:
        desk.send(ExchangeBindOk())


def unbind(desk: ChannelDesk, method: ExchangeUnbind) -> None:
    desk.session.topology.unbind(desk, _binding(desk, method))
    if not method.nowait:
        desk.send(ExchangeUnbindOk())


HANDLERS = {
    ExchangeDeclare.METHOD: declare,
    ExchangeDelete.METHOD: delete,
    ExchangeBind.METHOD: bind,
    ExchangeUnbind.METHOD: unbind,
}
