# Generated from the .py and the .pxd beside it by `make stubs`; not to be edited.

from typing import Any

class Publisher:
    @property
    def accepted_seq(self) -> int: ...
    def __init__(self) -> None: ...
    def synced(self, batch: int, accepted_seq: int) -> int: ...

class Batch:
    beside: Any
    data: Any
    last_sequence: Any
    number: Any
    parts: Any
    waiters: Any
    def __init__(
        self, number: Any, data: Any, parts: Any, last_sequence: Any, waiters: Any, beside: Any = ...
    ) -> None: ...

class SideLog:
    def take_part(self) -> Any: ...

class NoteSource:
    @property
    def id(self) -> int: ...
    live: int
    live_bytes: int
    def __init__(self, id: int) -> None: ...
    def write_notes(self) -> int: ...
