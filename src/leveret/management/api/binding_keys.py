"""The properties_key of a binding: how paths name one of the several bindings between two things.

The routing key, percent-encoded, and if there are arguments a ~ and a short digest of them. A binding with neither is
called ~. Clients take the key from a list or from a Location header and give it back as it is, so it is compared, never
taken apart."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote_plus

from leveret.catalog.records import Arguments, BindingRecord
from leveret.catalog.topology import Topology, binding_key
from leveret.core.codec.tables import encode_table

DIGEST_CHARACTERS = 6
QUEUE, EXCHANGE = "queue", "exchange"


def properties_key(routing_key: str, arguments: Arguments) -> str:
    if not arguments:
        return _quoted(routing_key) or "~"
    return f"{_quoted(routing_key)}~{arguments_digest(arguments)}"


def location_of(destination: str, routing_key: str, arguments: Arguments) -> str:
    """What a Location header says of a new binding, relative to the path of its list. The key is encoded a second time,
    as everything in a path is."""
    return f"{quote_plus(destination, errors='surrogateescape')}/{quote_plus(properties_key(routing_key, arguments))}"


def arguments_digest(arguments: Arguments) -> str:
    table = encode_table({name: arguments[name] for name in sorted(arguments)})
    digest = hashlib.blake2b(table, digest_size=DIGEST_CHARACTERS).digest()
    return base64.urlsafe_b64encode(digest)[:DIGEST_CHARACTERS].decode()


def _quoted(text: str) -> str:
    return quote_plus(text, errors="surrogateescape").replace("~", "%7E")


# ---- finding them


def bindings_between(topology: Topology, source: str, to_queue: bool, destination: str) -> list[BindingRecord]:
    """Every binding from an exchange to a queue or another exchange. From the default exchange each queue has its
    implicit binding."""
    if source == "":
        own = to_queue and destination in topology.queues
        return [default_binding(topology.queues[destination].vhost, destination)] if own else []
    inbound = topology.bindings_to.get((to_queue, destination), {})
    outbound = topology.bindings_from.get(source, {})
    # Whichever is shorter: a busy exchange has thousands.
    candidates = inbound.values() if len(inbound) <= len(outbound) else outbound.values()
    return [
        one
        for one in candidates
        if one.source == source and one.to_queue == to_queue and one.destination == destination
    ]


def find_binding(
    topology: Topology, source: str, to_queue: bool, destination: str, wanted: str
) -> BindingRecord | None:
    """The one with this properties_key."""
    for one in bindings_between(topology, source, to_queue, destination):
        if properties_key(one.routing_key, one.arguments) == wanted:
            return one
    # A key that was not encoded twice is accepted as well, as in RabbitMQ.
    return topology.find_binding(BindingRecord("", source, to_queue, destination, wanted, {}))


def default_binding(vhost: str, queue: str) -> BindingRecord:
    """Every queue is bound to the default exchange by its name, though no record says so."""
    return BindingRecord(vhost, "", True, queue, queue, {})


def described(binding: BindingRecord) -> dict[str, Any]:
    """A binding as the API shows it."""
    return {
        "source": binding.source,
        "vhost": binding.vhost,
        "destination": binding.destination,
        "destination_type": QUEUE if binding.to_queue else EXCHANGE,
        "routing_key": binding.routing_key,
        "arguments": binding.arguments,
        "properties_key": properties_key(binding.routing_key, binding.arguments),
    }


def in_order(bindings: Iterable[BindingRecord]) -> list[BindingRecord]:
    """Sorted as RabbitMQ lists them."""
    return sorted(bindings, key=binding_key)
