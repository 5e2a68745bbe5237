# Generated from the .py and the .pxd beside it by `make stubs`; not to be edited.

from typing import Any, final

from leveret.core.client.row_headers import RowHeaders

@final
class RowOutgoing:
    def __init__(
        self,
        exchange: bytes | None,
        routing_key: bytes | None,
        content_type: bytes | None,
        mode: int,
        priority: int,
        bits: int,
        id_prefix: bytes,
        headers: RowHeaders,
    ) -> None: ...
    def rename(self, producer: bytes, id_prefix: bytes) -> int: ...
    def make(self, columns: dict[Any, Any], rows: int) -> list[Any]: ...
