"""The x-modulus-hash exchange: the routing key's hash modulo the number of bindings. Registered in registry.py."""

from __future__ import annotations

from typing import Any

from leveret.core.matching.hash_matcher import ModulusHashMatcher
from leveret.core.matching.matcher import Matcher
from leveret.routing.exchange_type import ExchangeType, Pick

__all__ = ["ModulusHash"]


class ModulusHash(ExchangeType):
    name = "x-modulus-hash"
    description = "Modulus Hashing Exchange"

    def matcher(self, arguments: dict[str, Any], pick: Pick) -> Matcher:
        return ModulusHashMatcher()
