"""The x-delay header: how long a message waits before it is delivered, or before its exchange routes it.

The message goes on with the negated number, as RabbitMQ's plugin for delayed messages has it: it tells that there was a
delay, and asks for none if the message is published or dead-lettered again."""

from __future__ import annotations

from typing import Any

from leveret.catalog.arguments import is_integer
from leveret.core.codec.properties import Properties
from leveret.errors import SoftError

HEADER = "x-delay"
# Ten years. The plugin sends what is beyond its own limit on at once; nobody who asks for a delay wants that.
DELAY_MS_MAX = 10 * 365 * 24 * 60 * 60 * 1000


def delayed(properties: Properties) -> tuple[Properties, int]:
    """What the message goes on with, and for how many milliseconds it waits. What is no number is no delay, as with
    the plugin."""
    headers = properties.headers()
    value: Any = headers.get(HEADER)
    if isinstance(value, float) and value == value and abs(value) <= DELAY_MS_MAX:
        value = int(value)
    if not is_integer(value) or value <= 0:
        return properties, 0
    if value > DELAY_MS_MAX:
        raise SoftError(406, f"invalid header '{HEADER}': {value} is more than {DELAY_MS_MAX} milliseconds")
    return properties.replace({"headers": {**headers, HEADER: -int(value)}}), int(value)
