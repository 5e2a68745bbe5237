"""The broker at a glance, and what it is called."""

from __future__ import annotations

import platform
from typing import Any

from leveret import __version__
from leveret.broker.access import Right
from leveret.broker.compat import RABBITMQ_VERSION
from leveret.catalog import commands
from leveret.catalog.records import GlobalParameter
from leveret.management.api.numbers import (
    LENGTHS,
    MESSAGE_RATES,
    SPAN_PARAMETERS,
    Described,
    detailed,
    without_rates,
)
from leveret.management.api.totals import totals_in
from leveret.management.api.visible import meant_connections, meant_vhosts, sees_everything
from leveret.management.http.ask import DONE, Answer, Ask
from leveret.management.http.bodies import NAME_BODY
from leveret.management.http.errors import bad_request, keys_missing
from leveret.management.http.lists import one
from leveret.management.http.route import Login, route
from leveret.management.services import Listening
from leveret.routing.registry import EXCHANGE_TYPE_NAMES

CLUSTER_NAME = "cluster_name"
NAME_CHARACTERS_MAX = 255
PRODUCT = "Leveret"
# What is kept of samples, in seconds, as broker/statistics keeps it.
RETENTION = {"global": [600, 3600, 28800, 86400], "basic": [600, 3600], "detailed": [600]}


@route("GET", "/api/overview", Right.MANAGEMENT, "The broker at a glance", query=SPAN_PARAMETERS)
def get_overview(ask: Ask) -> Described:
    found: Described = {
        "management_version": RABBITMQ_VERSION,
        "rabbitmq_version": RABBITMQ_VERSION,
        "product_name": PRODUCT,
        "product_version": __version__,
        # Nothing here runs on it; tools look for the key.
        "erlang_version": f"none, Python {platform.python_version()}",
        "erlang_full_version": f"none, {platform.python_implementation()} {platform.python_version()}",
        "cluster_name": cluster_name(ask),
        "cluster_tags": {},
        "node": ask.services.node_name,
        "node_tags": {},
        "rates_mode": "basic",
        "release_series_support_status": "supported",
        "sample_retention_policies": RETENTION,
        "disable_stats": False,
        "enable_queue_totals": False,
        "is_op_policy_updating_enabled": True,
        "exchange_types": exchange_types(),
        "statistics_db_event_queue": 0,
        "default_queue_type": "classic",
    }
    found |= _everything(ask) if sees_everything(ask) else _own(ask)
    return one(ask, found)


def _everything(ask: Ask) -> Described:
    """For those who look after the whole node."""
    found, statistics = _own(ask), ask.services.statistics
    totals = statistics.totals()
    found |= {
        "message_stats": detailed(ask, statistics.overview, totals.message_stats, MESSAGE_RATES),
        "churn_rates": detailed(ask, statistics.overview, totals.churn, MESSAGE_RATES),
        "listeners": [describe_listener(ask, one) for one in ask.services.listeners()],
        "contexts": contexts(ask),
    }
    return found


def _own(ask: Ask) -> Described:
    """What there is in the virtual hosts that the caller sees, and of connections what he sees of them."""
    vhosts, connections = meant_vhosts(ask), meant_connections(ask)
    totals = totals_in(vhosts)
    return {
        "queue_totals": detailed(ask, ask.services.statistics.overview, totals.lengths, LENGTHS)
        if sees_everything(ask)
        else without_rates(totals.lengths),
        "message_stats": without_rates(totals.counts),
        "object_totals": {
            "channels": sum(connection.channel_count for connection in connections),
            "connections": len(connections),
            "consumers": totals.consumers,
            "exchanges": sum(len(vhost.exchanges) for vhost in vhosts),
            "queues": totals.queues,
        },
    }


# ---- parts that nodes show, too


def describe_listener(ask: Ask, listener: Listening) -> Described:
    return {
        "node": ask.services.node_name,
        "protocol": listener.full_protocol,
        "ip_address": listener.host,
        "port": listener.port,
        "tls": listener.tls,
        "socket_opts": {"nodelay": True},
    }


def contexts(ask: Ask) -> list[Described]:
    """The ports that speak HTTP, as RabbitMQ has them: the port is a text."""
    return [
        {
            "description": f"{PRODUCT} {'Prometheus' if listener.protocol == 'http/prometheus' else 'Management'}",
            "node": ask.services.node_name,
            "path": "/",
            "ip": listener.host,
            "port": str(listener.port),
            "protocol": listener.protocol,
            "ssl_opts": [],
        }
        for listener in ask.services.listeners()
        if listener.protocol.startswith("http")
    ]


def exchange_types() -> list[Described]:
    return [{"name": name, "description": "", "enabled": True} for name in EXCHANGE_TYPE_NAMES]


# ---- names


@route("GET", "/api/version", Login.USER, "The version of the broker")
def get_version(ask: Ask) -> str:
    return __version__


@route("GET", "/api/extensions", Right.MANAGEMENT, "Extensions of the user interface: none")
def get_extensions(ask: Ask) -> list[Any]:
    return []


def cluster_name(ask: Ask) -> str:
    chosen = ask.services.broker.catalog.global_parameters.get(CLUSTER_NAME)
    return str(chosen.value) if chosen is not None else ask.services.cluster_name


@route("GET", "/api/cluster-name", Right.MANAGEMENT, "What the cluster is called")
def get_cluster_name(ask: Ask) -> Described:
    return {"name": cluster_name(ask)}


@route(
    "PUT",
    "/api/cluster-name",
    Right.ADMINISTRATOR,
    "Gives the cluster another name",
    answers={204: None},
    accepts=NAME_BODY,
)
async def put_cluster_name(ask: Ask) -> Answer:
    if not isinstance(ask.body, dict) or "name" not in ask.body:
        raise keys_missing("name")
    name = ask.body["name"]
    if not isinstance(name, str) or not 0 < len(name) <= NAME_CHARACTERS_MAX:
        raise bad_request(f"name must be a text of 1 to {NAME_CHARACTERS_MAX} characters")
    command = commands.PutGlobalParameter(GlobalParameter(CLUSTER_NAME, name))
    await ask.durably(lambda: ask.services.broker.apply(command))
    return DONE
