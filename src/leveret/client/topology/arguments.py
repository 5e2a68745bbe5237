"""The well-known arguments of queues and exchanges: their names here, on the wire, and what they may hold.

Owns the two tables. A broker has more arguments than these and plugins add theirs, so a name that is not known here is
nobody's mistake: it is only checked for being something that AMQP can carry. Used by records.py and checks.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from leveret.core.codec.names import NAME_OCTETS_MAX, name_octets

# Gives what is wrong with a value, or None.
Check = Callable[[Any], str | None]

# Ten years: brokers take no longer time to live.
DURATION_MS_MAX: Final = 10 * 365 * 24 * 60 * 60 * 1000


class Argument(NamedTuple):
    wire: str
    check: Check


def whole(minimum: int, maximum: int | None = None) -> Check:
    def check(value: Any) -> str | None:
        if not isinstance(value, int) or isinstance(value, bool):
            return f"must be a whole number, not {value!r}"
        if value < minimum:
            return f"must be at least {minimum}, not {value}"
        if maximum is not None and value > maximum:
            return f"must be at most {maximum}, not {value}"
        return None

    return check


def text(value: Any) -> str | None:
    if not isinstance(value, str):
        return f"must be text, not {value!r}"
    size = len(name_octets(value))
    return f"must have at most {NAME_OCTETS_MAX} bytes, not {size}" if size > NAME_OCTETS_MAX else None


def truth(value: Any) -> str | None:
    return None if isinstance(value, bool) else f"must be true or false, not {value!r}"


def one_of(*choices: str) -> Check:
    def check(value: Any) -> str | None:
        return None if value in choices else f"must be one of {', '.join(choices)}, not {value!r}"

    return check


# By the field of a Queue that holds it.
QUEUE_ARGUMENTS: Final[Mapping[str, Argument]] = {
    "queue_type": Argument("x-queue-type", text),
    "message_ttl_ms": Argument("x-message-ttl", whole(0, DURATION_MS_MAX)),
    "expires_ms": Argument("x-expires", whole(1, DURATION_MS_MAX)),
    "max_length": Argument("x-max-length", whole(0)),
    "max_length_bytes": Argument("x-max-length-bytes", whole(0)),
    "overflow": Argument("x-overflow", one_of("drop-head", "reject-publish", "reject-publish-dlx")),
    "dead_letter_exchange": Argument("x-dead-letter-exchange", text),
    "dead_letter_routing_key": Argument("x-dead-letter-routing-key", text),
    "delivery_limit": Argument("x-delivery-limit", whole(0)),
    "max_priority": Argument("x-max-priority", whole(0, 255)),
    "single_active_consumer": Argument("x-single-active-consumer", truth),
    "consumer_timeout_ms": Argument("x-consumer-timeout", whole(1)),
    "max_age": Argument("x-max-age", text),
    "stream_max_segment_size_bytes": Argument("x-stream-max-segment-size-bytes", whole(1)),
    "message_deduplication": Argument("x-message-deduplication", truth),
}

# By the field of an Exchange that holds it.
EXCHANGE_ARGUMENTS: Final[Mapping[str, Argument]] = {
    "alternate_exchange": Argument("alternate-exchange", text),
    "delayed_type": Argument("x-delayed-type", text),
    "message_deduplication": Argument("x-message-deduplication", truth),
}
