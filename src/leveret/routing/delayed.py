"""The x-delayed-message exchange: routes like the type it was given, after the delay that a message asks for.

Compatible with RabbitMQ's plugin of that name. Where messages wait is the broker's business. In registry.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from leveret.core.matching.matcher import Matcher
from leveret.errors import SoftError
from leveret.routing.exchange_type import ExchangeType, Pick

__all__ = ["DELAYED_TYPE", "NAME", "Delayed"]

NAME = "x-delayed-message"
DELAYED_TYPE = "x-delayed-type"


class Delayed(ExchangeType):
    name = NAME
    description = "Delayed Message Exchange."

    def __init__(self, find: Callable[[str], ExchangeType | None]) -> None:
        self._find = find

    def _inner(self, arguments: dict[str, Any]) -> ExchangeType | None:
        kind = arguments.get(DELAYED_TYPE)
        return self._find(kind) if isinstance(kind, str) and kind != NAME else None

    def validate_own_arguments(self, arguments: dict[str, Any], exchange: str) -> None:
        inner = self._inner(arguments)
        if inner is None:
            raise SoftError(406, f"Invalid argument, '{DELAYED_TYPE}' must be an existing exchange type")
        inner.validate_own_arguments(arguments, exchange)

    def matcher(self, arguments: dict[str, Any], pick: Pick) -> Matcher:
        inner = self._inner(arguments)
        assert inner is not None
        return inner.matcher(arguments, pick)
