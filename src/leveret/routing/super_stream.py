"""The x-super-stream exchange: the hash of the routing key picks a partition, as stream clients pick it.

Owns which bindings have a place among the partitions. Registered in registry.py."""

from __future__ import annotations

from typing import Any

from leveret.core.codec.names import name_octets
from leveret.core.codec.wording import shown_value
from leveret.core.matching.matcher import Matcher
from leveret.core.matching.super_stream_matcher import PARTITION_ORDER, SuperStreamMatcher, partition_order
from leveret.errors import SoftError
from leveret.routing.exchange_type import ExchangeType, Pick

__all__ = ["NAME", "SuperStream"]

NAME = "x-super-stream"


class SuperStream(ExchangeType):
    name = NAME
    description = "Super stream exchange: hashes routing keys over partitions as stream clients do"

    def validate_binding(self, routing_key: str, arguments: dict[str, Any]) -> None:
        try:
            partition_order(name_octets(routing_key), arguments)
        except ValueError:
            if PARTITION_ORDER in arguments:
                given = arguments[PARTITION_ORDER]
                raise SoftError(406, f"{PARTITION_ORDER} must be an integer: {shown_value(given)}") from None
            raise SoftError(406, f"The binding key must be an integer: {shown_value(routing_key)}") from None

    def matcher(self, arguments: dict[str, Any], pick: Pick) -> Matcher:
        return SuperStreamMatcher()
