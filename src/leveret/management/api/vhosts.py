"""Virtual hosts: what is in them all in all, made, described, protected, deleted."""

from __future__ import annotations

from typing import Any

import msgspec

from leveret.auth.access import Right, sees_vhost
from leveret.auth.identity import CatalogUser
from leveret.broker.vhosts import UNDEFINED
from leveret.catalog.records import Vhost
from leveret.management.api.numbers import without_rates
from leveret.management.api.totals import totals_in
from leveret.management.http.bodies import VHOST, VHOST_BODY
from leveret.management.http.bodies import listed as listing
from leveret.management.http.errors import bad_request, not_found
from leveret.management.http.fields import Fields
from leveret.management.http.lists import LIST_PARAMETERS, Listed, listed, one
from leveret.management.http.request import CREATED, DONE, Answer, Request
from leveret.management.http.route import Scope, route


def described_vhost(request: Request, vhost: Vhost) -> dict[str, Any]:
    kind = vhost.default_queue_type or UNDEFINED
    return {
        "name": vhost.name,
        "description": vhost.description,
        "tags": list(vhost.tags),
        "default_queue_type": kind,
        "metadata": {
            "description": vhost.description,
            "tags": list(vhost.tags),
            **({"default_queue_type": kind} if vhost.default_queue_type else {}),
        },
        "protected_from_deletion": vhost.protected,
        "tracing": vhost.tracing,
        "cluster_state": {request.services.node_name: "running"},
        **_counts(request, vhost.name),
    }


def _counts(request: Request, name: str) -> dict[str, Any]:
    """What is in the virtual host, and what happened to it."""
    live = request.services.broker.vhosts.get(name)
    if live is None:
        return {}
    totals = totals_in([live])
    found = without_rates(totals.lengths)
    if any(totals.counts.values()):
        found["message_stats"] = without_rates(totals.counts)
    return found


VHOSTS: Listed[Vhost] = Listed(
    described_vhost,
    lambda vhost: vhost.name,
    {"name": lambda vhost: vhost.name, "description": lambda vhost: vhost.description},
)


@route(
    "GET",
    "/api/vhosts",
    Right.MANAGEMENT,
    "Virtual hosts that the caller sees",
    query=LIST_PARAMETERS,
    answers={200: listing(VHOST)},
)
async def get_vhosts(request: Request) -> Answer:
    vhosts = request.services.broker.catalog.vhosts
    return await listed(request, [vhosts[name] for name in sorted(vhosts) if sees_vhost(request.who, name)], VHOSTS)


@route("GET", "/api/vhosts/{vhost}", Right.ADMINISTRATOR, "One virtual host", scope=Scope.NAME, answers={200: VHOST})
def get_vhost(request: Request) -> dict[str, Any]:
    return one(request, described_vhost(request, existing_vhost(request)))


@route(
    "PUT",
    "/api/vhosts/{vhost}",
    Right.ADMINISTRATOR,
    "Create or change a virtual host; its creator gets all permissions in it",
    scope=Scope.NAME,
    answers={201: None, 204: None},
    accepts=VHOST_BODY,
)
async def put_vhost(request: Request) -> Answer:
    body = Fields(request.body)
    # RabbitMQ 4 has these in an object of their own as well.
    fields = Fields({**body.object("metadata"), **body.values})
    name = request.path["vhost"]
    existing = request.services.broker.catalog.vhosts.get(name, Vhost(name))
    kind = fields.optional_text("default_queue_type")
    vhost = msgspec.structs.replace(
        existing,
        # What a request does not say is as in a new one, as with RabbitMQ; tracing and protection stay as they are.
        description=fields.text("description"),
        tags=tuple(dict.fromkeys(fields.texts("tags"))) if "tags" in fields else (),
        default_queue_type=existing.default_queue_type if kind is None else "" if kind == UNDEFINED else kind,
        tracing=fields.flag("tracing", existing.tracing),
        protected=fields.flag("protected_from_deletion", existing.protected),
    )
    creator = request.who.name if isinstance(request.who, CatalogUser) else None
    new = await request.durably(lambda: request.services.vhosts.put(vhost, creator))
    return CREATED if new else DONE


@route(
    "DELETE",
    "/api/vhosts/{vhost}",
    Right.ADMINISTRATOR,
    "Delete a virtual host with all that is in it",
    scope=Scope.NAME,
)
async def delete_vhost(request: Request) -> Answer:
    if not await request.durably(lambda: request.services.vhosts.delete(request.path["vhost"])):
        raise not_found()
    return DONE


@route("GET", "/api/vhosts/{vhost}/deletion/protection", Right.ADMINISTRATOR, "Is it protected?", scope=Scope.NAME)
def get_protection(request: Request) -> dict[str, Any]:
    return {"protected_from_deletion": existing_vhost(request).protected}


@route(
    "POST",
    "/api/vhosts/{vhost}/deletion/protection",
    Right.ADMINISTRATOR,
    "Protect a virtual host from being deleted",
    scope=Scope.NAME,
)
async def protect_vhost(request: Request) -> Answer:
    await request.durably(lambda: request.services.vhosts.protect(existing_vhost(request), True))
    return DONE


@route(
    "DELETE",
    "/api/vhosts/{vhost}/deletion/protection",
    Right.ADMINISTRATOR,
    "Take the protection of a virtual host back",
    scope=Scope.NAME,
)
async def unprotect_vhost(request: Request) -> Answer:
    await request.durably(lambda: request.services.vhosts.protect(existing_vhost(request), False))
    return DONE


@route(
    "POST",
    "/api/vhosts/{vhost}/start/{node}",
    Right.ADMINISTRATOR,
    "Start a virtual host on a node: here they all run",
    scope=Scope.NAME,
)
def start_vhost(request: Request) -> Answer:
    existing_vhost(request)
    if request.path["node"] != request.services.node_name:
        raise bad_request(f"Request to node {request.path['node'][:255]} failed with nodedown")
    return DONE


def existing_vhost(request: Request) -> Vhost:
    found = request.services.broker.catalog.vhosts.get(request.path["vhost"])
    if found is None:
        raise not_found()
    return found
