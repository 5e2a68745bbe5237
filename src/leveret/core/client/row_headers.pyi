# Generated from the .py and the .pxd beside it by `make stubs`; not to be edited.

from typing import Any, final

PRODUCER_HEADER: str
ID_HEADER: str
FORGOTTEN: tuple[str, ...]

@final
class RowHeaders:
    producer: bytes
    def __init__(self, producer: bytes) -> None: ...
    def take_columns(self, columns: dict[Any, Any]) -> int: ...
    def table(self, row: int) -> bytes | None: ...
