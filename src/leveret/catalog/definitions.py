"""Definitions as JSON: everything that is not a message, in RabbitMQ's words.

`export` writes what a catalog has and survives. Reading is in definition_reader.py. Neither knows queue or exchange
types, nor whether what is read fits what exists: broker/definitions.py does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from leveret.catalog.catalog import PREDECLARED_EXCHANGES, Catalog
from leveret.catalog.parameters import LIMITS, OPERATOR_POLICY, VHOST_LIMITS
from leveret.catalog.passwords import shown_hash
from leveret.catalog.records import BindingRecord, ExchangeRecord, Parameter, Policy, QueueRecord, User, Vhost
from leveret.catalog.snapshot import binding_survives, survives

QUEUE, EXCHANGE = "queue", "exchange"
# Global parameters with such a name are the broker's own.
OWN_PREFIX = "leveret."
PREDECLARED = frozenset(name for name, _, _ in PREDECLARED_EXCHANGES)


def export(catalog: Catalog, heading: dict[str, Any]) -> dict[str, Any]:
    """All of it. `heading` are versions and the like, which come first."""
    vhosts = list(catalog.vhosts)
    return {
        **heading,
        "users": [shown_user(user) for user in catalog.users.values()],
        "vhosts": [shown_vhost(vhost) for vhost in catalog.vhosts.values()],
        "permissions": [
            {
                "user": one.user,
                "vhost": one.vhost,
                "configure": one.configure,
                "write": one.write,
                "read": one.read,
            }
            for one in catalog.permissions.values()
        ],
        "topic_permissions": [
            {"user": one.user, "vhost": one.vhost, "exchange": one.exchange, "write": one.write, "read": one.read}
            for one in catalog.topic_permissions.values()
        ],
        "global_parameters": [
            {"name": one.name, "value": one.value}
            for one in catalog.global_parameters.values()
            if not one.name.startswith(OWN_PREFIX)
        ],
        **_in_vhosts(catalog, vhosts, with_vhost=True),
    }


def export_vhost(catalog: Catalog, vhost: str, heading: dict[str, Any]) -> dict[str, Any]:
    """What is in one virtual host. Things do not say which, so that they can go into another one."""
    return {**heading, **_in_vhosts(catalog, [vhost], with_vhost=False)}


def _in_vhosts(catalog: Catalog, vhosts: list[str], with_vhost: bool) -> dict[str, Any]:
    def made(vhost: str, shown: dict[str, Any]) -> dict[str, Any]:
        return {"vhost": vhost, **shown} if with_vhost else shown

    return {
        "parameters": [shown_parameter(one) for vhost in vhosts for one in _parameters(catalog, vhost)],
        "policies": [
            shown_policy(policy) for vhost in vhosts for policy in catalog.policies[vhost].all() if not policy.operator
        ],
        "queues": [
            made(vhost, shown_queue(queue))
            for vhost in vhosts
            for queue in catalog.topologies[vhost].queues.values()
            if survives(queue)
        ],
        "exchanges": [
            made(vhost, shown_exchange(exchange))
            for vhost in vhosts
            for exchange in catalog.topologies[vhost].exchanges.values()
            if exchange.durable and exchange.name not in PREDECLARED
        ],
        "bindings": [
            made(vhost, shown_binding(binding))
            for vhost in vhosts
            for bindings in catalog.topologies[vhost].bindings_from.values()
            for binding in bindings.values()
            if binding_survives(catalog, binding)
        ],
    }


def _parameters(catalog: Catalog, vhost: str) -> Iterator[Parameter]:
    limits = catalog.vhosts[vhost].limits
    if limits:
        yield Parameter(vhost, VHOST_LIMITS, LIMITS, limits)
    for policy in catalog.policies[vhost].all():
        if policy.operator:
            yield Parameter(vhost, OPERATOR_POLICY, policy.name, policy_value(policy))
    yield from (one for one in catalog.parameters.values() if one.vhost == vhost)


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
