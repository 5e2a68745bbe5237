"""Arguments of queues, exchanges and consumers: are they valid, and do two declarations mean the same?

The texts are RabbitMQ's, because client test suites compare them. Which arguments a queue type takes is the type's
business (queues/); this page only knows how to check one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from leveret.catalog.records import Arguments
from leveret.core.codec.field_types import Timestamp
from leveret.core.codec.names import name_octets
from leveret.core.codec.wording import shown_type
from leveret.errors import SoftError

# Ten years: RabbitMQ takes no longer time to live.
DURATION_MS_MAX = 10 * 365 * 24 * 60 * 60 * 1000

# A check gives the reason a value is refused, in RabbitMQ's words, or None.
Check = Callable[[Any], str | None]


def is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool | Timestamp)


def anything(_value: Any) -> str | None:
    return None


def integer(value: Any) -> str | None:
    return None if is_integer(value) else f'"expected integer, got {shown_type(value)}"'


def non_negative(value: Any) -> str | None:
    return integer(value) or (f"{{value_negative,{value}}}" if value < 0 else None)


def duration(value: Any) -> str | None:
    return non_negative(value) or (f"{{value_too_large,{value}}}" if value > DURATION_MS_MAX else None)


def positive_duration(value: Any) -> str | None:
    return duration(value) or ("{value_zero,0}" if value == 0 else None)


def priority_range(value: Any) -> str | None:
    return non_negative(value) or (f"{{max_value_exceeded,{value}}}" if value > 255 else None)


def positive(value: Any) -> str | None:
    return non_negative(value) or ("{value_zero,0}" if value == 0 else None)


def boolean(value: Any) -> str | None:
    return None if isinstance(value, bool) else f"{{unacceptable_type,{shown_type(value)}}}"


def string(value: Any) -> str | None:
    return None if isinstance(value, str) else f"{{unacceptable_type,{shown_type(value)}}}"


def one_of(allowed: Iterable[str], reason: str) -> Check:
    """A string out of a few; `reason` is what RabbitMQ says of another one, with {} for the value."""
    choices = frozenset(allowed)

    def check(value: Any) -> str | None:
        return string(value) or (None if value in choices else reason.format(value))

    return check


# Queues and exchanges take the same arguments to have each message once.
DEDUPLICATION_CHECKS: dict[str, Check] = {
    "x-message-deduplication": boolean,
    "x-cache-size": positive,
    "x-cache-ttl": positive_duration,
}


def check_expiration(expiration: bytes) -> None:
    """The per-message TTL: a whole number of milliseconds in decimal digits."""
    text = expiration.decode("utf-8", "replace")
    digits = text[1:] if text[:1] in ("-", "+") else text
    number = digits[: len(digits) - len(digits.lstrip("0123456789"))]
    if not number:
        raise SoftError(406, f"invalid expiration '{text}': no_integer")
    rest = digits[len(number) :]
    if rest:
        raise SoftError(406, f"invalid expiration '{text}': {{leftover_string,\"{rest}\"}}")
    # Longer than any number in range: spares converting a short string of digits into a huge integer.
    value = int(number) if len(number.lstrip("0")) < 20 else DURATION_MS_MAX + 1
    if text[0] == "-" and value > 0:
        raise SoftError(406, f"invalid expiration '{text}': {{value_negative,-{number}}}")
    if value > DURATION_MS_MAX:
        raise SoftError(406, f"invalid expiration '{text}': {{value_too_large,{number}}}")


def show(value: Any) -> str:
    """A value inside a reply text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def same(ours: Any, theirs: Any) -> bool:
    """Integers of any width are compared by value, and so are moments; a bool is not an integer. Text and octets are
    one."""
    if _is_number(ours) and _is_number(theirs):
        return int(ours) == int(theirs)
    if isinstance(ours, str | bytes) and isinstance(theirs, str | bytes):
        return _as_octets(ours) == _as_octets(theirs)
    return shown_type(ours) == shown_type(theirs) and bool(ours == theirs)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _as_octets(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else name_octets(value)


def assert_same_argument(name: str, what: str, current: Arguments, received: Arguments) -> None:
    """`what` is the thing in the text, such as: queue 'q' in vhost '/'."""
    if name not in current and name not in received:
        return
    if name in current and name in received:
        if same(current[name], received[name]):
            return
        shown = "none" if received[name] is None else f"'{show(received[name])}'"
        detail = f"received {shown} but current is '{show(current[name])}'"
    elif name in received:
        value = received[name]
        detail = f"received the value '{show(value)}' of type '{shown_type(value)}' but current is none"
    else:
        value = current[name]
        detail = f"received none but current is the value '{show(value)}' of type '{shown_type(value)}'"
    raise SoftError(406, f"inequivalent arg '{name}' for {what}: {detail}")


def assert_same_property(name: str, what: str, current: Any, received: Any) -> None:
    if current != received:
        raise SoftError(
            406,
            f"inequivalent arg '{name}' for {what}: received '{show(received)}' but current is '{show(current)}'",
        )
