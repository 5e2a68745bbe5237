"""Where values come from: TOML files, the environment and the command line, each as a list of what it gives.

Every value keeps its place, for refusals and `leveret config show --sources`. Says what cannot be understood; whether
a value is any good is for the loader."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leveret.node.config.declaring import Declaration, declarations, section_names

SYSTEM_FILE = Path("/etc/leveret/leveret.toml")
VARIABLE_PREFIX = "LEVERET__"
FILE_SUFFIX, COMMAND_SUFFIX = "_file", "_command"
# What may stand behind a secret's key: the file that holds it, the command that prints it.
SECRET_SUFFIXES = (FILE_SUFFIX, COMMAND_SUFFIX)


@dataclass(frozen=True, slots=True)
class Given:
    """`place` is a file's path, a variable's name or a flag; empty if a program gave the value."""

    key: str
    value: Any
    place: str


def at(place: str, text: str) -> str:
    return f"{place}: {text}" if place else text


# ---- files


def configuration_files(config: Path | None) -> list[Path]:
    """What is read, in order: the file that was named, or the system's if it is there; then conf.d/*.toml beside it."""
    main = SYSTEM_FILE if config is None else config
    files = [main] if config is not None or main.exists() else []
    return files + sorted((main.parent / "conf.d").glob("*.toml"))


def from_file(path: Path, problems: list[str]) -> list[Given]:
    try:
        tree = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        problems.append(f"cannot read {path}: {error.strerror}")
        return []
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        problems.append(f"{path} is not valid TOML: {error}")
        return []
    return list(_flattened(tree, "", str(path), problems))


def _flattened(tree: Mapping[str, Any], prefix: str, place: str, problems: list[str]) -> Iterator[Given]:
    for name, value in tree.items():
        key = prefix + name
        if key in section_names():
            if isinstance(value, dict):
                yield from _flattened(value, key + ".", place, problems)
            else:
                problems.append(at(place, f"{key} must be a table, [{key}]"))
        elif is_known(key):
            yield Given(key, value, place)
        else:
            problems.append(at(place, unknown(key)))


# ---- environment


def from_environment(environment: Mapping[str, str], problems: list[str]) -> list[Given]:
    """LEVERET__LIMITS__FRAME_MAX=8192; other variables that begin with LEVERET are none of ours."""
    given: dict[str, Given] = {}
    for name in sorted(environment):
        if not name.startswith(VARIABLE_PREFIX):
            continue
        text = environment[name]
        key = name.removeprefix(VARIABLE_PREFIX).replace("__", ".").lower()
        if is_known(key):
            given[key] = Given(key, from_text(declarations().get(key), text), name)
        elif (table := _table_of(key)) is not None:
            # A key of a table of texts is taken as it is written: they tell upper from lower case.
            item = name.split("__", table.count(".") + 2)[-1]
            before = given.get(table)
            value = before.value if before is not None and isinstance(before.value, dict) else {}
            given[table] = Given(table, {**value, item: text}, name)
        else:
            problems.append(f"{_plain(name)} is no setting{_near(key, as_variable=True)}")
    return list(given.values())


def _table_of(key: str) -> str | None:
    """The setting that is a table of texts and has this key in it."""
    for name, declaration in declarations().items():
        if declaration.is_table and key.startswith(name + ".") and len(key) > len(name) + 1:
            return name
    return None


def from_text(declaration: Declaration | None, text: str) -> Any:
    """A value as TOML writes it, or plain text; a list may be separated by commas. Secrets are taken as they are, and
    what names a file or a command for one is for the loader."""
    if declaration is None or declaration.secret:
        return text
    if declaration.is_list and not text.lstrip().startswith("["):
        return [item.strip() for item in text.split(",") if item.strip()]
    value = _as_toml(text)
    if declaration.is_text and not isinstance(value, str):
        return text
    return text if value is None else value


def _as_toml(text: str) -> Any:
    """None if it is not one value of TOML."""
    try:
        tree = tomllib.loads(f"value = {text}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return None
    return tree["value"] if len(tree) == 1 else None


# ---- the command line, and programs


def from_overrides(overrides: Mapping[str, Any], problems: list[str], flags: bool = False) -> list[Given]:
    """Keys such as "listen.port"; None is not given. With `flags` they came from options of the command line."""
    given = []
    for key, value in overrides.items():
        if not is_known(key):
            problems.append(unknown(key))
        elif value is not None:
            given.append(Given(key, value, declarations()[key].flag if flags else ""))
    return given


# ---- names


def is_known(key: str) -> bool:
    return key in declarations() or secret_of(key) is not None


def secret_of(key: str) -> str | None:
    """The secret that this key names a file or a command for: tls.key_password for tls.key_password_file."""
    for suffix in SECRET_SUFFIXES:
        name = key.removesuffix(suffix)
        declaration = declarations().get(name)
        if name != key and declaration is not None and declaration.secret:
            return name
    return None


def known_keys() -> list[str]:
    secrets = [key for key, declaration in declarations().items() if declaration.secret]
    return [*declarations(), *(key + suffix for key in secrets for suffix in SECRET_SUFFIXES)]


def unknown(key: str) -> str:
    return f"{_plain(key)} is no setting{_near(key)}"


def _plain(name: str) -> str:
    """A name that somebody else chose, on one line whatever it is."""
    return name if name.isprintable() and name else repr(name)


def _near(key: str, as_variable: bool = False) -> str:
    """What may have been meant: a key that looks like it, or one of the same name in another section."""
    known = known_keys() if as_variable else [*known_keys(), *filter(None, section_names())]
    name = key.rpartition(".")[2]
    close = difflib.get_close_matches(key, known, 1, 0.75) or [
        each for each in known if each.rpartition(".")[2] == name
    ]
    if not close:
        in_section = [each for each in known if each.rpartition(".")[0] == key.rpartition(".")[0]]
        close = difflib.get_close_matches(key, in_section, 1, 0.6)
    if not close:
        return ""
    return f"; do you mean {variable_name(close[0]) if as_variable else close[0]}?"


def variable_name(key: str) -> str:
    return VARIABLE_PREFIX + key.replace(".", "__").upper()


def credentials_directory(environment: Mapping[str, str]) -> Path | None:
    """Where systemd puts what LoadCredential= names."""
    path = environment.get("CREDENTIALS_DIRECTORY")
    return Path(path) if path else None


def secret_file(text: str, environment: Mapping[str, str]) -> Path:
    """A relative path is looked up among systemd's credentials first."""
    path = Path(text)
    directory = credentials_directory(environment)
    if directory is not None and not path.is_absolute() and os.path.exists(directory / path):
        return directory / path
    return path
