"""Definitions: what the broker has, written out; and the same taken in again, as a whole or not at all.

For HTTP, the command line and the start of a node."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from leveret.broker.broker import DEFAULT_PASSWORD, DEFAULT_USER, DEFAULT_VHOST, Broker
from leveret.broker.definition_plan import Plan, Planner
from leveret.broker.users import ALL, UserService, check_password
from leveret.catalog import commands
from leveret.catalog.commands import Command
from leveret.catalog.definition_reader import Definitions, Placed, Problems, UserEntry, read_definitions
from leveret.catalog.definitions import OWN_PREFIX, Section, export, sections
from leveret.catalog.passwords import ARGON2ID, SALT_BYTES, hash_known_password
from leveret.catalog.records import GlobalParameter, Permission, User, Vhost
from leveret.errors import InvalidDefinitions, InvalidRequest
from leveret.runtime.log import get_logger

log = get_logger(__name__)

# The digest of what the last start imported; nobody sees it.
IMPORTED = f"{OWN_PREFIX}definitions"
# Never kept: stands for a hash that is not made yet.
_NOT_HASHED = "?"


class Defaults(msgspec.Struct, frozen=True):
    """What a broker without anything starts with; an empty name for no user."""

    user: str = DEFAULT_USER
    password: str = DEFAULT_PASSWORD
    vhost: str = DEFAULT_VHOST


class DefinitionService:
    def __init__(self, broker: Broker, users: UserService) -> None:
        self._broker = broker
        self._users = users

    # ---- out

    def export(self, vhost: str | None = None) -> dict[str, Any]:
        """Everything, or what is in a virtual host, which exists."""
        return export(self._broker.catalog, self.heading(vhost), vhost)

    def heading(self, vhost: str | None = None) -> dict[str, Any]:
        """Where it comes from: tools look at it before they take the rest."""
        announced = self._broker.announced
        heading = {"rabbit_version": announced.version}
        return heading if vhost is not None else heading | announced.http_fields

    def sections(self, vhost: str | None = None) -> list[Section]:
        """The same for those who may not hold anybody up: to be shown a few at a time."""
        return sections(self._broker.catalog, vhost)

    # ---- in

    async def read(self, value: Any, vhost: str | None = None) -> Definitions:
        """With passwords hashed, which takes a while. Raises InvalidDefinitions."""
        # In a thread: there may be ten thousands of them, and nothing of the broker is looked at.
        found = await asyncio.to_thread(_read, value, vhost)
        for number, entry in enumerate(found.users):
            if entry.record.password is not None:
                found.users[number] = _hashed(entry, await self._users.hash(entry.record.password))
        return found

    def apply(self, found: Definitions, keep: bool = False) -> Plan:
        """All of it or, with InvalidDefinitions, nothing."""
        plan = Planner(self._broker, keep).make(found)
        self._carry_out(plan, [])
        return plan

    def compare(self, value: Any, vhost: str | None = None) -> Plan:
        """What an import would do; its problems are in the answer."""
        found, problems = read_definitions(value, vhost)
        for number, entry in enumerate(found.users):
            if entry.record.password is not None:
                found.users[number] = _hashed(entry, _NOT_HASHED)
        plan = Planner(self._broker).make(found)
        plan.problems = problems + plan.problems
        return plan

    def _carry_out(self, plan: Plan, more: list[Command]) -> None:
        if plan.problems:
            raise InvalidDefinitions(plan.problems)
        for place, text in plan.notices:
            log.warning("something of a definition has no effect", place=place, reason=text)
        self._broker.tick()
        # What does not survive is a command of its own: the log would bring it back with the rest.
        for made in (plan.durable + more, plan.transient):
            if made:
                self._broker.apply(commands.Together(tuple(made)))

    # ---- at the start of a node

    def load_at_boot(
        self,
        sources: Sequence[tuple[str, bytes]],
        skip_if_unchanged: bool = True,
        defaults: Defaults | None = None,
    ) -> bool:
        """Imports files, by name and content, as one. `defaults` are for a broker that has nothing yet: of them only
        what no file brought is made. Whether something was imported; raises InvalidDefinitions."""
        digest = _digest(sources)
        known = self._broker.catalog.global_parameters.get(IMPORTED)
        found = Definitions()
        unchanged = known is not None and known.value == digest
        if unchanged and skip_if_unchanged and defaults is None:
            log.info("definitions are unchanged since they were imported", files=len(sources))
            return False
        self._read_all(sources, found)
        # A queue that differs is no reason to stay down: what exists stays as it is.
        planner = Planner(self._broker, keep=True)
        plan = planner.make(found)
        more: list[Command] = [commands.PutGlobalParameter(GlobalParameter(IMPORTED, digest))]
        if defaults is not None:
            more = seeds(self._broker, planner, defaults) + more
        self._carry_out(plan, more)
        for place, text in plan.kept:
            log.warning("a definition differs from what exists, which is kept", place=place, difference=text)
        log.info("definitions were imported", files=len(sources), changes=len(plan.steps), unchanged=plan.unchanged)
        return True

    def _read_all(self, sources: Sequence[tuple[str, bytes]], found: Definitions) -> None:
        problems: Problems = []
        for name, octets in sources:
            try:
                value = msgspec.json.decode(octets)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                problems.append((name, f"it is no JSON: {error}"))
                continue
            one, its_problems = read_definitions(value)
            problems += [(f"{name}: {place}", text) for place, text in its_problems]
            for section in one.__struct_fields__:
                getattr(found, section).extend(
                    Placed(f"{name}: {entry.place}", entry.record) for entry in getattr(one, section)
                )
        problems += _password_problems(found)
        if problems:
            raise InvalidDefinitions(problems)
        for number, entry in enumerate(found.users):
            if entry.record.password is not None:
                octets = entry.record.password.encode()
                found.users[number] = _hashed(entry, self._broker.logins.hash(octets) if octets else "")


def seeds(broker: Broker, planner: Planner, defaults: Defaults) -> list[Command]:
    """The default virtual host if there would be none, the default user if there would be none; each by itself."""
    made: list[Command] = []
    vhosts = list(planner.vhosts)
    if not vhosts:
        vhosts = [defaults.vhost]
        made.append(commands.PutVhost(Vhost(defaults.vhost)))
    if not planner.users and defaults.user:
        made.append(commands.PutUser(User(defaults.user, _default_hash(broker, defaults), ("administrator",))))
        made += [commands.PutPermission(Permission(defaults.user, vhost, ALL, ALL, ALL)) for vhost in vhosts]
    return made


def seed(broker: Broker, defaults: Defaults) -> None:
    """What an empty broker starts with."""
    made = seeds(broker, Planner(broker), defaults)
    if made:
        broker.apply(commands.Together(tuple(made)))


def _default_hash(broker: Broker, defaults: Defaults) -> str:
    password = defaults.password.encode()
    if defaults.password != DEFAULT_PASSWORD or broker.logins.settings.password_hash != ARGON2ID:
        return broker.logins.hash(password)
    password_hash = hash_known_password(password, broker.dice.salt(SALT_BYTES))
    broker.logins.remember(defaults.user, password_hash, password)
    return password_hash


def _read(value: Any, vhost: str | None) -> Definitions:
    found, problems = read_definitions(value, vhost)
    problems += _password_problems(found)
    if problems:
        raise InvalidDefinitions(problems)
    return found


def _password_problems(found: Definitions) -> Problems:
    problems: Problems = []
    for entry in found.users:
        if entry.record.password is not None:
            try:
                check_password(entry.record.password.encode())
            except InvalidRequest as error:
                problems.append((f"{entry.place}.password", str(error)))
    return problems


def _hashed(entry: Placed[UserEntry], password_hash: str) -> Placed[UserEntry]:
    record = msgspec.structs.replace(entry.record, password=None, password_hash=password_hash)
    return Placed(entry.place, record)


def _digest(sources: Sequence[tuple[str, bytes]]) -> str:
    digest = hashlib.sha256()
    for name, octets in sources:
        digest.update(f"{name}\0{len(octets)}\0".encode())
        digest.update(octets)
    return digest.hexdigest()
