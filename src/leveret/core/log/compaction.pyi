# Generated from the .py and the .pxd beside it by `make stubs`; not to be edited.

from typing import Any, final

from leveret.core.log.journal import Journal
from leveret.core.log.segment import Segment

@final
class Compaction:
    @property
    def copied(self) -> int: ...
    @property
    def damaged(self) -> list[Any]: ...
    def __init__(
        self, journal: Journal, segment: Segment, queues: dict[Any, Any], in_memory: dict[Any, Any]
    ) -> None: ...
    def run(self, notes: bytearray, data: bytes) -> int: ...

def append_copy(journal: Journal, data: bytes, at: int, targets: list[Any]) -> int: ...
