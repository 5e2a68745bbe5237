"""A plain document as TOML text: lists of tables at the top, inline tables and lists within. Python only reads TOML."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

__all__ = ["toml_text"]

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


def toml_text(document: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Raises ValueError for what TOML has no word for, which is none and octets."""
    tables = []
    for name, items in document.items():
        for item in items:
            lines = [f"[[{_key(name)}]]", *(f"{_key(key)} = {_value(value)}" for key, value in item.items())]
            tables.append("\n".join(lines) + "\n")
    return "\n".join(tables)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _string(key)


def _string(text: str) -> str:
    # JSON escapes what TOML does, in the same way, but leaves the DEL character.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case float():
            return repr(float(value))
        case str():
            return _string(value)
        case datetime():
            return value.isoformat()
        case list() | tuple():
            return f"[{', '.join(_value(item) for item in value)}]"
        case dict():
            if not value:
                return "{}"
            return "{ " + ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items()) + " }"
    raise ValueError(f"{type(value).__name__} cannot stand in a TOML file: {value!r}")
