"""The direct exchange: binding key equals routing key. Registered in registry.py."""

from __future__ import annotations

from typing import Any

from leveret.core.matching.matcher import DirectMatcher, Matcher
from leveret.routing.exchange_type import ExchangeType, Pick

__all__ = ["Direct"]


class Direct(ExchangeType):
    name = "direct"
    description = "AMQP direct exchange, as per the AMQP specification"

    def matcher(self, arguments: dict[str, Any], pick: Pick) -> Matcher:
        return DirectMatcher()
