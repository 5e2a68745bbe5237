# Generated from the .py and the .pxd beside it by `make stubs`; not to be edited.

from typing import Any, final

__all__ = ["NUMBER_CHARS_MAX", "HeaderCondition", "HeaderValue", "exact_key", "match_key"]
NUMBER_CHARS_MAX: int
_NUMBER: Any
_PREDICATE: Any
_OPERATORS: Any
_TRUE: tuple[Any, ...]
_FALSE: tuple[Any, ...]
_EMPTY: tuple[Any, ...]

def match_key(value: Any) -> Any: ...
def exact_key(value: Any) -> Any: ...

@final
class HeaderValue:
    def __init__(self, value: Any) -> None: ...

@final
class HeaderCondition:
    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> int: ...
    @property
    def key(self) -> Any: ...
    def __init__(self, name: str, value: Any) -> None: ...
    def holds(self, value: Any) -> bool: ...
