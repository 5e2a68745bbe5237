"""Definitions out of JSON: records, each with the place it stood at, and every problem with its place.

Only what each entry says by itself is looked at: are the fields there, of the right kind, and does the password hash
make sense. Whether entries fit each other and what exists is judged by broker/definitions.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from leveret.catalog.definitions import EXCHANGE, QUEUE
from leveret.catalog.json_tables import is_text, table_from_json
from leveret.catalog.parameters import OPERATOR_POLICY
from leveret.catalog.passwords import ALGORITHMS, RABBIT_SHA256, read_hash
from leveret.catalog.records import (
    Arguments,
    BindingRecord,
    ExchangeRecord,
    GlobalParameter,
    Parameter,
    Permission,
    Policy,
    QueueRecord,
    TopicPermission,
)
from leveret.core.codec.names import NAME_OCTETS_MAX

T = TypeVar("T")

# Problems after these are not looked for.
PROBLEMS_MAX = 100

Problems = list[tuple[str, str]]


class Placed(msgspec.Struct, Generic[T], frozen=True):
    """Something that was read, and where: queues[3]."""

    place: str
    record: T


class UserEntry(msgspec.Struct, frozen=True):
    name: str
    # As the catalog keeps it; None if there is a password to be hashed.
    password_hash: str | None
    password: str | None
    tags: tuple[str, ...]
    # None if the entry says nothing about them.
    limits: dict[str, int] | None


class VhostEntry(msgspec.Struct, frozen=True):
    """None is what the entry says nothing about: what is there already stays."""

    name: str
    description: str | None
    tags: tuple[str, ...] | None
    default_queue_type: str | None
    tracing: bool | None
    protected: bool | None


class Definitions(msgspec.Struct):
    users: list[Placed[UserEntry]] = []
    vhosts: list[Placed[VhostEntry]] = []
    permissions: list[Placed[Permission]] = []
    topic_permissions: list[Placed[TopicPermission]] = []
    parameters: list[Placed[Parameter]] = []
    global_parameters: list[Placed[GlobalParameter]] = []
    policies: list[Placed[Policy]] = []
    exchanges: list[Placed[ExchangeRecord]] = []
    # Without a type: that follows from the arguments and the virtual host.
    queues: list[Placed[QueueRecord]] = []
    bindings: list[Placed[BindingRecord]] = []


# What stands in definitions of one virtual host; the rest is passed over there, as RabbitMQ does.
IN_VHOST = ("parameters", "policies", "queues", "exchanges", "bindings")


def read_definitions(value: Any, vhost: str | None = None) -> tuple[Definitions, Problems]:
    """With `vhost` everything goes into that one, whatever an entry says."""
    problems: Problems = []
    found = Definitions()
    if not isinstance(value, dict):
        return found, [("definitions", "they must be an object")]
    for section, read in _READERS.items():
        entries = value.get(section)
        if entries is None or (vhost is not None and section not in IN_VHOST):
            continue
        if not isinstance(entries, list):
            problems.append((section, "it must be a list"))
            continue
        _read_section(getattr(found, section), found, section, entries, read, vhost, problems)
    return found, problems


def _read_section(
    into: list[Placed[Any]],
    found: Definitions,
    section: str,
    entries: list[Any],
    read: Callable[[_Entry], Any],
    vhost: str | None,
    problems: Problems,
) -> None:
    for number, given in enumerate(entries):
        if len(problems) >= PROBLEMS_MAX:
            return
        place = f"{section}[{number}]"
        if not isinstance(given, dict):
            problems.append((place, "it must be an object"))
            continue
        entry = _Entry(place, given, vhost, problems)
        before = len(problems)
        record = read(entry)
        if len(problems) > before:
            continue
        # Operators' policies are parameters in definitions and policies to us.
        target = found.policies if isinstance(record, Policy) else into
        target.append(Placed(place, record))


class _Entry:
    """One entry. What is wrong with a field becomes a problem, and something harmless is given in its place."""

    def __init__(self, place: str, values: dict[str, Any], vhost: str | None, problems: Problems) -> None:
        self.place = place
        self.values = values
        self._vhost = vhost
        self._problems = problems

    def refuse(self, field: str, text: str) -> None:
        self._problems.append((f"{self.place}.{field}" if field else self.place, text))

    def name(self, field: str = "name") -> str:
        """One that must be there, and short."""
        value = self.text(field)
        if len(value.encode("utf-8", "replace")) > NAME_OCTETS_MAX:
            self.refuse(field, f"it is longer than {NAME_OCTETS_MAX} bytes")
        elif value == "" and isinstance(self.values.get(field), str):
            self.refuse(field, "it is empty")
        return value

    def vhost(self) -> str:
        return self.name("vhost") if self._vhost is None else self._vhost

    def text(self, field: str, default: str | None = None) -> str:
        value = self.values.get(field, default)
        if not is_text(value):
            self.refuse(field, "it is missing" if value is None else "it must be a text")
            return ""
        assert isinstance(value, str)
        return value

    def flag(self, field: str, default: bool | None = None) -> bool:
        value = self.values.get(field, default)
        if not isinstance(value, bool):
            self.refuse(field, "it is missing" if value is None else "it must be true or false")
            return False
        return value

    def texts(self, field: str) -> tuple[str, ...]:
        """A list, or one text with commas."""
        value = self.values.get(field)
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        if not isinstance(value, list) or not all(is_text(one) for one in value):
            self.refuse(field, "it is missing" if value is None else "it must be a list of texts")
            return ()
        return tuple(value)

    def table(self, field: str) -> Arguments:
        try:
            return table_from_json(self.values.get(field))
        except ValueError as error:
            self.refuse(field, str(error))
            return {}

    def value(self, field: str) -> Any:
        if field not in self.values:
            self.refuse(field, "it is missing")
        return self.values.get(field)


# ---- the sections


def _user(entry: _Entry) -> UserEntry:
    name = entry.name()
    password = entry.text("password") if entry.values.get("password") is not None else None
    if password is not None and "password_hash" in entry.values:
        entry.refuse("password", "there is a password hash as well")
    password_hash: str | None = None
    if password is None:
        try:
            password_hash = read_hash(
                entry.text("password_hash", ""), entry.text("hashing_algorithm", ALGORITHMS[RABBIT_SHA256])
            )
        except ValueError as error:
            entry.refuse("password_hash", str(error))
    limits = entry.values.get("limits")
    if limits == []:
        limits = {}
    if limits is not None and not isinstance(limits, dict):
        entry.refuse("limits", "it must be an object")
    return UserEntry(name, password_hash, password, entry.texts("tags"), limits)


def _vhost(entry: _Entry) -> VhostEntry:
    metadata = entry.values.get("metadata")
    said = {**metadata, **entry.values} if isinstance(metadata, dict) else entry.values
    inner = _Entry(entry.place, said, None, entry._problems)

    def given(field: str, read: Callable[[str], T]) -> T | None:
        return read(field) if said.get(field) is not None else None

    kind = given("default_queue_type", inner.text)
    return VhostEntry(
        inner.name(),
        given("description", inner.text),
        given("tags", inner.texts),
        "" if kind == "undefined" else kind,
        given("tracing", inner.flag),
        given("protected_from_deletion", inner.flag),
    )


def _permission(entry: _Entry) -> Permission:
    return Permission(
        entry.name("user"), entry.vhost(), entry.text("configure"), entry.text("write"), entry.text("read")
    )


def _topic_permission(entry: _Entry) -> TopicPermission:
    return TopicPermission(
        entry.name("user"), entry.vhost(), entry.text("exchange"), entry.text("write"), entry.text("read")
    )


def _parameter(entry: _Entry) -> Parameter | Policy:
    vhost, component, name, value = entry.vhost(), entry.text("component"), entry.text("name"), entry.value("value")
    if component != OPERATOR_POLICY:
        return Parameter(vhost, component, name, value)
    if not isinstance(value, dict):
        entry.refuse("value", "it must be an object")
        value = {}
    return _policy_of(vhost, name, _Entry(f"{entry.place}.value", value, vhost, entry._problems), operator=True)


def _global_parameter(entry: _Entry) -> GlobalParameter:
    return GlobalParameter(entry.text("name"), entry.value("value"))


def _policy(entry: _Entry) -> Policy:
    return _policy_of(entry.vhost(), entry.text("name"), entry, operator=False)


def _policy_of(vhost: str, name: str, entry: _Entry, operator: bool) -> Policy:
    # What the fields hold is check_policy's business.
    return Policy(
        vhost,
        name,
        entry.value("pattern"),
        entry.values.get("apply-to", "all"),
        entry.values.get("priority", 0),
        entry.value("definition"),
        operator,
    )


def _queue(entry: _Entry) -> QueueRecord:
    return QueueRecord(
        entry.vhost(),
        entry.name(),
        "",
        entry.flag("durable", True),
        entry.flag("auto_delete", False),
        0,
        entry.table("arguments"),
    )


def _exchange(entry: _Entry) -> ExchangeRecord:
    # The default exchange is without a name, and passed over.
    name = entry.name() if entry.values.get("name") != "" else ""
    return ExchangeRecord(
        entry.vhost(),
        name,
        entry.text("type"),
        entry.flag("durable", True),
        entry.flag("auto_delete", False),
        entry.flag("internal", False),
        entry.table("arguments"),
    )


def _binding(entry: _Entry) -> BindingRecord:
    kind = entry.text("destination_type")
    if kind not in (QUEUE, EXCHANGE):
        entry.refuse("destination_type", f"it must be {QUEUE} or {EXCHANGE}")
    key = entry.text("routing_key", "")
    if len(key.encode()) > NAME_OCTETS_MAX:
        entry.refuse("routing_key", f"it is longer than {NAME_OCTETS_MAX} bytes")
    return BindingRecord(
        entry.vhost(), entry.text("source"), kind == QUEUE, entry.name("destination"), key, entry.table("arguments")
    )


_READERS: dict[str, Callable[[_Entry], Any]] = {
    "users": _user,
    "vhosts": _vhost,
    "permissions": _permission,
    "topic_permissions": _topic_permission,
    "parameters": _parameter,
    "global_parameters": _global_parameter,
    "policies": _policy,
    "exchanges": _exchange,
    "queues": _queue,
    "bindings": _binding,
}
