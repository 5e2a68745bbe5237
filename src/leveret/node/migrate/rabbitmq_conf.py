"""Reads rabbitmq.conf: a key, an equals sign and a value in each line.

As RabbitMQ does: a # begins a comment anywhere, the last of two equal keys counts, a backslash guards a dot in a key,
and `include` brings other files in. Values in single quotes lose them, as in RabbitMQ from 3.13 on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from leveret.errors import ConfigError

INCLUDES_MAX = 64
_SETTING = re.compile(r"(?P<key>(?:[A-Za-z0-9_\-]|\\.)+(?:\.(?:[A-Za-z0-9_\-]|\\.)+)*)\s*=\s*(?P<value>.*)", re.DOTALL)
_INCLUDE = re.compile(r"include\s+(?P<path>\S.*)")
_QUOTED = re.compile(r"'(?P<text>(?:[^'\\]|\\.)*)'\s*(?:#.*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Entry:
    """`parts` are those of the key, without backslashes; `place` is file and line."""

    parts: tuple[str, ...]
    value: str
    place: str

    @property
    def key(self) -> str:
        return ".".join(self.parts)


def read_conf(path: Path) -> list[Entry]:
    """Raises ConfigError with the place of what cannot be read."""
    return _read(path, [])


def _read(path: Path, reading: list[Path]) -> list[Entry]:
    if path in reading or len(reading) >= INCLUDES_MAX:
        raise ConfigError(f"{path}: it is included by itself")
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8") from None
    if text.lstrip().startswith(("[", "%")):
        raise ConfigError(
            f"{path} is in the old form of Erlang terms (rabbitmq.config, advanced.config), which is not read; "
            "write it as rabbitmq.conf first"
        )
    found: list[Entry] = []
    for number, line in enumerate(re.split(r"\r\n|\n|\r", text), 1):
        place = f"{path}:{number}"
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        if include := _INCLUDE.fullmatch(_without_comment(stripped)):
            for included in _included(path, include["path"], place):
                found += _read(included, [*reading, path])
        else:
            found.append(_entry(stripped, place))
    return found


def _included(path: Path, pattern: str, place: str) -> list[Path]:
    folder, _, name = pattern.rpartition("/")
    where = path.parent / folder if folder or not pattern.startswith("/") else Path("/")
    files = sorted(where.glob(name)) if any(character in name for character in "*?[") else [where / name]
    if any(not file.is_file() for file in files):
        raise ConfigError(f"{place}: includes {pattern}, which is no file")
    return files


def _entry(line: str, place: str) -> Entry:
    setting = _SETTING.fullmatch(line)
    if setting is None:
        raise ConfigError(f"{place}: expected a key, an equals sign and a value")
    value = setting["value"]
    if quoted := _QUOTED.fullmatch(value):
        value = re.sub(r"\\(.)", r"\1", quoted["text"])
    else:
        value = _without_comment(value)
    if not value:
        raise ConfigError(f"{place}: {setting['key']} has no value")
    parts = tuple(re.sub(r"\\(.)", r"\1", part) for part in re.split(r"(?<!\\)\.", setting["key"]))
    return Entry(parts, value, place)


def _without_comment(text: str) -> str:
    return text.partition("#")[0].rstrip()
