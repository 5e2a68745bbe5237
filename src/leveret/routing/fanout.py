"""The fanout exchange: every message goes to everybody bound. Registered in registry.py."""

from __future__ import annotations

from typing import Any

from leveret.core.matching.matcher import FanoutMatcher, Matcher
from leveret.routing.exchange_type import ExchangeType, Pick

__all__ = ["Fanout"]


class Fanout(ExchangeType):
    name = "fanout"
    description = "AMQP fanout exchange, as per the AMQP specification"

    def matcher(self, arguments: dict[str, Any], pick: Pick) -> Matcher:
        return FanoutMatcher()
