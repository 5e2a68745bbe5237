# Generated from the .py and the .pxd beside it by `make stubs`; not to be edited.

from typing import Any, final

from leveret.core.log.journal import Journal

WINDOW_COUNT: int

@final
class PagingContext:
    @property
    def pager(self) -> Journal: ...
    window_bytes: int
    window_count: int
    pressed: bool
    def __init__(self, pager: Journal, window_bytes: int, want: Any) -> None: ...
