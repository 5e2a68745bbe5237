"""Where a message would go, and why: the router's walk, told step by step for people. Publishes nothing.

Each exchange that is reached says which of its bindings match; one that finds nothing says why, and where its alternate
leads. What an exchange chooses by chance is chosen anew with every message, so such a step shows one choice of many."""

from __future__ import annotations

from typing import Any

import msgspec

from leveret.broker.broker import Broker
from leveret.broker.copies import copy_keys
from leveret.broker.topology import exchange_text
from leveret.broker.vhost import LiveVhost
from leveret.catalog.records import BindingRecord
from leveret.core.codec.names import name_octets
from leveret.core.codec.properties import Properties
from leveret.core.connection.router import Exchange
from leveret.core.queue.contract import Queue
from leveret.errors import SoftError
from leveret.routing.registry import routing_type
from leveret.runtime.time_slice import TimeSlice

# Types whose bindings each say for themselves whether they match; the others choose among all of them.
SINGLY = ("direct", "fanout", "topic", "headers", "x-message-deduplication")
MATCHES_MAX = 1000
EXCHANGES_MAX = 1000
# Each is tried with each binding.
KEYS_MAX = 64
SLICE_S = 0.004


class Match(msgspec.Struct, frozen=True):
    routing_key: str
    arguments: dict[str, Any]
    destination: str
    destination_type: str


class Step(msgspec.Struct, frozen=True):
    """One exchange. `via` is how it was reached: published, binding or alternate. `bindings` is how many it has,
    `matched` those that the message takes. `note` says what is not plain from these."""

    exchange: str
    type: str
    via: str
    bindings: int
    matched: list[Match]
    alternate: str | None
    note: str


class Trace(msgspec.Struct, frozen=True):
    routed: bool
    queues: list[str]
    steps: list[Step]
    # Why it reaches no queue; empty if it does.
    reason: str


class RouteTrace:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def trace(self, vhost: LiveVhost, name: str, key: str, properties: Properties) -> Trace:
        """Raises SoftError if there is no such exchange, or headers say what no message may."""
        start = vhost.exchanges.get(name_octets(name))
        if start is None:
            raise SoftError(404, f"no {exchange_text(vhost.name, name)}")
        keys = [name_octets(key), *(copy_keys(properties) if properties.has_cc else [])]
        if len(keys) > KEYS_MAX:
            raise SoftError(406, f"a message with {len(keys)} keys, of CC and BCC too, is not traced: {KEYS_MAX} are")
        steps: list[Step] = []
        reached: dict[Queue, bool] = {}
        seen = {start}
        todo: list[tuple[Exchange, str]] = [(start, "published")]
        while todo and len(steps) < EXCHANGES_MAX:
            exchange, via = todo.pop()
            found = _found(exchange, keys, properties)
            matched = await self._matched(vhost, exchange, keys, properties, found)
            steps.append(self._step(vhost, exchange, via, matched, found))
            onward = [(other, "binding") for other in found]
            if not found and exchange.alternate in vhost.exchanges:
                onward = [(vhost.exchanges[exchange.alternate], "alternate")]
            for destination, how in onward:
                if isinstance(destination, Queue):
                    reached[destination] = True
                elif destination not in seen:
                    seen.add(destination)
                    todo.append((destination, how))
        queues = [queue.record.name for queue in reached if queue.record is not None]
        return Trace(
            bool(reached), queues, steps, "" if reached else "; ".join(step.note for step in steps if step.note)
        )

    async def _matched(
        self, vhost: LiveVhost, exchange: Exchange, keys: list[bytes], properties: Properties, found: list[Any]
    ) -> list[Match]:
        """The bindings that lead to what was found."""
        names = {(isinstance(one, Queue), one.record.name) for one in found if one.record is not None}
        matched: list[Match] = []
        turn = TimeSlice()
        bindings = self._broker.catalog.topologies[vhost.name].bindings_from.get(exchange.record.name, {})
        for binding in list(bindings.values()):
            if (binding.to_queue, binding.destination) in names and _takes(vhost, exchange, binding, keys, properties):
                matched.append(_match(binding))
                if len(matched) >= MATCHES_MAX:
                    break
            await turn.rest()
        return matched

    def _step(self, vhost: LiveVhost, exchange: Exchange, via: str, matched: list[Match], found: list[Any]) -> Step:
        record = exchange.record
        bindings = len(self._broker.catalog.topologies[vhost.name].bindings_from.get(record.name, {}))
        alternate = None if exchange.alternate is None else exchange.alternate.decode("utf-8", "replace")
        return Step(
            record.name,
            record.kind,
            via,
            bindings,
            matched,
            alternate,
            _note(vhost, exchange, bindings, alternate, found),
        )


def _found(exchange: Exchange, keys: list[bytes], properties: Properties) -> list[Any]:
    found: list[Any] = []
    for key in keys:
        exchange.matcher.collect(key, properties, found)
        if exchange.matcher.first_key_only:
            break
    return list(dict.fromkeys(found))


def _takes(
    vhost: LiveVhost, exchange: Exchange, binding: BindingRecord, keys: list[bytes], properties: Properties
) -> bool:
    kind = routing_type(exchange.record)
    if kind.name not in SINGLY:
        return True
    alone = kind.matcher(vhost.routing_arguments(exchange.record), lambda _count: 0)
    alone.add(name_octets(binding.routing_key), binding.arguments, exchange)
    found: list[Any] = []
    for key in keys:
        alone.collect(key, properties, found)
    return bool(found)


def _match(binding: BindingRecord) -> Match:
    kind = "queue" if binding.to_queue else "exchange"
    return Match(binding.routing_key, binding.arguments, binding.destination, kind)


def _note(vhost: LiveVhost, exchange: Exchange, bindings: int, alternate: str | None, found: list[Any]) -> str:
    name = exchange_text(vhost.name, exchange.record.name)
    kind = routing_type(exchange.record).name
    if found:
        return "" if kind in SINGLY or exchange.record.name == "" else f"{name} chooses among its bindings"
    if exchange.record.name == "":
        told = "the default exchange has no queue of that name"
    elif bindings == 0:
        told = f"{name} has no bindings"
    else:
        told = f"none of the {bindings} bindings of {name} takes this message"
    if alternate is None:
        return told
    if exchange.alternate not in vhost.exchanges:
        return f"{told}, and its alternate exchange '{alternate}' does not exist"
    return f"{told}; it goes on to the alternate exchange '{alternate}'"
