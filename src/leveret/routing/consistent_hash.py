"""The x-consistent-hash exchange: each bound destination gets a steady share of the keys, by weight.

Owns the limits of the weight, which is the binding key, and what may be hashed. Registered in registry.py."""

from __future__ import annotations

import re
from typing import Any

from leveret.core.codec.wording import shown_value
from leveret.core.matching.hash_matcher import ConsistentHashMatcher
from leveret.core.matching.matcher import Matcher
from leveret.errors import SoftError
from leveret.routing.exchange_type import ExchangeType, Pick, text_argument

__all__ = ["HASH_PROPERTIES", "WEIGHT_MAX", "ConsistentHash"]

# RabbitMQ 3.10 has no limit, and a weight of a billion was a way to stop a node.
WEIGHT_MAX = 1000
HASH_PROPERTIES = ("correlation_id", "message_id", "timestamp")

_HASH_HEADER = "hash-header"
_HASH_PROPERTY = "hash-property"
_INTEGER = re.compile(r"[+-]?[0-9]+")


class ConsistentHash(ExchangeType):
    name = "x-consistent-hash"
    description = "Consistent Hashing Exchange"

    def validate_own_arguments(self, arguments: dict[str, Any], exchange: str) -> None:
        header = text_argument(arguments, _HASH_HEADER, exchange)
        hashed = text_argument(arguments, _HASH_PROPERTY, exchange)
        if header is not None and hashed is not None:
            raise SoftError(406, "hash-header and hash-property are mutually exclusive")
        if hashed is not None and hashed not in HASH_PROPERTIES:
            raise SoftError(406, f"Unsupported property: {hashed}")

    def validate_binding(self, routing_key: str, arguments: dict[str, Any]) -> None:
        if _INTEGER.fullmatch(routing_key) is None:
            raise SoftError(406, f"The binding key must be an integer: {shown_value(routing_key)}")
        weight = int(routing_key)
        if weight < 1:
            raise SoftError(406, "The binding key must be greater than 0")
        if weight > WEIGHT_MAX:
            raise SoftError(406, f"The binding key must not be greater than {WEIGHT_MAX}: {shown_value(routing_key)}")

    def matcher(self, arguments: dict[str, Any], pick: Pick) -> Matcher:
        return ConsistentHashMatcher(arguments.get(_HASH_HEADER), arguments.get(_HASH_PROPERTY))
