"""What became of each key: taken over, ignored because nothing is lost, changed, or not supported, and why."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from leveret.errors import ConfigError
from leveret.node.config.declaring import declarations
from leveret.node.config.loading import converted, load_settings
from leveret.node.migrate.rabbitmq_conf import Entry

TAKEN, IGNORED, CHANGED, UNSUPPORTED = "taken", "ignored", "changed", "not supported"
UNKNOWN = "no key that this version knows; nothing is made of it"
VERDICTS = (TAKEN, IGNORED, CHANGED, UNSUPPORTED)


@dataclass(frozen=True, slots=True)
class Finding:
    """`text` never shows the value of a secret."""

    verdict: str
    what: str
    text: str
    place: str


class Migration:
    """What is gathered on the way: our settings with where they come from, and what is to be told."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        # Our key, and the keys or the reason it comes from.
        self.origins: dict[str, list[str]] = {}
        self.findings: list[Finding] = []

    def take(self, entry: Entry, key: str, value: Any, note: str = "") -> None:
        """Unless our setting does not take the value; then that is said."""
        try:
            self.values[key] = converted(declarations()[key], value)
        except ValueError as error:
            self.refuse(entry, str(error))
            return
        self.origins.setdefault(key, []).append(entry.key)
        self.findings.append(Finding(TAKEN, entry.key, f"as {key}" + (f"; {note}" if note else ""), entry.place))

    def set(self, key: str, value: Any, why: str) -> None:
        """What RabbitMQ does without being told, and we do not."""
        self.values[key] = converted(declarations()[key], value)
        self.origins[key] = [why]

    def ignore(self, entry: Entry, why: str) -> None:
        self.findings.append(Finding(IGNORED, entry.key, why, entry.place))

    def refuse(self, entry: Entry, why: str) -> None:
        self.findings.append(Finding(UNSUPPORTED, entry.key, why, entry.place))

    def check(self) -> None:
        """What settings need of each other."""
        try:
            load_settings(None, self.values)
        except ConfigError as error:
            for line in str(error).splitlines():
                self.findings.append(Finding(UNSUPPORTED, "the result", line, ""))


@dataclass(frozen=True, slots=True)
class Rule:
    """What is done with the entries whose keys match as a whole, all of them at once."""

    pattern: re.Pattern[str]
    act: Callable[[Migration, list[Entry]], None]


def rule(pattern: str, act: Callable[[Migration, list[Entry]], None]) -> Rule:
    """In the pattern a dot is a dot, and a * any text."""
    return Rule(re.compile(pattern.replace(".", r"\.").replace("*", ".*")), act)


def harmless(why: str) -> Callable[[Migration, list[Entry]], None]:
    def act(migration: Migration, entries: list[Entry]) -> None:
        for entry in entries:
            migration.ignore(entry, why)

    return act


def missing(what: str) -> Callable[[Migration, list[Entry]], None]:
    def act(migration: Migration, entries: list[Entry]) -> None:
        for entry in entries:
            migration.refuse(entry, what)

    return act


def fine_if(value: str, otherwise: str) -> Callable[[Migration, list[Entry]], None]:
    """One value means what we do anyway; any other is not supported."""

    def act(migration: Migration, entries: list[Entry]) -> None:
        for entry in entries:
            if entry.value == value:
                migration.ignore(entry, "that is how it is here")
            else:
                migration.refuse(entry, otherwise)

    return act


def direct(key: str, read: Callable[[str], Any], note: str = "") -> Callable[[Migration, list[Entry]], None]:
    """`read` makes our value of RabbitMQ's; it raises ValueError with the reason if it cannot."""

    def act(migration: Migration, entries: list[Entry]) -> None:
        for entry in entries:
            if declarations()[key].secret and entry.value.startswith("encrypted:"):
                migration.refuse(entry, f"the value is encrypted by RabbitMQ; set {key}_file")
                continue
            try:
                value = read(entry.value)
            except ValueError as error:
                migration.refuse(entry, str(error))
            else:
                migration.take(entry, key, value, note)

    return act


def apply_rules(entries: list[Entry], rules: tuple[Rule, ...]) -> Migration:
    """Rules in their order, each with all entries that no rule before it matched."""
    migration = Migration()
    last = {entry.parts: entry for entry in entries}
    rest = []
    for entry in entries:
        if last[entry.parts] is entry:
            rest.append(entry)
        else:
            migration.ignore(entry, f"it is set again at {last[entry.parts].place}")
    for each in rules:
        matched = [entry for entry in rest if each.pattern.fullmatch(entry.key)]
        if matched:
            rest = [entry for entry in rest if entry not in matched]
            each.act(migration, matched)
    for entry in rest:
        migration.refuse(entry, UNKNOWN)
    order = {entry.place: number for number, entry in enumerate(entries)}
    migration.findings.sort(key=lambda finding: order[finding.place])
    return migration


# ---- values


def whole(text: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,18}", text):
        raise ValueError(f"{text!r} is no whole number")
    return int(text)


def number(text: str) -> float:
    if not re.fullmatch(r"-?[0-9]{1,15}(\.[0-9]{1,15})?", text):
        raise ValueError(f"{text!r} is no number")
    return float(text)


def truth(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text == "true"


def seconds_of_ms(text: str) -> float:
    return whole(text) / 1000


# RabbitMQ reads two kinds of sizes: those of frames, where KB is 1024, and those of memory and disk, where it is 1000.
_MEMORY_UNITS = {"": 1} | {
    prefix + unit: (1000 if unit == "b" else 1024) ** power
    for power, prefix in enumerate("kmgtp", 1)
    for unit in ("", "b", "ib")
}
_FRAME_UNITS = {"": 1, "kb": 1024, "mb": 1024**2, "gb": 1024**3}


def memory_bytes(text: str) -> int:
    return _sized(text, _MEMORY_UNITS)


def frame_bytes(text: str) -> int:
    return _sized(text, _FRAME_UNITS)


def _sized(text: str, units: dict[str, int]) -> int:
    read = re.fullmatch(r"([0-9]{1,18})([A-Za-z]*)", text)
    if read is None or read[2].lower() not in units:
        raise ValueError(f"{text!r} is no size")
    return int(read[1]) * units[read[2].lower()]
