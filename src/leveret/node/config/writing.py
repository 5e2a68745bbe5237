"""Settings as text: TOML, with a comment where each value comes from if that is asked for, and JSON. Secrets never."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from leveret.node.config.declaring import declarations, section_names
from leveret.node.config.loading import Loaded, values_of
from leveret.node.config.settings import Settings
from leveret.node.config.sources import COMMAND_SUFFIX, FILE_SUFFIX
from leveret.runtime.secret import Secret

# What is empty unless it is set and then means something else.
CHOSEN: dict[str, Callable[[Settings], str]] = {
    "data_dir": lambda settings: settings.chosen_data_dir,
    "node_name": lambda settings: settings.chosen_node_name,
    "listen.socket": lambda settings: settings.chosen_socket or "off",
}


def effective(settings: Settings) -> dict[str, Any]:
    """Every key with the value that counts, secrets as they are."""
    values = values_of(settings)
    return {**values, **{key: choose(settings) for key, choose in CHOSEN.items()}}


def as_toml(loaded: Loaded, sources: bool = False) -> str:
    """A file that means the same, but for the secrets: these are left out."""
    values = effective(loaded.settings)
    lines: list[str] = []
    for section in section_names():
        keys = [key for key in declarations() if key.rpartition(".")[0] == section]
        if section:
            lines += ["", f"[{section}]"]
        for key in keys:
            origin = f"  # {loaded.origins[key]}" if sources else ""
            lines.append(_line(key.rpartition(".")[2], values[key]) + origin)
    return "\n".join(lines) + "\n"


def _line(name: str, value: Any) -> str:
    if isinstance(value, Secret):
        return f"# {name} is {'set and not shown' if value else 'not set'}"
    return f"{name} = {toml_value(value)}"


def as_json(loaded: Loaded, sources: bool = False) -> str:
    tree: dict[str, Any] = {}
    for key, value in effective(loaded.settings).items():
        *sections, name = key.split(".")
        place = tree
        for section in sections:
            place = place.setdefault(section, {})
        place[name] = str(value) if isinstance(value, Secret) else value
    shown: Any = {"settings": tree, "sources": loaded.origins} if sources else tree
    return msgspec.json.format(msgspec.json.encode(shown), indent=2).decode() + "\n"


# ---- TOML


def toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return toml_text(value)
    if isinstance(value, Mapping):
        items = ", ".join(f"{toml_text(name)} = {toml_value(item)}" for name, item in value.items())
        return f"{{ {items} }}" if items else "{}"
    return "[" + ", ".join(toml_value(item) for item in value) + "]"


def toml_text(text: str) -> str:
    return '"' + "".join(_escaped(text)) + '"'


def _escaped(text: str) -> Iterator[str]:
    for character in text:
        if character in '"\\':
            yield "\\" + character
        elif character < " " or character == "\x7f":
            yield f"\\u{ord(character):04x}"
        else:
            yield character


# ---- JSON schema


def schema() -> str:
    """A JSON schema of the file, for editors and checkers."""
    tree = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "leveret.toml",
        **_table_schema(""),
    }
    return msgspec.json.format(msgspec.json.encode(tree), indent=2).decode() + "\n"


def _table_schema(section: str) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for key, declaration in declarations().items():
        parent, _, name = key.rpartition(".")
        if parent != section:
            continue
        properties[name] = msgspec.json.schema(declaration.kind, schema_hook=_secret_schema)
        if declaration.secret:
            what = f"File that holds `{key}`."
            properties[name + FILE_SUFFIX] = {"type": "string", "description": what}
            words = {"type": "array", "items": {"type": "string"}, "minItems": 1}
            what = f"Command that prints `{key}`, without a shell."
            properties[name + COMMAND_SUFFIX] = {"anyOf": [words, {"type": "string"}], "description": what}
        else:
            properties[name]["default"] = declaration.default
    for key in filter(None, section_names()):
        parent, _, name = key.rpartition(".")
        if parent == section:
            properties[name] = _table_schema(key)
    about = section_names()[section]
    return {"type": "object", "description": about, "properties": properties, "additionalProperties": False}


def _secret_schema(kind: type) -> dict[str, Any]:
    assert kind is Secret
    return {"type": "string", "format": "password", "writeOnly": True}
