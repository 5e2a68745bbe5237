"""Loads the settings: defaults, then files, then the environment, then the command line; the later wins.

Every problem is found before any is raised, each with its place. Called by the commands, by the reload, and with
nothing but overrides by programs that embed a node."""

from __future__ import annotations

import dataclasses
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from leveret.errors import ConfigError
from leveret.node.config.checks import check
from leveret.node.config.declaring import Declaration, Section, declarations
from leveret.node.config.network import FOLLOWING_PORTS
from leveret.node.config.settings import Settings
from leveret.node.config.sources import (
    COMMAND_SUFFIX,
    Given,
    at,
    configuration_files,
    from_environment,
    from_file,
    from_overrides,
    secret_file,
    secret_of,
)
from leveret.runtime.secret import Secret

SHOWN_CHARACTERS_MAX = 80
SECRET_FILE_BYTES_MAX = 64 * 1024
# Where a value comes from that nobody gave.
DEFAULT = "default"
FOLLOWS_PORT = "follows listen.port"


@dataclass(frozen=True, slots=True)
class Loaded:
    """`origins` has the place of every key, `secrets` that of each secret which stands there itself."""

    settings: Settings
    origins: dict[str, str]
    secrets: dict[str, str] = dataclasses.field(default_factory=dict)


def load(config: Path | None, flags: Mapping[str, Any], environment: Mapping[str, str]) -> Loaded:
    """What `leveret serve` runs with. Raises ConfigError with every problem, a line each."""
    problems: list[str] = []
    given: list[Given] = []
    for path in configuration_files(config):
        given += from_file(path, problems)
    given += from_environment(environment, problems)
    given += from_overrides(flags, problems, flags=True)
    return _settled(given, environment, problems)


def load_settings(config: Path | None, overrides: Mapping[str, Any]) -> Settings:
    """For programs and tests: nothing but this file, if any, and these keys count."""
    problems: list[str] = []
    given = from_file(config, problems) if config is not None else []
    given += from_overrides(overrides, problems)
    return _settled(given, {}, problems).settings


def _settled(given: list[Given], environment: Mapping[str, str], problems: list[str]) -> Loaded:
    chosen = _chosen(given, problems)
    values: dict[str, Any] = {}
    origins = dict.fromkeys(declarations(), DEFAULT)
    secrets: dict[str, str] = {}
    for key, last in chosen.items():
        declaration = declarations()[key]
        origins[key] = last.place
        if declaration.secret and last.key == key:
            secrets[key] = last.place
        try:
            values[key] = _read_secret(last, environment) if last.key != key else converted(declaration, last.value)
        except ValueError as error:
            problems.append(at(last.place, str(error)))
    for key, value in _following(values).items():
        values[key] = value
        origins[key] = FOLLOWS_PORT
    settings = assembled(values)
    problems += [at(_place(origins[key]), text) for key, text in check(settings)]
    if problems:
        raise ConfigError("\n".join(problems))
    return Loaded(settings, origins, secrets)


def _place(origin: str) -> str:
    return "" if origin in (DEFAULT, FOLLOWS_PORT) else origin


def _chosen(given: list[Given], problems: list[str]) -> dict[str, Given]:
    """The last for each setting; a secret and its file are one setting."""
    chosen: dict[str, Given] = {}
    for item in given:
        key = secret_of(item.key) or item.key
        before = chosen.get(key)
        if before is not None and before.place == item.place and before.key != item.key:
            problems.append(at(item.place, f"{before.key} and {item.key} are both there; keep one"))
        chosen[key] = item
    return chosen


def _following(values: dict[str, Any]) -> dict[str, int]:
    """Ports that nobody gave, if the one for AMQP was."""
    port = values.get("listen.port")
    if port is None or port == "off":
        return {}
    following = {}
    for key, distance in FOLLOWING_PORTS.items():
        if key not in values:
            number = port + distance
            following[key] = number if port and 0 < number <= 65535 else 0
    return following


def assembled(values: Mapping[str, Any]) -> Settings:
    """Settings of values by key; those that are not there have their defaults."""
    settings = _assembled(Settings, "", values)
    assert isinstance(settings, Settings)
    return settings


def values_of(settings: Settings) -> dict[str, Any]:
    """Every key with its value."""
    values: dict[str, Any] = {}
    for key in declarations():
        value: Any = settings
        for name in key.split("."):
            value = getattr(value, name)
        values[key] = value
    return values


def _assembled(section: type[Section], prefix: str, values: Mapping[str, Any]) -> Section:
    fields: dict[str, Any] = {}
    for field in msgspec.structs.fields(section):
        key = prefix + field.name
        if isinstance(field.type, type) and issubclass(field.type, Section):
            fields[field.name] = _assembled(field.type, key + ".", values)
        elif key in values:
            fields[field.name] = values[key]
    return section(**fields)


# ---- one value


def converted(declaration: Declaration, value: Any) -> Any:
    """The value as the setting's type. Raises ValueError with the key, the value and what would do."""
    try:
        return msgspec.convert(value, declaration.kind, dec_hook=_as_secret)
    except (msgspec.ValidationError, OverflowError):
        # What is wrong with a secret may be most of it: it is not shown.
        shown = "" if declaration.secret else f" is {shown_value(value)}"
        joint = "; " if shown else ": "
        raise ValueError(f"{declaration.key}{shown}{joint}{declaration.expected()}") from None


def _as_secret(kind: type, value: Any) -> Any:
    if kind is Secret and isinstance(value, Secret):
        return value
    if kind is Secret and isinstance(value, str):
        return Secret(value, given=True)
    raise msgspec.ValidationError("not a text")


def shown_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = f"{value:g}" if isinstance(value, float) else repr(value)
    return text if len(text) <= SHOWN_CHARACTERS_MAX else text[:SHOWN_CHARACTERS_MAX] + "..."


def _read_secret(item: Given, environment: Mapping[str, str]) -> Secret:
    return Secret(_printed(item) if item.key.endswith(COMMAND_SUFFIX) else _in_file(item, environment), given=True)


def _printed(item: Given) -> str:
    """By a command, which is run without a shell: a list of words, or a text that is split into words."""
    try:
        words = shlex.split(item.value) if isinstance(item.value, str) else item.value
        if isinstance(item.value, str) and item.value.lstrip().startswith("["):
            words = tomllib.loads(f"value = {item.value}")["value"]
    except ValueError:
        words = None
    if not isinstance(words, list) or not words or not all(isinstance(word, str) and word for word in words):
        # Not shown: an argument may be a token.
        raise ValueError(f'{item.key} must be a command and its arguments, such as ["vault", "read", "-field=pw", "x"]')
    # Brings the log with it, which small commands have no need of otherwise.
    from leveret.runtime.secret_command import CommandFailed, secret_printed_by

    try:
        text = secret_printed_by(words, item.key)
    except CommandFailed as error:
        raise ValueError(f"{item.key}: {words[0]!r} {error}") from None
    return _cleaned(text, f"what {words[0]!r} prints", item.key)


def _in_file(item: Given, environment: Mapping[str, str]) -> str:
    if not isinstance(item.value, str) or not item.value:
        raise ValueError(f"{item.key} is {shown_value(item.value)}; it must be the path of a file")
    path = secret_file(item.value, environment)
    try:
        with path.open("rb") as file:
            content = file.read(SECRET_FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ValueError(f"{item.key} is {str(path)!r}, which cannot be read: {reason}") from None
    if len(content) > SECRET_FILE_BYTES_MAX:
        raise ValueError(f"{item.key} is {str(path)!r}, which has more than {SECRET_FILE_BYTES_MAX} bytes")
    return _cleaned(content, repr(str(path)), item.key)


def _cleaned(content: bytes, what: str, key: str) -> str:
    """Without the line's end."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{key} is {what}, which is not UTF-8") from None
    text = text.removesuffix("\n").removesuffix("\r")
    if not text:
        raise ValueError(f"{key} is {what}, which is empty")
    return text
