"""What an import of definitions would do: checked as a whole, then commands, or every problem with its place.

Looks at the catalog and changes nothing. Things that exist and are equal are kept; users, permissions, policies,
parameters and limits are replaced; a queue or an exchange that exists and differs is a problem, or kept as it is if the
importer says so, which is what RabbitMQ does without a word."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from leveret.broker.broker import Broker
from leveret.broker.equivalence import assert_same_exchange, assert_same_queue
from leveret.broker.exchanges import keeps_something
from leveret.broker.parameters import check_global, check_parameter
from leveret.broker.reserved_names import RESERVED_PREFIX
from leveret.broker.topology import exchange_text, queue_text
from leveret.broker.users import check_permission, check_topic_permission, check_user
from leveret.broker.vhosts import check_vhost
from leveret.catalog import commands
from leveret.catalog.catalog import PREDECLARED_EXCHANGES
from leveret.catalog.commands import Command
from leveret.catalog.definition_reader import PROBLEMS_MAX, Definitions, Placed, Problems, UserEntry, VhostEntry
from leveret.catalog.definitions import EXCHANGE, OWN_PREFIX, QUEUE
from leveret.catalog.parameters import VHOST_LIMITS
from leveret.catalog.policy_keys import check_policy, mirroring_refusal
from leveret.catalog.records import (
    BindingRecord,
    ExchangeRecord,
    GlobalParameter,
    Parameter,
    Permission,
    Policy,
    QueueRecord,
    TopicPermission,
    User,
    Vhost,
)
from leveret.catalog.topology import BindingKey, binding_key
from leveret.errors import AmqpError, InvalidPolicy, InvalidRequest
from leveret.queues.queue_type import check_dead_letter_exchange
from leveret.queues.registry import kind_from_arguments, queue_type
from leveret.routing.registry import exchange_type, routing_type

T = TypeVar("T")
CREATE, CHANGE = "create", "change"
_ABOUT_ARGUMENT = re.compile(r"(?:invalid|inequivalent) arg '([^']*)' for [^:]*: (.*)", re.DOTALL)


class Step(msgspec.Struct, frozen=True):
    """One thing that comes or changes; `fields` are those that differ, without their values."""

    action: str
    kind: str
    vhost: str
    name: str
    fields: tuple[str, ...] = ()


class Plan(msgspec.Struct):
    problems: Problems = []
    steps: list[Step] = []
    # Place and reason of what differs and stays as it is.
    kept: Problems = []
    # Place and reason of what is taken and has no effect.
    notices: Problems = []
    unchanged: int = 0
    # What survives, and what does not: the log may bring back only the first.
    durable: list[Command] = []
    transient: list[Command] = []


class Planner:
    """Used once. `keep` leaves queues and exchanges that differ as they are."""

    def __init__(self, broker: Broker, keep: bool = False) -> None:
        self._broker = broker
        self._catalog = broker.catalog
        self._keep = keep
        self.plan = Plan()
        # What there would be.
        self.vhosts: dict[str, Vhost] = dict(self._catalog.vhosts)
        self.users: dict[str, User] = dict(self._catalog.users)
        self._exchanges: dict[str, dict[str, ExchangeRecord]] = {}
        self._queues: dict[str, dict[str, QueueRecord]] = {}
        self._bindings: set[tuple[str, BindingKey]] = set()
        self._next_id = broker.new_queue_id()

    def make(self, found: Definitions) -> Plan:
        """Virtual hosts and users first, then what refers to them."""
        self._each(found.vhosts, self._vhost)
        self._each([one for one in found.parameters if one.record.component == VHOST_LIMITS], self._vhost_limits)
        self._put_vhosts()
        self._each(found.users, self._user)
        self._each(found.permissions, self._permission)
        self._each(found.topic_permissions, self._topic_permission)
        self._each([one for one in found.parameters if one.record.component != VHOST_LIMITS], self._parameter)
        self._each(found.global_parameters, self._global_parameter)
        # Before the queues they apply to: those are then right from the start.
        self._each(found.policies, self._policy)
        self._each(found.exchanges, self._exchange)
        self._each(found.queues, self._queue)
        self._each(found.bindings, self._binding)
        self._check_queue_counts()
        return self.plan

    def _each(self, entries: list[Placed[T]], judge: Callable[[str, T], None]) -> None:
        for entry in entries:
            if len(self.plan.problems) >= PROBLEMS_MAX:
                return
            try:
                judge(entry.place, entry.record)
            except (InvalidRequest, InvalidPolicy, AmqpError) as error:
                self.plan.problems.append(_problem(entry.place, error))

    # ---- virtual hosts

    def _vhost(self, place: str, entry: VhostEntry) -> None:
        said = {
            name: value
            for name in ("description", "tags", "default_queue_type", "tracing", "protected")
            if (value := getattr(entry, name)) is not None
        }
        vhost = msgspec.structs.replace(self.vhosts.get(entry.name, Vhost(entry.name)), **said)
        check_vhost(vhost)
        self.vhosts[entry.name] = vhost

    def _vhost_limits(self, place: str, parameter: Parameter) -> None:
        vhost = self._known_vhost(parameter.vhost)
        check_parameter(parameter)
        self.vhosts[vhost.name] = msgspec.structs.replace(vhost, limits=dict(parameter.value))

    def _put_vhosts(self) -> None:
        for name, vhost in self.vhosts.items():
            self._replace("vhost", "", name, self._catalog.vhosts.get(name), vhost, commands.PutVhost(vhost))

    def _known_vhost(self, name: str) -> Vhost:
        vhost = self.vhosts.get(name)
        if vhost is None:
            raise InvalidRequest(f"there is no virtual host '{name}'")
        return vhost

    # ---- users

    def _user(self, place: str, entry: UserEntry) -> None:
        existing = self.users.get(entry.name)
        limits = entry.limits if entry.limits is not None else {} if existing is None else existing.limits
        user = User(entry.name, entry.password_hash or "", tuple(dict.fromkeys(entry.tags)), dict(limits))
        check_user(user)
        self.users[entry.name] = user
        self._replace("user", "", entry.name, existing, user, commands.PutUser(user))

    def _known_user(self, name: str) -> None:
        if name not in self.users:
            raise InvalidRequest(f"there is no user '{name}'")

    def _permission(self, place: str, record: Permission) -> None:
        self._known_vhost(record.vhost)
        self._known_user(record.user)
        check_permission(record)
        existing = self._catalog.permissions.get((record.user, record.vhost))
        self._replace("permission", record.vhost, record.user, existing, record, commands.PutPermission(record))

    def _topic_permission(self, place: str, record: TopicPermission) -> None:
        self._known_vhost(record.vhost)
        self._known_user(record.user)
        check_topic_permission(record)
        existing = self._catalog.topic_permissions.get((record.user, record.vhost, record.exchange))
        name = f"{record.user} {record.exchange}"
        self._replace("topic_permission", record.vhost, name, existing, record, commands.PutTopicPermission(record))

    # ---- parameters and policies

    def _parameter(self, place: str, record: Parameter) -> None:
        self._known_vhost(record.vhost)
        check_parameter(record)
        existing = self._catalog.parameters.get((record.vhost, record.component, record.name))
        name = f"{record.component} {record.name}"
        self._replace("parameter", record.vhost, name, existing, record, commands.PutParameter(record))

    def _global_parameter(self, place: str, record: GlobalParameter) -> None:
        if record.name.startswith(OWN_PREFIX):
            return
        check_global(record)
        existing = self._catalog.global_parameters.get(record.name)
        self._replace("global_parameter", "", record.name, existing, record, commands.PutGlobalParameter(record))

    def _policy(self, place: str, record: Policy) -> None:
        self._known_vhost(record.vhost)
        check_policy(record, imported=True)
        sleeping = mirroring_refusal(record.definition)
        if sleeping is not None:
            self.plan.notices.append((place, f"kept as it is, but {sleeping[1]}"))
        record = msgspec.structs.replace(record, set_at_ms=self._broker.clock.now_ms())
        book = self._catalog.policies.get(record.vhost)
        existing = None if book is None else book.find(record.name, record.operator)
        if existing is not None:
            # When it was set says nothing about what it is.
            existing = msgspec.structs.replace(existing, set_at_ms=record.set_at_ms)
        kind = "operator_policy" if record.operator else "policy"
        self._replace(kind, record.vhost, record.name, existing, record, commands.PutPolicy(record))

    # ---- exchanges and queues

    def _exchange(self, place: str, record: ExchangeRecord) -> None:
        self._known_vhost(record.vhost)
        if record.name == "" or record.name.startswith(RESERVED_PREFIX):
            # Every virtual host has them, and RabbitMQ passes over others as well.
            return
        what = exchange_text(record.vhost, record.name)
        existing = self._exchanges_of(record.vhost).get(record.name)
        if existing is not None:
            self._same(place, lambda: assert_same_exchange(existing, what, record))
            return
        exchange_type(record.kind).validate_arguments(record.arguments, what)
        if record.durable and keeps_something(record):
            record = msgspec.structs.replace(record, id=self._new_id())
        self._exchanges_of(record.vhost)[record.name] = record
        self._create(EXCHANGE, record.vhost, record.name, commands.DeclareExchange(record), record.durable)

    def _queue(self, place: str, record: QueueRecord) -> None:
        vhost = self._known_vhost(record.vhost)
        if record.name.startswith(RESERVED_PREFIX):
            return
        what = queue_text(record.vhost, record.name)
        existing = self._queues_of(record.vhost).get(record.name)
        if existing is not None:
            arguments = record.arguments
            self._same(place, lambda: assert_same_queue(existing, what, record.durable, record.auto_delete, arguments))
            return
        arguments = record.arguments
        if vhost.default_queue_type and record.durable and "x-queue-type" not in arguments:
            arguments = {**arguments, "x-queue-type": vhost.default_queue_type}
        check_dead_letter_exchange(arguments, what)
        kind = kind_from_arguments(arguments, what)
        record = msgspec.structs.replace(record, kind=kind, arguments=arguments)
        queue_type(kind).validate(record, what)
        if queue_type(kind).needs_disk and self._broker.store is None:
            raise InvalidRequest(f"{what} needs a data directory, and this broker has none")
        if record.durable:
            record = msgspec.structs.replace(record, id=self._new_id(), created_ms=self._broker.office.now)
        self._queues_of(record.vhost)[record.name] = record
        self._create(QUEUE, record.vhost, record.name, commands.DeclareQueue(record), record.durable)

    def _binding(self, place: str, record: BindingRecord) -> None:
        self._known_vhost(record.vhost)
        if record.source == "":
            # Every queue is bound to the default exchange.
            return
        source = self._exchanges_of(record.vhost).get(record.source)
        if source is None:
            raise InvalidRequest(f"there is no {exchange_text(record.vhost, record.source)}")
        if record.to_queue:
            queue = self._queues_of(record.vhost).get(record.destination)
            if queue is None:
                raise InvalidRequest(f"there is no {queue_text(record.vhost, record.destination)}")
            durable = source.durable and queue.durable and queue.owner == 0
        else:
            exchange = self._exchanges_of(record.vhost).get(record.destination)
            if exchange is None:
                raise InvalidRequest(f"there is no {exchange_text(record.vhost, record.destination)}")
            durable = source.durable and exchange.durable
        routing_type(source).validate_binding(record.routing_key, record.arguments)
        topology = self._catalog.topologies.get(record.vhost)
        key = (record.vhost, binding_key(record))
        if key in self._bindings or (topology is not None and topology.find_binding(record) is not None):
            self.plan.unchanged += 1
            return
        self._bindings.add(key)
        name = f"{record.source} -> {record.destination} {record.routing_key}"
        self._create("binding", record.vhost, name, commands.Bind(record), durable)

    def _check_queue_counts(self) -> None:
        for name, queues in self._queues.items():
            limit = self.vhosts[name].limits.get("max-queues", -1)
            topology = self._catalog.topologies.get(name)
            before = 0 if topology is None else len(topology.queues)
            if 0 <= limit < len(queues) and len(queues) > before:
                text = f"virtual host '{name}' would have {len(queues)} queues, and its limit is {limit}"
                self.plan.problems.append(("queues", text))

    # ---- what both come to

    def _exchanges_of(self, vhost: str) -> dict[str, ExchangeRecord]:
        if vhost not in self._exchanges:
            topology = self._catalog.topologies.get(vhost)
            self._exchanges[vhost] = _predeclared(vhost) if topology is None else dict(topology.exchanges)
        return self._exchanges[vhost]

    def _queues_of(self, vhost: str) -> dict[str, QueueRecord]:
        if vhost not in self._queues:
            topology = self._catalog.topologies.get(vhost)
            self._queues[vhost] = {} if topology is None else dict(topology.queues)
        return self._queues[vhost]

    def _new_id(self) -> int:
        """Commands get ids before they are applied, so those after the catalog's next are counted here."""
        given = self._next_id
        if given:
            self._next_id += 1
        return given

    def _same(self, place: str, compare: Callable[[], None]) -> None:
        try:
            compare()
            self.plan.unchanged += 1
        except AmqpError as error:
            if not self._keep:
                raise
            self.plan.kept.append(_problem(place, error))

    def _create(self, kind: str, vhost: str, name: str, command: Command, durable: bool) -> None:
        self.plan.steps.append(Step(CREATE, kind, vhost, name))
        (self.plan.durable if durable else self.plan.transient).append(command)

    def _replace(self, kind: str, vhost: str, name: str, existing: Any, record: Any, command: Command) -> None:
        if existing == record:
            self.plan.unchanged += 1
            return
        fields: tuple[str, ...] = ()
        if existing is not None:
            fields = tuple(
                field for field in record.__struct_fields__ if getattr(existing, field) != getattr(record, field)
            )
        self.plan.steps.append(Step(CREATE if existing is None else CHANGE, kind, vhost, name, fields))
        self.plan.durable.append(command)


def _predeclared(vhost: str) -> dict[str, ExchangeRecord]:
    return {
        name: ExchangeRecord(vhost, name, kind, True, False, internal, {})
        for name, kind, internal in PREDECLARED_EXCHANGES
    }


def _problem(place: str, error: Exception) -> tuple[str, str]:
    """The place as exactly as the error allows."""
    if isinstance(error, InvalidPolicy):
        field = error.key if error.key in ("name", "pattern", "priority", "apply-to", "definition", "vhost") else ""
        return (f"{place}.{field}" if field else f"{place}.definition.{error.key}", error.text)
    if isinstance(error, AmqpError):
        about = _ABOUT_ARGUMENT.fullmatch(error.text)
        if about is None:
            return place, error.text
        field = about[1] if about[1] in ("durable", "auto_delete", "internal", "type") else f"arguments.{about[1]}"
        text = error.text if error.text.startswith("inequivalent") else about[2]
        return f"{place}.{field}", text
    return place, str(error).removeprefix("Validation failed\n\n").strip()
