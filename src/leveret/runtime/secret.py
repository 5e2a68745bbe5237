"""A text that nobody is to see: passwords and passphrases on their way from the configuration to where they are used.

Shown, formatted, logged or in a traceback it is six stars; only `reveal()` gives the text. It is never pickled, and
msgspec refuses to encode it, so that it does not end up in an answer or a file by accident."""

from __future__ import annotations

import hmac
from typing import NoReturn

MASK = "******"


class Secret:
    __slots__ = ("_text", "given")

    def __init__(self, text: str = "", given: bool = False) -> None:
        self._text = text
        # Whether somebody has set it; not if it is a default of ours.
        self.given = given

    def reveal(self) -> str:
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return f"Secret({MASK!r})" if self._text else "Secret('')"

    def __str__(self) -> str:
        return MASK if self._text else ""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._text.encode("utf-8", "replace"), other._text.encode("utf-8", "replace"))

    def __hash__(self) -> int:
        return hash(("Secret", self._text))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not pickled or copied")
