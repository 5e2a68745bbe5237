"""RabbitMQ's definitions, made fit for us: what we do not have is changed or left out, and said.

An import is all or nothing, so that one queue of a type that is not there would keep everything out. What is left is
checked by the same rules as a declaration, and then as an import."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from leveret.broker.broker import Broker
from leveret.broker.definitions import DefinitionService
from leveret.broker.users import UserService
from leveret.catalog.json_tables import table_from_json
from leveret.catalog.parameters import SHOVEL, UPSTREAM, UPSTREAM_SET, parameter_problems
from leveret.catalog.passwords import ALGORITHMS, RABBIT_SHA256, read_hash
from leveret.catalog.patterns import compile_pattern
from leveret.catalog.policy_keys import KEYS, check_policy, mirroring_refusal
from leveret.catalog.records import Policy, QueueRecord
from leveret.errors import AmqpError, ConfigError, LeveretError
from leveret.node.migrate.findings import CHANGED, IGNORED, TAKEN, UNSUPPORTED, Finding
from leveret.node.migrate.headers_bindings import (
    SETTING,
    needs_argument,
    needs_setting,
    sources_ignoring_x,
    with_argument,
)
from leveret.queues.queue_type import ARGUMENT_CHECKS, check_dead_letter_exchange
from leveret.queues.registry import DEFAULT, known_kind, queue_type
from leveret.routing.headers import IGNORE_X
from leveret.routing.registry import EXCHANGE_TYPE_NAMES, exchange_type
from leveret.runtime.clock import Clock
from leveret.runtime.dice import Dice
from leveret.storage.store import Store, StoreSettings

SECTIONS = (
    *("users", "vhosts", "permissions", "topic_permissions", "parameters", "global_parameters"),
    *("policies", "queues", "exchanges", "bindings"),
)
LINK_COMPONENTS = (SHOVEL, UPSTREAM, UPSTREAM_SET)
Thing = dict[str, Any]


class Adaptation:
    """Used once, by `adapt`."""

    def __init__(self, place: str, ignoring_x: set[tuple[str, str]]) -> None:
        """`ignoring_x` are the exchanges with bindings of which RabbitMQ does not look at some arguments."""
        self.findings: list[Finding] = []
        self._place = place
        self._ignoring_x = ignoring_x
        # Exchanges and queues that are not there any more: kind, virtual host and name.
        self._gone: set[tuple[str, str, str]] = set()

    def say(self, verdict: str, what: str, text: str) -> None:
        self.findings.append(Finding(verdict, what, text, self._place))

    # ---- one thing each; None leaves it out

    def user(self, user: Thing) -> Thing | None:
        name = _text(user, "name")
        algorithm = user.get("hashing_algorithm") or ALGORITHMS[RABBIT_SHA256]
        try:
            read_hash(user.get("password_hash") or "", algorithm)
        except (ValueError, TypeError, AttributeError) as error:
            self.say(UNSUPPORTED, f"user '{name}'", f"{error}; he cannot log in until he has a new one")
            return {**user, "password_hash": "", "hashing_algorithm": ALGORITHMS[RABBIT_SHA256]}
        return user

    def vhost(self, vhost: Thing) -> Thing | None:
        name = _text(vhost, "name")
        kept = dict(vhost)
        metadata = dict(kept.get("metadata") or {})
        kind = kept.get("default_queue_type") or metadata.get("default_queue_type")
        if kind and kind != "undefined" and known_kind(kind) is None:
            kept.pop("default_queue_type", None)
            metadata.pop("default_queue_type", None)
            if "metadata" in kept:
                kept["metadata"] = metadata
            self.say(CHANGED, f"vhost '{name}'", f"there are no {kind} queues: it has classic ones by default")
        return kept

    def permission(self, permission: Thing) -> Thing | None:
        return self._with_patterns(permission, ("configure", "write", "read"))

    def topic_permission(self, permission: Thing) -> Thing | None:
        return self._with_patterns(permission, ("write", "read"))

    def _with_patterns(self, permission: Thing, fields: tuple[str, ...]) -> Thing | None:
        what = f"permission of '{_text(permission, 'user')}' in vhost '{_text(permission, 'vhost')}'"
        for field in fields:
            try:
                compile_pattern(_text(permission, field))
            except ValueError as error:
                self.say(UNSUPPORTED, what, f"left out: {field} is no pattern: {error}")
                return None
        return permission

    def parameter(self, parameter: Thing) -> Thing | None:
        component, name = _text(parameter, "component"), _text(parameter, "name")
        what = f"{component} '{name}' in vhost '{_text(parameter, 'vhost')}'"
        if component == "operator_policy":
            value = parameter.get("value")
            if not isinstance(value, dict):
                raise ValueError(f"{what}: its value must be an object")
            judged = self._judged({**value, "name": name, "vhost": parameter["vhost"]}, what, operator=True)
            return None if judged is None else {**parameter, "value": {**value, "definition": judged["definition"]}}
        if component in LINK_COMPONENTS:
            problems = parameter_problems(component, name, parameter.get("value"))
            if problems:
                self.say(UNSUPPORTED, what, f"left out: {'; '.join(problems)}")
                return None
            if component == SHOVEL:
                # It must not come as a surprise that messages begin to move.
                self.say(CHANGED, what, "it runs as soon as it is imported; stop the one in RabbitMQ before")
        return parameter

    def global_parameter(self, parameter: Thing) -> Thing | None:
        name = _text(parameter, "name")
        if name == "internal_cluster_id":
            self.say(IGNORED, f"global parameter '{name}'", "this broker is another one")
            return None
        return parameter

    def policy(self, policy: Thing) -> Thing | None:
        what = f"policy '{_text(policy, 'name')}' in vhost '{_text(policy, 'vhost')}'"
        return self._judged(policy, what, operator=False)

    def _judged(self, policy: Thing, what: str, operator: bool) -> Thing | None:
        definition = policy.get("definition")
        if isinstance(definition, dict):
            unknown = [key for key in definition if key not in KEYS]
            if unknown:
                definition = {key: value for key, value in definition.items() if key in KEYS}
                verdict = CHANGED if definition else UNSUPPORTED
                text = f"without {', '.join(unknown)}, which is not known here"
                self.say(verdict, what, text if definition else f"left out: nothing of it is known here ({text})")
                if not definition:
                    return None
        try:
            check_policy(
                Policy(
                    vhost=policy["vhost"],
                    name=policy["name"],
                    pattern=policy.get("pattern", ""),
                    definition=definition,  # type: ignore[arg-type]  # judged as it came
                    priority=policy.get("priority", 0),
                    apply_to=policy.get("apply-to", "all"),
                    operator=operator,
                ),
                imported=True,
            )
        except LeveretError as error:
            self.say(UNSUPPORTED, what, f"left out: {error}")
            return None
        assert isinstance(definition, dict)
        sleeping = mirroring_refusal(definition)
        if sleeping is not None:
            self.say(UNSUPPORTED, what, f"kept, but {sleeping[1]}")
        return {**policy, "definition": definition}

    def queue(self, queue: Thing) -> Thing | None:
        vhost, name = _text(queue, "vhost"), _text(queue, "name")
        what = f"queue '{name}' in vhost '{vhost}'"
        arguments = dict(queue.get("arguments") or {})
        kind = arguments.get("x-queue-type") or queue.get("type") or DEFAULT
        kept = {**queue, "arguments": arguments}
        if known_kind(kind) is None:
            taken = queue_type(DEFAULT).arguments
            lost = [key for key in arguments if key in ARGUMENT_CHECKS and key not in taken]
            kept["arguments"] = {
                key: value for key, value in arguments.items() if key != "x-queue-type" and key not in lost
            }
            kept.pop("type", None)
            kept["durable"] = True
            without = f", without {', '.join(lost)}" if lost else ""
            self.say(CHANGED, what, f"there are no {kind} queues: it becomes a durable classic one{without}")
            kind = DEFAULT
        try:
            table = table_from_json(kept["arguments"])
            check_dead_letter_exchange(table, what)
            record = QueueRecord(
                vhost, name, kind, bool(kept.get("durable", True)), bool(kept.get("auto_delete")), 0, table, 1
            )
            queue_type(kind).validate(record, what)
        except (AmqpError, ValueError) as error:
            self.say(UNSUPPORTED, what, f"left out: {error}")
            self._gone.add(("queue", vhost, name))
            return None
        return kept

    def exchange(self, exchange: Thing) -> Thing | None:
        vhost, name = _text(exchange, "vhost"), _text(exchange, "name")
        what = f"exchange '{name}' in vhost '{vhost}'"
        kind = _text(exchange, "type")
        try:
            if kind not in EXCHANGE_TYPE_NAMES:
                raise ValueError(f"there is no type {kind}")
            exchange_type(kind).validate_arguments(table_from_json(exchange.get("arguments")), what)
        except (AmqpError, ValueError) as error:
            self.say(UNSUPPORTED, what, f"left out: {error}")
            self._gone.add(("exchange", vhost, name))
            return None
        if (vhost, name) in self._ignoring_x and needs_argument(exchange):
            text = f"with {IGNORE_X}: its bindings have arguments that begin with x-, at which RabbitMQ does not look"
            self.say(CHANGED, what, text)
            return with_argument(exchange)
        return exchange

    def binding(self, binding: Thing) -> Thing | None:
        """Comes after queues and exchanges: it goes with either of its ends."""
        vhost, source, destination = (_text(binding, field) for field in ("vhost", "source", "destination"))
        kind = _text(binding, "destination_type")
        if ("exchange", vhost, source) in self._gone or (kind, vhost, destination) in self._gone:
            what = f"binding of {kind} '{destination}' to '{source}' in vhost '{vhost}'"
            self.say(UNSUPPORTED, what, "left out with what it bound")
            return None
        return binding


def adapt(definitions: Any, place: str) -> tuple[Thing, list[Finding]]:
    """`place` is the file, for findings. Raises ConfigError if these are no definitions at all."""
    if not isinstance(definitions, dict):
        raise ConfigError(f"{place}: definitions are an object of lists, such as users and queues")
    adaptation = Adaptation(place, sources_ignoring_x(definitions))
    adapters: dict[str, Callable[[Thing], Thing | None]] = {
        "users": adaptation.user,
        "vhosts": adaptation.vhost,
        "permissions": adaptation.permission,
        "topic_permissions": adaptation.topic_permission,
        "parameters": adaptation.parameter,
        "global_parameters": adaptation.global_parameter,
        "policies": adaptation.policy,
        "queues": adaptation.queue,
        "exchanges": adaptation.exchange,
        "bindings": adaptation.binding,
    }
    made: Thing = {key: value for key, value in definitions.items() if key not in SECTIONS}
    counts: Counter[str] = Counter()
    for section in SECTIONS:
        given = definitions.get(section)
        if given is None:
            continue
        made[section] = _adapted(given, section, place, adapters[section])
        counts[section] = len(made[section])
    for vhost, name in needs_setting(made):
        text = f"set {SETTING}: its bindings have arguments that begin with x-, at which RabbitMQ does not look"
        adaptation.say(CHANGED, f"exchange '{name}' in vhost '{vhost}'", text)
    told = ", ".join(f"{count} {section.replace('_', ' ')}" for section, count in counts.items() if count)
    return made, [Finding(TAKEN, "definitions", told or "there are none", place), *adaptation.findings]


def refusals(definitions: Thing, place: str) -> list[Finding]:
    """What an import into an empty broker would still refuse, by the broker's own judgement."""
    dice = Dice()
    # Streams need a data directory, if only to be judged.
    with tempfile.TemporaryDirectory(prefix="leveret-") as folder:
        store = Store(Path(folder), StoreSettings(), dice.number)
        broker = Broker(dice, Clock(), store)
        try:
            plan = DefinitionService(broker, UserService(broker)).compare(definitions)
        finally:
            store.abandon()
            broker.close()
    return [Finding(UNSUPPORTED, f"import of {where}", text, place) for where, text in plan.problems]


def _adapted(given: Any, section: str, place: str, adapter: Callable[[Thing], Thing | None]) -> list[Thing]:
    if not isinstance(given, list):
        raise ConfigError(f"{place}: {section} must be a list")
    kept = []
    for number, thing in enumerate(given):
        if not isinstance(thing, dict):
            raise ConfigError(f"{place}: {section}[{number}] must be an object")
        try:
            made = adapter(thing)
        except (ValueError, TypeError, msgspec.ValidationError) as error:
            raise ConfigError(f"{place}: {section}[{number}]: {error}") from None
        if made is not None:
            kept.append(made)
    return kept


def _text(thing: Thing, field: str) -> str:
    value = thing.get(field)
    if not isinstance(value, str):
        raise ValueError(f"{field} is missing" if field not in thing else f"{field} must be text")
    return value
