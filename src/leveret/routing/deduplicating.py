"""The x-message-deduplication exchange: to everybody bound, each message once.

Compatible with RabbitMQ's plugin of that name. Which messages were seen is the broker's business; every other type does
the same with the argument of that name. Registered in registry.py."""

from __future__ import annotations

from typing import Any

from leveret.errors import SoftError
from leveret.routing.fanout import Fanout

__all__ = ["NAME", "Deduplicating"]

NAME = "x-message-deduplication"


class Deduplicating(Fanout):
    name = NAME
    description = "Message Deduplication Exchange."

    def validate_own_arguments(self, arguments: dict[str, Any], exchange: str) -> None:
        if "x-cache-size" not in arguments:
            raise SoftError(406, f"missing argument 'x-cache-size' for {exchange}")
