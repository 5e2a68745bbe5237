"""The headers exchange: bindings are conditions on a message's headers. Registered in registry.py."""

from __future__ import annotations

from typing import Any

from leveret.core.codec.wording import shown_type, shown_value
from leveret.core.matching.headers_matcher import X_MATCH_VALUES, HeadersMatcher
from leveret.core.matching.matcher import Matcher
from leveret.errors import SoftError
from leveret.routing.exchange_type import ExchangeType, Pick

__all__ = ["IGNORE_X", "Headers"]

# Whether arguments of bindings that begin with x- count only with x-match all-with-x and any-with-x, as in RabbitMQ. A
# setting of the node says what is so for exchanges without it.
IGNORE_X = "x-headers-ignore-x"


class Headers(ExchangeType):
    name = "headers"
    description = "AMQP headers exchange, as per the AMQP specification"

    def validate_own_arguments(self, arguments: dict[str, Any], exchange: str) -> None:
        ignore_x = arguments.get(IGNORE_X, False)
        if not isinstance(ignore_x, bool):
            raise SoftError(
                406, f"invalid arg '{IGNORE_X}' for {exchange}: {shown_value(ignore_x)} is not true or false"
            )

    def validate_binding(self, routing_key: str, arguments: dict[str, Any]) -> None:
        x_match = arguments.get("x-match", "all")
        if not isinstance(x_match, str):
            raise SoftError(
                406,
                f"Invalid x-match field type {shown_type(x_match)} (value {shown_value(x_match)}); expected longstr",
            )
        if x_match not in X_MATCH_VALUES:
            raise SoftError(
                406,
                f"Invalid x-match field value {shown_value(x_match)}; expected all, any, all-with-x, or any-with-x",
            )

    def matcher(self, arguments: dict[str, Any], pick: Pick) -> Matcher:
        return HeadersMatcher(arguments.get(IGNORE_X, False))
