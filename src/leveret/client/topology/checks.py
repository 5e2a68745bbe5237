"""Is this something that a broker can be asked for at all?

Raises ValueError that names the thing and the field, before anything is sent: a broker answers a mistake by closing
the channel, or the whole connection. What only the broker can know (types of exchanges, limits, rights) is left to it.
Called by the manager and by files.py."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from leveret.client.topology.arguments import Argument, text
from leveret.client.topology.handle import QueueHandle
from leveret.client.topology.records import Binding, Exchange, Queue, describe

__all__ = ["check"]

# Every broker has these, and declaring them as they are is allowed.
PREDEFINED_EXCHANGES: Final = frozenset(
    {"amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.match", "amq.rabbitmq.trace"}
)
RESERVED: Final = "amq."
INT64_MAX: Final = (1 << 63) - 1
# As deep as the codec writes tables.
NESTING_MAX: Final = 32


def check(thing: Exchange | Queue | Binding) -> None:
    """Raises ValueError if the thing cannot be declared; the text names it and its field."""
    match thing:
        case Exchange():
            _check_exchange(thing)
        case Queue():
            _check_queue(thing)
        case Binding():
            _check_binding(thing)
        case _:
            raise ValueError(f"cannot declare {thing!r}: it is not an Exchange, Queue, Binding or Retry")


def _check_exchange(exchange: Exchange) -> None:
    _check_name(exchange, "name", exchange.name)
    if not exchange.name:
        raise ValueError("exchange: name must not be empty: the default exchange is always there")
    if exchange.name.startswith(RESERVED) and exchange.name not in PREDEFINED_EXCHANGES:
        raise ValueError(f"{describe(exchange)}: name must not begin with {RESERVED}, which is the broker's")
    _check_name(exchange, "type", exchange.type)
    if not exchange.type:
        raise ValueError(f"{describe(exchange)}: type must not be empty")
    _check_flags(exchange, "durable", "auto_delete", "internal")
    _check_arguments(exchange, exchange.ARGUMENTS)
    if exchange.type == "x-delayed-message" and exchange.delayed_type is None:
        raise ValueError(f"{describe(exchange)}: delayed_type must say how an x-delayed-message exchange routes")


def _check_queue(queue: Queue) -> None:
    _check_name(queue, "name", queue.name)
    if queue.name.startswith(RESERVED):
        raise ValueError(f"{describe(queue)}: name must not begin with {RESERVED}, which is the broker's")
    _check_flags(queue, "durable", "exclusive", "auto_delete")
    _check_arguments(queue, queue.ARGUMENTS)
    if queue.dead_letter_routing_key is not None and queue.dead_letter_exchange is None:
        raise ValueError(f"{describe(queue)}: dead_letter_routing_key needs a dead_letter_exchange")
    if queue.queue_type in ("quorum", "stream"):
        for field, wanted in (("durable", True), ("exclusive", False), ("auto_delete", False)):
            if getattr(queue, field) is not wanted:
                raise ValueError(f"{describe(queue)}: {field} must be {wanted} for a {queue.queue_type} queue")


def _check_binding(binding: Binding) -> None:
    _check_name(binding, "source", binding.source)
    if not binding.source:
        raise ValueError(f"{describe(binding)}: source must not be empty: the default exchange takes no bindings")
    if binding.to not in ("queue", "exchange"):
        raise ValueError(f"{describe(binding)}: to must be 'queue' or 'exchange', not {binding.to!r}")
    if isinstance(binding.destination, QueueHandle):
        if binding.to != "queue":
            raise ValueError(f"{describe(binding)}: destination is a queue, but to is {binding.to!r}")
    else:
        _check_name(binding, "destination", binding.destination)
        if not binding.destination:
            raise ValueError(f"{describe(binding)}: destination must not be empty; use the queue's handle")
    _check_name(binding, "routing_key", binding.routing_key)
    _check_arguments(binding, {})


def _check_name(thing: Exchange | Queue | Binding, field: str, value: Any) -> None:
    if (problem := text(value)) is not None:
        raise ValueError(f"{describe(thing)}: {field} {problem}")


def _check_flags(thing: Exchange | Queue, *fields: str) -> None:
    for field in fields:
        if not isinstance(getattr(thing, field), bool):
            raise ValueError(f"{describe(thing)}: {field} must be True or False, not {getattr(thing, field)!r}")


def _check_arguments(thing: Exchange | Queue | Binding, known: Mapping[str, Argument]) -> None:
    for field, argument in known.items():
        if argument.wire in thing.arguments:
            if (problem := argument.check(thing.arguments[argument.wire])) is not None:
                raise ValueError(f"{describe(thing)}: {field} ({argument.wire}) {problem}")
    for name, value in thing.arguments.items():
        if (problem := text(name) or _problem_of(value, 1)) is not None:
            raise ValueError(f"{describe(thing)}: argument {name!r} {problem}")


def _problem_of(value: Any, depth: int) -> str | None:
    """What keeps a value from being carried in an AMQP table."""
    if depth > NESTING_MAX:
        return f"is nested deeper than {NESTING_MAX} levels"
    match value:
        case bool() | float() | str() | bytes() | datetime() | Decimal() | None:
            return None
        case int():
            return None if -INT64_MAX - 1 <= value <= INT64_MAX else f"does not fit in 64 bits: {value}"
        case list():
            return next((problem for item in value if (problem := _problem_of(item, depth + 1))), None)
        case dict():
            parts = (text(key) or _problem_of(item, depth + 1) for key, item in value.items())
            return next((problem for problem in parts if problem), None)
        case _:
            return f"holds {type(value).__name__}, which AMQP cannot carry"
