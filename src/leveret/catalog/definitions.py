"""Definitions as JSON: everything that is not a message, in RabbitMQ's words.

`export` writes what a catalog has and survives. Reading is in definition_reader.py. Neither knows queue or exchange
types, nor whether what is read fits what exists: broker/definitions.py does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from leveret.catalog.catalog import PREDECLARED_EXCHANGES, Catalog
from leveret.catalog.parameters import LIMITS, OPERATOR_POLICY, VHOST_LIMITS
from leveret.catalog.passwords import shown_hash
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
from leveret.catalog.snapshot import binding_survives, survives

QUEUE, EXCHANGE = "queue", "exchange"
# Global parameters with such a name are the broker's own.
OWN_PREFIX = "leveret."
PREDECLARED = frozenset(name for name, _, _ in PREDECLARED_EXCHANGES)


class Section(NamedTuple):
    """The records of one section, as they are at this moment, and how one is shown."""

    name: str
    records: list[Any]
    show: Callable[[Any], dict[str, Any]]


def export(catalog: Catalog, heading: dict[str, Any], vhost: str | None = None) -> dict[str, Any]:
    """All of it, or what is in one virtual host. `heading` are versions and the like, which come first."""
    return {**heading, **{one.name: [one.show(record) for record in one.records] for one in sections(catalog, vhost)}}


def sections(catalog: Catalog, vhost: str | None = None) -> list[Section]:
    """Records never change, so that whoever shows them may take his time."""
    if vhost is not None:
        return _in_vhosts(catalog, [vhost], with_vhost=False)
    return [
        Section("users", list(catalog.users.values()), shown_user),
        Section("vhosts", list(catalog.vhosts.values()), shown_vhost),
        Section("permissions", list(catalog.permissions.values()), shown_permission),
        Section("topic_permissions", list(catalog.topic_permissions.values()), shown_topic_permission),
        Section(
            "global_parameters",
            [one for one in catalog.global_parameters.values() if not one.name.startswith(OWN_PREFIX)],
            shown_global_parameter,
        ),
        *_in_vhosts(catalog, list(catalog.vhosts), with_vhost=True),
    ]


def _in_vhosts(catalog: Catalog, vhosts: list[str], with_vhost: bool) -> list[Section]:
    """Of one virtual host things do not say which, so that they can go into another one."""

    def made(show: Callable[[Any], dict[str, Any]]) -> Callable[[Any], dict[str, Any]]:
        return (lambda record: {"vhost": record.vhost, **show(record)}) if with_vhost else show

    topologies = [catalog.topologies[vhost] for vhost in vhosts]
    policies = [policy for vhost in vhosts for policy in catalog.policies[vhost].all() if not policy.operator]
    queues = [queue for topology in topologies for queue in topology.queues.values() if survives(queue)]
    exchanges = [
        exchange
        for topology in topologies
        for exchange in topology.exchanges.values()
        if exchange.durable and exchange.name not in PREDECLARED
    ]
    bindings = [
        binding
        for topology in topologies
        for bound in topology.bindings_from.values()
        for binding in bound.values()
        if binding_survives(catalog, binding)
    ]
    # In one pass: parameters of all virtual hosts stand together.
    parameters: dict[str, list[Parameter]] = {}
    for parameter in catalog.parameters.values():
        parameters.setdefault(parameter.vhost, []).append(parameter)
    shown = [one for vhost in vhosts for one in _parameters(catalog, vhost, parameters.get(vhost, []))]
    return [
        Section("parameters", shown, shown_parameter),
        Section("policies", policies, shown_policy),
        Section("queues", queues, made(shown_queue)),
        Section("exchanges", exchanges, made(shown_exchange)),
        Section("bindings", bindings, made(shown_binding)),
    ]


def _parameters(catalog: Catalog, vhost: str, parameters: list[Parameter]) -> Iterator[Parameter]:
    limits = catalog.vhosts[vhost].limits
    if limits:
        yield Parameter(vhost, VHOST_LIMITS, LIMITS, limits)
    for policy in catalog.policies[vhost].all():
        if policy.operator:
            yield Parameter(vhost, OPERATOR_POLICY, policy.name, policy_value(policy))
    yield from parameters


# ---- one thing, as the HTTP API shows it too


def shown_user(user: User) -> dict[str, Any]:
    password_hash, algorithm = shown_hash(user.password_hash)
    return {
        "name": user.name,
        "password_hash": password_hash,
        "hashing_algorithm": algorithm,
        "tags": list(user.tags),
        "limits": user.limits,
    }


def shown_vhost(vhost: Vhost) -> dict[str, Any]:
    """Only what was said of it: RabbitMQ takes a name alone."""
    shown: dict[str, Any] = {"name": vhost.name}
    if vhost.description or vhost.tags or vhost.default_queue_type:
        shown["description"] = vhost.description
        shown["tags"] = list(vhost.tags)
        shown["metadata"] = {"description": vhost.description, "tags": list(vhost.tags)}
    if vhost.default_queue_type:
        shown["default_queue_type"] = shown["metadata"]["default_queue_type"] = vhost.default_queue_type
    if vhost.tracing:
        shown["tracing"] = True
    if vhost.protected:
        shown["protected_from_deletion"] = True
    return shown


def shown_permission(permission: Permission) -> dict[str, Any]:
    return {
        "user": permission.user,
        "vhost": permission.vhost,
        "configure": permission.configure,
        "write": permission.write,
        "read": permission.read,
    }


def shown_topic_permission(permission: TopicPermission) -> dict[str, Any]:
    return {
        "user": permission.user,
        "vhost": permission.vhost,
        "exchange": permission.exchange,
        "write": permission.write,
        "read": permission.read,
    }


def shown_global_parameter(parameter: GlobalParameter) -> dict[str, Any]:
    return {"name": parameter.name, "value": parameter.value}


def shown_policy(policy: Policy) -> dict[str, Any]:
    return {
        "vhost": policy.vhost,
        "name": policy.name,
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": policy.definition,
        "priority": policy.priority,
    }


def policy_value(policy: Policy) -> dict[str, Any]:
    """The policy as the value of a parameter."""
    return {
        "pattern": policy.pattern,
        "definition": policy.definition,
        "priority": policy.priority,
        "apply-to": policy.apply_to,
    }


def shown_parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "value": parameter.value,
        "vhost": parameter.vhost,
        "component": parameter.component,
        "name": parameter.name,
    }


def shown_queue(queue: QueueRecord) -> dict[str, Any]:
    return {
        "name": queue.name,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "arguments": queue.arguments,
    }


def shown_exchange(exchange: ExchangeRecord) -> dict[str, Any]:
    return {
        "name": exchange.name,
        "type": exchange.kind,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": exchange.arguments,
    }


def shown_binding(binding: BindingRecord) -> dict[str, Any]:
    return {
        "source": binding.source,
        "destination": binding.destination,
        "destination_type": QUEUE if binding.to_queue else EXCHANGE,
        "routing_key": binding.routing_key,
        "arguments": binding.arguments,
    }
