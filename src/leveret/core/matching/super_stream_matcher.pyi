# Generated from the .py and the .pxd beside it by `make stubs`; not to be edited.

from typing import Any

from leveret.core.matching.hash_matcher import OrderedMatcher

__all__ = ["PARTITION_ORDER", "SEED", "SuperStreamMatcher", "partition_order"]
PARTITION_ORDER: str
SEED: int
_INTEGER: Any

def partition_order(key: bytes, arguments: dict[str, Any]) -> int: ...

class SuperStreamMatcher(OrderedMatcher):
    def collect(self, routing_key: bytes, properties: Any, found: list[object]) -> None: ...
