# Generated from the .py and the .pxd beside it by `make stubs`; not to be edited.

from typing import final

UNLIMITED: int

@final
class Meter:
    spent: int
    limit: int
    def __init__(self) -> None: ...
    def is_over(self) -> bool: ...
    def allow(self, work: int) -> None: ...
