"""Definitions as RabbitMQ and Leveret export them: exchanges, queues and bindings of one virtual host as records.

Users, policies and the rest of an export are the broker's business and are passed over. Called by files.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import msgspec

from leveret.client.topology.methods import Thing
from leveret.client.topology.records import Binding, Exchange, Queue
from leveret.client.topology.retry import Retry

__all__ = ["is_definitions", "read_definitions"]

# Only an export has these; a file of ours has none of them.
_MARKS: Final = ("rabbit_version", "rabbitmq_version", "leveret_version", "vhosts", "users", "permissions", "policies")

# As files.convert: a document, a type, a place.
Convert = Callable[[Any, Any, str], Any]


class _Exchange(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool = False
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    vhost: str | None = None


class _Queue(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    durable: bool
    auto_delete: bool
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    vhost: str | None = None
    # Newer versions say it beside the arguments, too.
    type: str | None = None


class _Binding(msgspec.Struct, forbid_unknown_fields=True):
    source: str
    destination: str
    destination_type: Literal["queue", "exchange"]
    routing_key: str
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    vhost: str | None = None


def is_definitions(document: Mapping[str, Any]) -> bool:
    """Whether this is an export: by what else is in it, or by entries that name their virtual host."""
    if any(mark in document for mark in _MARKS):
        return True
    lists = (document.get(name) for name in ("exchanges", "queues", "bindings"))
    return any(
        isinstance(entry, dict) and ("vhost" in entry or "destination_type" in entry)
        for entries in lists
        if isinstance(entries, list)
        for entry in entries
    )


def read_definitions(document: Mapping[str, Any], virtual_host: str, convert: Convert) -> list[Thing | Retry]:
    """An entry without a virtual host is in an export of one, and so of the one that is asked for."""

    def entries(name: str, wanted: Any) -> list[Any]:
        found = convert(document.get(name, []), list[wanted], name)
        return [entry for entry in found if entry.vhost in (None, virtual_host)]

    exchanges = [
        Exchange(entry.name, entry.type, entry.durable, entry.auto_delete, entry.internal, entry.arguments)
        for entry in entries("exchanges", _Exchange)
    ]
    queues = [
        Queue(entry.name, entry.durable, auto_delete=entry.auto_delete, arguments=_typed(entry))
        for entry in entries("queues", _Queue)
    ]
    bindings = [
        Binding(entry.source, entry.destination, entry.routing_key, entry.destination_type, entry.arguments)
        for entry in entries("bindings", _Binding)
    ]
    return [*exchanges, *queues, *bindings]


def _typed(queue: _Queue) -> dict[str, Any]:
    if queue.type in (None, "classic"):
        return queue.arguments
    return {"x-queue-type": queue.type, **queue.arguments}
