"""The commands that change the catalog, and the changes that come of them.

A command says what is wanted and was checked by whoever gives it; applying the same commands in the same order to
two catalogs makes them equal. The changes list every record that came or went, cascades included, in order."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from leveret.catalog.records import (
    Arguments,
    BindingRecord,
    ExchangeRecord,
    GlobalParameter,
    Parameter,
    Permission,
    Policy,
    QueueRecord,
    Record,
    Reprocessing,
    Suspension,
    TopicPermission,
    User,
    Vhost,
)
from leveret.core.codec.tables import decode_table, encode_table


class PutVhost(msgspec.Struct, frozen=True, tag=True):
    vhost: Vhost


class DeleteVhost(msgspec.Struct, frozen=True, tag=True):
    name: str


class PutUser(msgspec.Struct, frozen=True, tag=True):
    user: User


class DeleteUser(msgspec.Struct, frozen=True, tag=True):
    name: str


class SuspendUser(msgspec.Struct, frozen=True, tag=True):
    suspension: Suspension


class ReleaseUser(msgspec.Struct, frozen=True, tag=True):
    name: str


class PutPermission(msgspec.Struct, frozen=True, tag=True):
    permission: Permission


class DeletePermission(msgspec.Struct, frozen=True, tag=True):
    user: str
    vhost: str


class PutTopicPermission(msgspec.Struct, frozen=True, tag=True):
    permission: TopicPermission


class DeleteTopicPermission(msgspec.Struct, frozen=True, tag=True):
    user: str
    vhost: str
    exchange: str


class PutParameter(msgspec.Struct, frozen=True, tag=True):
    parameter: Parameter


class DeleteParameter(msgspec.Struct, frozen=True, tag=True):
    vhost: str
    component: str
    name: str


class PutGlobalParameter(msgspec.Struct, frozen=True, tag=True):
    parameter: GlobalParameter


class DeleteGlobalParameter(msgspec.Struct, frozen=True, tag=True):
    name: str


class DeclareExchange(msgspec.Struct, frozen=True, tag=True):
    exchange: ExchangeRecord


class DeleteExchange(msgspec.Struct, frozen=True, tag=True):
    vhost: str
    name: str


class DeclareQueue(msgspec.Struct, frozen=True, tag=True):
    queue: QueueRecord


class SkipQueueIds(msgspec.Struct, frozen=True, tag=True):
    """No queue gets an id below this one any more; stands in snapshots, where deleted queues left no trace."""

    next_id: int


class DeleteQueue(msgspec.Struct, frozen=True, tag=True):
    vhost: str
    name: str


class Bind(msgspec.Struct, frozen=True, tag=True):
    binding: BindingRecord


class Unbind(msgspec.Struct, frozen=True, tag=True):
    binding: BindingRecord


class DeclareSuperStream(msgspec.Struct, frozen=True, tag=True):
    """An exchange, streams, and the bindings between them: one command, so that there are all of them or none."""

    exchange: ExchangeRecord
    # The first partition. The others are like it, but for their names, and the ids that follow.
    stream: QueueRecord
    # The name and the binding key of each partition, in their order.
    partitions: tuple[tuple[str, str], ...]


class DeleteSuperStream(msgspec.Struct, frozen=True, tag=True):
    """The exchange and these streams go together."""

    vhost: str
    name: str
    streams: tuple[str, ...]


class PutPolicy(msgspec.Struct, frozen=True, tag=True):
    policy: Policy


class DeletePolicy(msgspec.Struct, frozen=True, tag=True):
    vhost: str
    name: str
    operator: bool = False


class PutJob(msgspec.Struct, frozen=True, tag=True):
    """A job of reprocessing begins, or has come further; it replaces the one that its queue had before."""

    job: Reprocessing


class DeleteJob(msgspec.Struct, frozen=True, tag=True):
    vhost: str
    queue: str


class Together(msgspec.Struct, frozen=True, tag=True):
    """Commands that all happen or none does, over a crash too."""

    commands: tuple[Command, ...]


Command = (
    Together
    | PutVhost
    | DeleteVhost
    | PutUser
    | DeleteUser
    | SuspendUser
    | ReleaseUser
    | PutPermission
    | DeletePermission
    | PutTopicPermission
    | DeleteTopicPermission
    | PutParameter
    | DeleteParameter
    | PutGlobalParameter
    | DeleteGlobalParameter
    | DeclareExchange
    | DeleteExchange
    | DeclareQueue
    | SkipQueueIds
    | DeleteQueue
    | Bind
    | Unbind
    | DeclareSuperStream
    | DeleteSuperStream
    | PutPolicy
    | DeletePolicy
    | PutJob
    | DeleteJob
)


# The fields of a command that hold records with arguments. A policy's definition is none of a client's table: msgpack
# keeps all that JSON can say.
_WITH_ARGUMENTS: dict[type, tuple[str, ...]] = {
    DeclareExchange: ("exchange",),
    DeclareQueue: ("queue",),
    Bind: ("binding",),
    Unbind: ("binding",),
    DeclareSuperStream: ("exchange", "stream"),
}
_decoder = msgspec.msgpack.Decoder(Command)


def encode_command(command: Command) -> bytes:
    """For logs. Arguments go as an AMQP table, which keeps the types that clients gave them."""
    return msgspec.msgpack.encode(_with_arguments(command, lambda arguments: {"": encode_table(arguments)}))


def decode_command(octets: bytes) -> Command:
    return _with_arguments(_decoder.decode(octets), lambda arguments: decode_table(arguments[""])[0])


def _with_arguments(command: Command, change: Callable[[Arguments], Arguments]) -> Command:
    if isinstance(command, Together):
        return Together(tuple(_with_arguments(one, change) for one in command.commands))
    for field in _WITH_ARGUMENTS.get(type(command), ()):
        record = getattr(command, field)
        record = msgspec.structs.replace(record, arguments=change(record.arguments))
        command = msgspec.structs.replace(command, **{field: record})
    return command


class Added(msgspec.Struct, frozen=True, gc=False):
    record: Record


class Removed(msgspec.Struct, frozen=True, gc=False):
    record: Record


Change = Added | Removed
