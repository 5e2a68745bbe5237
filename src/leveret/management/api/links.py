"""Shovels and federation links. This broker keeps what they were told, and runs none of them yet: there is no status
to show."""

from __future__ import annotations

from typing import Any

from leveret.broker.access import Right
from leveret.catalog.parameters import SHOVEL
from leveret.management.api.vhosts import existing_vhost
from leveret.management.http.ask import DONE, Answer, Ask
from leveret.management.http.errors import not_found
from leveret.management.http.route import Scope, route


@route("GET", "/api/shovels", Right.MONITORING, "Shovels that run: none")
@route("GET", "/api/shovels/{vhost}", Right.MONITORING, "Shovels that run in a virtual host: none", scope=Scope.NAME)
@route("GET", "/api/federation-links", Right.MONITORING, "Federation links that run: none")
@route(
    "GET",
    "/api/federation-links/{vhost}",
    Right.MONITORING,
    "Federation links of a virtual host: none",
    scope=Scope.NAME,
)
@route("GET", "/api/federation-links/state/{state}", Right.MONITORING, "Federation links in a state: none")
@route(
    "GET",
    "/api/federation-links/{vhost}/{state}",
    Right.MONITORING,
    "Federation links of a virtual host in a state: none",
    scope=Scope.NAME,
)
def get_links(ask: Ask) -> list[Any]:
    if "vhost" in ask.path:
        existing_vhost(ask)
    return []


@route("GET", "/api/shovels/vhost/{vhost}/{name}", Right.MONITORING, "Status of a shovel", scope=Scope.NAME)
def get_shovel(ask: Ask) -> Answer:
    raise not_found()


@route(
    "DELETE",
    "/api/shovels/vhost/{vhost}/{name}",
    Right.POLICYMAKER,
    "Delete a shovel, which is a parameter",
    scope=Scope.GOVERN,
)
async def delete_shovel(ask: Ask) -> Answer:
    vhost, name = existing_vhost(ask).name, ask.path["name"]
    if not await ask.durably(lambda: ask.services.parameters.delete(vhost, SHOVEL, name)):
        raise not_found()
    return DONE


@route(
    "DELETE",
    "/api/shovels/vhost/{vhost}/{name}/restart",
    Right.POLICYMAKER,
    "Restart a shovel that runs",
    scope=Scope.GOVERN,
)
def restart_shovel(ask: Ask) -> Answer:
    raise not_found()
