"""Values as Erlang terms, which is how rabbitmqctl prints tables of AMQP: [{"x-max-length",5}]."""

from __future__ import annotations

from typing import Any

ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def term(value: Any) -> str:
    if isinstance(value, dict):
        return "[" + ",".join(f"{{{term(name)},{term(inner)}}}" for name, inner in value.items()) + "]"
    if isinstance(value, list):
        return "[" + ",".join(map(term, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "undefined"
    if isinstance(value, str):
        return '"' + "".join(map(_letter, value)) + '"'
    return str(value)


def _letter(letter: str) -> str:
    if letter in ESCAPES:
        return ESCAPES[letter]
    return letter if letter.isprintable() else f"\\{ord(letter):03o}"
