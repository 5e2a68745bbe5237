"""The records the catalog is made of. They never change: a command replaces them.

Plain data that msgspec can write and read back, so that the same records go into logs and snapshots."""

from __future__ import annotations

from typing import Any

import msgspec

Arguments = dict[str, Any]


class Vhost(msgspec.Struct, frozen=True, tag=True):
    name: str
    description: str = ""


class User(msgspec.Struct, frozen=True, tag=True):
    name: str
    # Argon2's own encoding, or empty for a user that cannot log in with a password.
    password_hash: str
    tags: tuple[str, ...] = ()


class Permission(msgspec.Struct, frozen=True, tag=True):
    """Three regular expressions that a resource's name must match for the user to configure, write or read it."""

    user: str
    vhost: str
    configure: str
    write: str
    read: str


class ExchangeRecord(msgspec.Struct, frozen=True, tag=True, gc=False):
    vhost: str
    name: str
    kind: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: Arguments
    # Names what it keeps in the log of messages, and is never used twice; 0 if it keeps nothing that survives.
    id: int = 0


class QueueRecord(msgspec.Struct, frozen=True, tag=True, gc=False):
    vhost: str
    name: str
    kind: str
    durable: bool
    auto_delete: bool
    # The id of the connection that alone may use it, or 0. Such a queue goes with its connection.
    owner: int
    arguments: Arguments
    # Names the queue in the log of messages, and is never used twice; 0 for a queue that does not survive.
    id: int = 0


class BindingRecord(msgspec.Struct, frozen=True, tag=True, gc=False):
    vhost: str
    source: str
    to_queue: bool
    destination: str
    routing_key: str
    arguments: Arguments


class Policy(msgspec.Struct, frozen=True, tag=True):
    """Settings for every queue and exchange whose name the pattern is found in. An operator's policy stands beside the
    others and only lowers limits."""

    vhost: str
    name: str
    pattern: str
    apply_to: str
    priority: int
    # What JSON can say, in keys such as message-ttl.
    definition: Arguments
    operator: bool = False
    # When it was set, in milliseconds of the wall clock: a time to live counts for messages from then on.
    set_at_ms: int = 0


Record = Vhost | User | Permission | ExchangeRecord | QueueRecord | BindingRecord | Policy
