"""Shovels and federation links: their status as RabbitMQ's plugins show it, and what operators may ask of them.

A shovel is made and changed by its parameter (`api/parameters.py`); what runs is known to the links themselves
(`broker.link_status.LinkDesk`). No answer here has a user or a password in it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from leveret.auth.access import Right
from leveret.broker.link_status import LinkStatus
from leveret.catalog.parameters import SHOVEL
from leveret.management.api.vhosts import existing_vhost
from leveret.management.http.errors import not_found
from leveret.management.http.request import DONE, Answer, Request
from leveret.management.http.route import Scope, route


def shown_link(status: LinkStatus) -> dict[str, Any]:
    """What shovels and federation links have in common."""
    shown: dict[str, Any] = {
        "node": status.node,
        "timestamp": datetime.fromtimestamp(status.since, UTC).strftime("%Y-%m-%d %H:%M:%S"),
        "name": status.name,
        "vhost": status.vhost,
        "type": status.kind,
    }
    if status.reason:
        shown["reason"] = status.reason
    counters = status.counters
    shown["leveret"] = {
        "messages_forwarded": counters.forwarded,
        "bytes_forwarded": counters.forwarded_bytes,
        "messages_confirmed": counters.confirmed,
        "messages_dropped": counters.dropped,
        "messages_refused": counters.refused,
        "reconnects": counters.reconnects,
        "messages_in_flight": status.in_flight,
        "messages_waiting": status.lag,
    }
    return {**shown, **status.details}


def shown_shovel(status: LinkStatus) -> dict[str, Any]:
    return {**shown_link(status), "state": status.state}


@route("GET", "/api/shovels", Right.MONITORING, "Shovels and their state")
@route("GET", "/api/shovels/{vhost}", Right.MONITORING, "Shovels of a virtual host", scope=Scope.NAME)
def get_shovels(request: Request) -> list[dict[str, Any]]:
    vhost = existing_vhost(request).name if "vhost" in request.path else None
    return [shown_shovel(one) for one in request.services.links.shovels(vhost)]


def _existing_shovel(request: Request) -> LinkStatus:
    vhost, name = existing_vhost(request).name, request.path["name"]
    found = next((one for one in request.services.links.shovels(vhost) if one.name == name), None)
    if found is None:
        raise not_found()
    return found


@route("GET", "/api/shovels/vhost/{vhost}/{name}", Right.MONITORING, "Status of a shovel", scope=Scope.NAME)
def get_shovel(request: Request) -> dict[str, Any]:
    return shown_shovel(_existing_shovel(request))


@route(
    "DELETE",
    "/api/shovels/vhost/{vhost}/{name}",
    Right.POLICYMAKER,
    "Delete a shovel, which is a parameter",
    scope=Scope.GOVERN,
)
async def delete_shovel(request: Request) -> Answer:
    vhost, name = existing_vhost(request).name, request.path["name"]
    if not await request.durably(lambda: request.services.parameters.delete(vhost, SHOVEL, name)):
        raise not_found()
    return DONE


@route(
    "DELETE",
    "/api/shovels/vhost/{vhost}/{name}/restart",
    Right.POLICYMAKER,
    "Restart a shovel that runs",
    scope=Scope.GOVERN,
)
def restart_shovel(request: Request) -> Answer:
    if not request.services.links.restart_shovel(existing_vhost(request).name, request.path["name"]):
        raise not_found()
    return DONE


@route(
    "PUT",
    "/api/shovels/vhost/{vhost}/{name}/pause",
    Right.POLICYMAKER,
    "Pause a shovel until it is resumed, over restarts of the broker too",
    scope=Scope.GOVERN,
)
async def pause_shovel(request: Request) -> Answer:
    return await _set_paused(request, True)


@route("DELETE", "/api/shovels/vhost/{vhost}/{name}/pause", Right.POLICYMAKER, "Resume a shovel", scope=Scope.GOVERN)
async def resume_shovel(request: Request) -> Answer:
    return await _set_paused(request, False)


async def _set_paused(request: Request, paused: bool) -> Answer:
    vhost, name = existing_vhost(request).name, request.path["name"]
    if not await request.durably(lambda: request.services.links.pause_shovel(vhost, name, paused)):
        raise not_found()
    return DONE


# ---- federation


def shown_federation_link(status: LinkStatus) -> dict[str, Any]:
    shown = shown_link(status)
    error = shown.pop("reason", None)
    shown.pop("name")
    return {**shown, "status": status.state, **({"error": error} if error is not None else {})}


@route("GET", "/api/federation-links", Right.MONITORING, "Federation links and their state")
@route(
    "GET",
    "/api/federation-links/{vhost}",
    Right.MONITORING,
    "Federation links of a virtual host",
    scope=Scope.NAME,
)
@route("GET", "/api/federation-links/state/{state}", Right.MONITORING, "Federation links in a state")
@route(
    "GET",
    "/api/federation-links/{vhost}/state/{state}",
    Right.MONITORING,
    "Federation links of a virtual host in a state",
    scope=Scope.NAME,
)
def get_links(request: Request) -> list[dict[str, Any]]:
    vhost = existing_vhost(request).name if "vhost" in request.path else None
    state = request.path.get("state")
    return [shown_federation_link(one) for one in request.services.links.federation(vhost) if _is_in(one, state)]


def _is_in(status: LinkStatus, state: str | None) -> bool:
    """`down` is RabbitMQ's word for everything that does not run."""
    if state is None:
        return True
    return status.state != "running" if state == "down" else status.state == state


@route(
    "DELETE",
    "/api/federation-links/vhost/{vhost}/{id}/{node}/restart",
    Right.POLICYMAKER,
    "Restart a federation link",
    scope=Scope.GOVERN,
)
def restart_link(request: Request) -> Answer:
    if not request.services.links.restart_federation(existing_vhost(request).name, request.path["id"]):
        raise not_found()
    return DONE
