# Generated from the .py and the .pxd beside it by `make stubs`; not to be edited.

from typing import Any, final

@final
class Template:
    def __init__(self, raw: Any) -> None: ...
    def fill(self, message_id: bytes) -> bytes: ...
