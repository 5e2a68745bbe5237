"""Class exchange: declare, delete, bind, unbind."""

from __future__ import annotations

from leveret.broker.topology import strip_line_ends
from leveret.catalog.records import BindingRecord, ExchangeRecord
from leveret.session.channel import ChannelSession
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


def declare(channel_session: ChannelSession, method: ExchangeDeclare) -> None:
    topology = channel_session.session.topology
    if method.passive:
        topology.declare_exchange_passively(channel_session, method.exchange)
    else:
        record = ExchangeRecord(
            channel_session.vhost.name,
            strip_line_ends(method.exchange),
            method.type,
            method.durable,
            method.auto_delete,
            method.internal,
            method.arguments,
        )
        topology.declare_exchange(channel_session, record)
    if not method.nowait:
        channel_session.send(ExchangeDeclareOk())


def delete(channel_session: ChannelSession, method: ExchangeDelete) -> None:
    channel_session.session.topology.delete_exchange(channel_session, method.exchange, method.if_unused)
    if not method.nowait:
        channel_session.send(ExchangeDeleteOk())


def _binding(channel_session: ChannelSession, method: ExchangeBind | ExchangeUnbind) -> BindingRecord:
    return BindingRecord(
        channel_session.vhost.name, method.source, False, method.destination, method.routing_key, method.arguments
    )


def bind(channel_session: ChannelSession, method: ExchangeBind) -> None:
    channel_session.session.topology.bind(channel_session, _binding(channel_session, method))
    if not method.nowait:
        channel_session.send(ExchangeBindOk())


def unbind(channel_session: ChannelSession, method: ExchangeUnbind) -> None:
    channel_session.session.topology.unbind(channel_session, _binding(channel_session, method))
    if not method.nowait:
        channel_session.send(ExchangeUnbindOk())


HANDLERS = {
    ExchangeDeclare.METHOD: declare,
    ExchangeDelete.METHOD: delete,
    ExchangeBind.METHOD: bind,
    ExchangeUnbind.METHOD: unbind,
}
