"""What can be declared: exchanges, queues and bindings, as plain values.

A record says how a thing is to be, and nothing of whether it exists; it can be compared, kept at module level, and
declared on any connection. Never talks to a broker. Declared by manager.py, written and read by files.py."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, ClassVar, Literal, TypeVar

import msgspec
from msgspec.structs import force_setattr

from leveret.client.topology.arguments import EXCHANGE_ARGUMENTS, QUEUE_ARGUMENTS, Argument
from leveret.client.topology.handle import QueueHandle

__all__ = ["Binding", "Exchange", "Queue", "describe"]

T = TypeVar("T", bound="_WithArguments")


class _WithArguments(msgspec.Struct, frozen=True):
    """Well-known arguments are fields as well as items of `arguments`. Whichever way one is given, both show it
    afterwards, so that two records that mean the same are equal."""

    ARGUMENTS: ClassVar[Mapping[str, Argument]] = {}

    def __post_init__(self) -> None:
        # A copy: what the caller does to its own table later must not change what was declared.
        arguments: dict[str, Any] = deepcopy(dict(self.arguments))  # type: ignore[attr-defined]
        for field, argument in self.ARGUMENTS.items():
            value = getattr(self, field)
            if value is None:
                force_setattr(self, field, arguments.get(argument.wire))
            elif arguments.setdefault(argument.wire, value) != value:
                raise ValueError(
                    f"{field} is {value!r}, but arguments has {argument.wire} {arguments[argument.wire]!r}"
                )
        force_setattr(self, "arguments", arguments)

    def replace(self: T, **changes: Any) -> T:
        """The same with some fields changed. None takes a well-known argument away."""
        fields = {**{name: getattr(self, name) for name in self.__struct_fields__}, **changes}
        arguments = dict(fields["arguments"])
        for name, argument in self.ARGUMENTS.items():
            if "arguments" in changes and name not in changes:
                fields[name] = None
            elif name in changes:
                arguments.pop(argument.wire, None)
        fields["arguments"] = arguments
        return type(self)(**fields)


class Exchange(_WithArguments, frozen=True, forbid_unknown_fields=True, repr_omit_defaults=True):
    """Routes what is published to it: direct, topic, fanout, headers, or a type that the broker has besides."""

    ARGUMENTS: ClassVar[Mapping[str, Argument]] = EXCHANGE_ARGUMENTS

    name: str
    type: str = "direct"
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    alternate_exchange: str | None = None
    delayed_type: str | None = None
    message_deduplication: bool | None = None


class Queue(_WithArguments, frozen=True, forbid_unknown_fields=True, repr_omit_defaults=True):
    """Keeps messages. With no name the broker makes one up: declare it and use the handle that you get."""

    ARGUMENTS: ClassVar[Mapping[str, Argument]] = QUEUE_ARGUMENTS

    name: str = ""
    durable: bool = True
    exclusive: bool = False
    auto_delete: bool = False
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    queue_type: str | None = None
    message_ttl_ms: int | None = None
    expires_ms: int | None = None
    max_length: int | None = None
    max_length_bytes: int | None = None
    overflow: str | None = None
    dead_letter_exchange: str | None = None
    dead_letter_routing_key: str | None = None
    delivery_limit: int | None = None
    max_priority: int | None = None
    single_active_consumer: bool | None = None
    consumer_timeout_ms: int | None = None
    max_age: str | None = None
    stream_max_segment_size_bytes: int | None = None
    message_deduplication: bool | None = None


class Binding(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """Leads from an exchange to a queue, or to another exchange. A queue that the broker named is given as its handle,
    because its name may change."""

    source: str
    destination: str | QueueHandle
    routing_key: str = ""
    to: Literal["queue", "exchange"] = "queue"
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        force_setattr(self, "arguments", deepcopy(dict(self.arguments)))


def describe(thing: Exchange | Queue | Binding | QueueHandle) -> str:
    """The thing in a text: queue 'orders'."""
    match thing:
        case Exchange():
            return f"exchange '{thing.name}'"
        case Queue(name=""):
            return "queue without a name"
        case Queue() | QueueHandle():
            return f"queue '{thing.name}'"
        case Binding():
            by = f" by '{thing.routing_key}'" if thing.routing_key else ""
            return f"binding of {thing.to} '{thing.destination}' to exchange '{thing.source}'{by}"
