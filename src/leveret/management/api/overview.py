"""The broker at a glance, and what it is called."""

from __future__ import annotations

import platform
from typing import Any

from leveret.auth.access import Right
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
from leveret.management.http.bodies import NAME_BODY
from leveret.management.http.errors import bad_request, keys_missing
from leveret.management.http.lists import one
from leveret.management.http.request import DONE, Answer, Request
from leveret.management.http.route import Login, route
from leveret.management.services import Listening
from leveret.routing.registry import EXCHANGE_TYPE_NAMES

CLUSTER_NAME = "cluster_name"
NAME_CHARACTERS_MAX = 255
# What is kept of samples, in seconds, as operations/statistics keeps it.
RETENTION = {"global": [600, 3600, 28800, 86400], "basic": [600, 3600], "detailed": [600]}


@route("GET", "/api/overview", Right.MANAGEMENT, "The broker at a glance", query=SPAN_PARAMETERS)
def get_overview(request: Request) -> Described:
    announced = request.services.broker.announced
    found: Described = {
        "management_version": announced.version,
        **announced.http_fields,
        # Nothing here runs on it; tools look for the key.
        "erlang_version": f"none, Python {platform.python_version()}",
        "erlang_full_version": f"none, {platform.python_implementation()} {platform.python_version()}",
        "cluster_name": cluster_name(request),
        "cluster_tags": {},
        "node": request.services.node_name,
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
    found |= _everything(request) if sees_everything(request) else _own(request)
    return one(request, found)


def _everything(request: Request) -> Described:
    """For those who look after the whole node."""
    found, statistics = _own(request), request.services.statistics
    totals = statistics.totals()
    found |= {
        "message_stats": detailed(request, statistics.overview, totals.message_stats, MESSAGE_RATES),
        "churn_rates": detailed(request, statistics.overview, totals.churn, MESSAGE_RATES),
        "listeners": [describe_listener(request, one) for one in request.services.listeners()],
        "contexts": contexts(request),
    }
    return found


def _own(request: Request) -> Described:
    """What there is in the virtual hosts that the caller sees, and the connections that they see."""
    vhosts, connections = meant_vhosts(request), meant_connections(request)
    totals = totals_in(vhosts)
    return {
        "queue_totals": detailed(request, request.services.statistics.overview, totals.lengths, LENGTHS)
        if sees_everything(request)
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


def describe_listener(request: Request, listener: Listening) -> Described:
    return {
        "node": request.services.node_name,
        "protocol": listener.full_protocol,
        "ip_address": listener.host,
        "port": listener.port,
        "tls": listener.tls,
        "socket_opts": {"nodelay": True},
    }


def contexts(request: Request) -> list[Described]:
    """The ports that speak HTTP, as RabbitMQ has them: the port is a text."""
    product = request.services.broker.announced.product
    return [
        {
            "description": f"{product} {'Prometheus' if listener.protocol == 'http/prometheus' else 'Management'}",
            "node": request.services.node_name,
            "path": "/",
            "ip": listener.host,
            "port": str(listener.port),
            "protocol": listener.protocol,
            "ssl_opts": [],
        }
        for listener in request.services.listeners()
        if listener.protocol.startswith("http")
    ]


def exchange_types() -> list[Described]:
    return [{"name": name, "description": "", "enabled": True} for name in EXCHANGE_TYPE_NAMES]


# ---- names


@route("GET", "/api/version", Login.USER, "The version of RabbitMQ that the broker is compatible with")
def get_version(request: Request) -> str:
    return request.services.broker.announced.version


@route("GET", "/api/extensions", Right.MANAGEMENT, "Extensions of the user interface: none")
def get_extensions(request: Request) -> list[Any]:
    return []


def cluster_name(request: Request) -> str:
    chosen = request.services.broker.catalog.global_parameters.get(CLUSTER_NAME)
    return str(chosen.value) if chosen is not None else request.services.cluster_name


@route("GET", "/api/cluster-name", Right.MANAGEMENT, "What the cluster is called")
def get_cluster_name(request: Request) -> Described:
    return {"name": cluster_name(request)}


@route(
    "PUT",
    "/api/cluster-name",
    Right.ADMINISTRATOR,
    "Gives the cluster another name",
    answers={204: None},
    accepts=NAME_BODY,
)
async def put_cluster_name(request: Request) -> Answer:
    if not isinstance(request.body, dict) or "name" not in request.body:
        raise keys_missing("name")
    name = request.body["name"]
    if not isinstance(name, str) or not 0 < len(name) <= NAME_CHARACTERS_MAX:
        raise bad_request(f"name must be a text of 1 to {NAME_CHARACTERS_MAX} characters")
    command = commands.PutGlobalParameter(GlobalParameter(CLUSTER_NAME, name))
    await request.durably(lambda: request.services.broker.apply(command))
    return DONE
