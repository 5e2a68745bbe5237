# Generated from the .py and the .pxd beside it by `make stubs`; not to be edited.

from typing import Any, final

from leveret.core.client.delivery import Delivery

TEXTS: Any
NUMBERS: tuple[str, ...]
DEATHS: Any
DEATH_COUNT: str

@final
class Rows:
    by_tag: bool
    stamped: bool
    @property
    def count(self) -> int: ...
    @property
    def octets(self) -> int: ...
    taken_octets: int
    @property
    def last(self) -> Delivery: ...
    next_offset: int
    gap_start: int
    gap_end: int
    keys: Any
    key_prefixes: Any
    def __init__(self, wanted: Any) -> None: ...
    def gather(self, items: Any, rows_max: int, bytes_max: int, stop: int) -> int: ...
    def take(self) -> tuple[Any, ...]: ...
