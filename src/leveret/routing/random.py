"""The x-random exchange: one of the bound destinations by chance. Registered in registry.py."""

from __future__ import annotations

from typing import Any

from leveret.core.matching.hash_matcher import RandomMatcher
from leveret.core.matching.matcher import Matcher
from leveret.routing.exchange_type import ExchangeType, Pick

__all__ = ["Random"]


class Random(ExchangeType):
    name = "x-random"
    description = "Randomly picks a binding (queue) to route via (to)."

    def matcher(self, arguments: dict[str, Any], pick: Pick) -> Matcher:
        return RandomMatcher(pick)
