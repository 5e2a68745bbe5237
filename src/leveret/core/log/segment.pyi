# Generated from the .py and the .pxd beside it by `make stubs`; not to be edited.

from typing import Any, final

@final
class Segment:
    @property
    def id(self) -> int: ...
    @property
    def salt(self) -> int: ...
    @property
    def path(self) -> Any: ...
    end: int
    written: int
    live: int
    sealed: bool
    paging: bool
    settles: set[Any]
    @property
    def noted_by(self) -> set[Any]: ...
    copied_batch: int
    damaged: bool
    placed: int
    first_sequence: int
    last_sequence: int
    index: bytearray | None
    index_bytes: int
    def __init__(self, id: int, salt: int, path: Any, end: int) -> None: ...
    def start_index(self) -> None: ...
    def copy_index(self) -> Any: ...
