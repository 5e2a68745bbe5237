"""From records to the AMQP methods that declare, look for, and delete them. Never sends one."""

from __future__ import annotations

from leveret.client.topology.handle import QueueHandle
from leveret.client.topology.records import Binding, Exchange, Queue
from leveret.wire.exchange_methods import ExchangeBind, ExchangeDeclare, ExchangeDelete, ExchangeUnbind
from leveret.wire.method import Method
from leveret.wire.queue_methods import QueueBind, QueueDeclare, QueueDelete, QueueUnbind

__all__ = ["Thing", "declaring", "deleting", "looking"]

# What has a declaration of its own.
Thing = Exchange | Queue | Binding


def declaring(thing: Thing) -> Method:
    match thing:
        case Exchange():
            return ExchangeDeclare(
                exchange=thing.name,
                type=thing.type,
                durable=thing.durable,
                auto_delete=thing.auto_delete,
                internal=thing.internal,
                arguments=thing.arguments,
            )
        case Queue():
            return QueueDeclare(
                queue=thing.name,
                durable=thing.durable,
                exclusive=thing.exclusive,
                auto_delete=thing.auto_delete,
                arguments=thing.arguments,
            )
        case Binding(to="queue"):
            return QueueBind(str(thing.destination), thing.source, thing.routing_key, arguments=thing.arguments)
        case Binding():
            return ExchangeBind(str(thing.destination), thing.source, thing.routing_key, arguments=thing.arguments)


def looking(thing: Exchange | Queue | QueueHandle) -> Method:
    """A passive declare: the broker says whether the thing is there, and makes nothing."""
    if isinstance(thing, Exchange):
        return ExchangeDeclare(thing.name, type=thing.type, passive=True)
    return QueueDeclare(thing.name, passive=True)


def deleting(thing: Thing | QueueHandle, if_unused: bool = False, if_empty: bool = False) -> Method:
    match thing:
        case Exchange():
            return ExchangeDelete(thing.name, if_unused=if_unused)
        case Queue() | QueueHandle():
            return QueueDelete(thing.name, if_unused=if_unused, if_empty=if_empty)
        case Binding(to="queue"):
            return QueueUnbind(str(thing.destination), thing.source, thing.routing_key, thing.arguments)
        case Binding():
            return ExchangeUnbind(str(thing.destination), thing.source, thing.routing_key, arguments=thing.arguments)
