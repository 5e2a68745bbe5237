"""The commands that change the catalog, and the changes that come of them.

A command says what is wanted and was checked by whoever gives it; applying the same commands in the same order to
two catalogs makes them equal. The changes list every record that came or went, cascades included, in order."""

from __future__ import annotations

import msgspec

from leveret.catalog.records import BindingRecord, ExchangeRecord, Permission, QueueRecord, Record, User, Vhost


class PutVhost(msgspec.Struct, frozen=True, tag=True):
    vhost: Vhost


class DeleteVhost(msgspec.Struct, frozen=True, tag=True):
    name: str


class PutUser(msgspec.Struct, frozen=True, tag=True):
    user: User


class DeleteUser(msgspec.Struct, frozen=True, tag=True):
    name: str


class PutPermission(msgspec.Struct, frozen=True, tag=True):
    permission: Permission


class DeletePermission(msgspec.Struct, frozen=True, tag=True):
    user: str
    vhost: str


class DeclareExchange(msgspec.Struct, frozen=True, tag=True):
    exchange: ExchangeRecord


class DeleteExchange(msgspec.Struct, frozen=True, tag=True):
    vhost: str
    name: str


class DeclareQueue(msgspec.Struct, frozen=True, tag=True):
    queue: QueueRecord


class DeleteQueue(msgspec.Struct, frozen=True, tag=True):
    vhost: str
    name: str


class Bind(msgspec.Struct, frozen=True, tag=True):
    binding: BindingRecord


class Unbind(msgspec.Struct, frozen=True, tag=True):
    binding: BindingRecord


Command = (
    PutVhost
    | DeleteVhost
    | PutUser
    | DeleteUser
    | PutPermission
    | DeletePermission
    | DeclareExchange
    | DeleteExchange
    | DeclareQueue
    | DeleteQueue
    | Bind
    | Unbind
)


class Added(msgspec.Struct, frozen=True, gc=False):
    record: Record


class Removed(msgspec.Struct, frozen=True, gc=False):
    record: Record


Change = Added | Removed
