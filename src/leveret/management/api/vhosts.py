"""Virtual hosts: what is in them all in all, made, described, protected, deleted."""

from __future__ import annotations

from typing import Any

import msgspec

from leveret.broker.access import Right, sees_vhost
from leveret.broker.identity import CatalogUser
from leveret.broker.vhosts import UNDEFINED
from leveret.catalog.records import Vhost
from leveret.management.api.numbers import without_rates
from leveret.management.api.totals import totals_in
from leveret.management.http.ask import CREATED, DONE, Answer, Ask
from leveret.management.http.bodies import VHOST, VHOST_BODY
from leveret.management.http.bodies import listed as listing
from leveret.management.http.errors import bad_request, not_found
from leveret.management.http.fields import Fields
from leveret.management.http.lists import LIST_PARAMETERS, Listed, listed, one
from leveret.management.http.route import Scope, route


def described_vhost(ask: Ask, vhost: Vhost) -> dict[str, Any]:
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
        "cluster_state": {ask.services.node_name: "running"},
        **_counts(ask, vhost.name),
    }


def _counts(ask: Ask, name: str) -> dict[str, Any]:
    """What is in the virtual host, and what happened to it."""
    live = ask.services.broker.vhosts.get(name)
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
async def get_vhosts(ask: Ask) -> Answer:
    vhosts = ask.services.broker.catalog.vhosts
    return await listed(ask, [vhosts[name] for name in sorted(vhosts) if sees_vhost(ask.who, name)], VHOSTS)


@route("GET", "/api/vhosts/{vhost}", Right.ADMINISTRATOR, "One virtual host", scope=Scope.NAME, answers={200: VHOST})
def get_vhost(ask: Ask) -> dict[str, Any]:
    return one(ask, described_vhost(ask, existing_vhost(ask)))


@route(
    "PUT",
    "/api/vhosts/{vhost}",
    Right.ADMINISTRATOR,
    "Make a virtual host or change one; whoever makes it may do everything in it",
    scope=Scope.NAME,
    answers={201: None, 204: None},
    accepts=VHOST_BODY,
)
async def put_vhost(ask: Ask) -> Answer:
    body = Fields(ask.body)
    # RabbitMQ 4 has these in an object of their own as well.
    fields = Fields({**body.object("metadata"), **body.values})
    name = ask.path["vhost"]
    existing = ask.services.broker.catalog.vhosts.get(name, Vhost(name))
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
    creator = ask.who.name if isinstance(ask.who, CatalogUser) else None
    new = await ask.durably(lambda: ask.services.vhosts.put(vhost, creator))
    return CREATED if new else DONE


@route(
    "DELETE",
    "/api/vhosts/{vhost}",
    Right.ADMINISTRATOR,
    "Delete a virtual host with all that is in it",
    scope=Scope.NAME,
)
async def delete_vhost(ask: Ask) -> Answer:
    if not await ask.durably(lambda: ask.services.vhosts.delete(ask.path["vhost"])):
        raise not_found()
    return DONE


@route("GET", "/api/vhosts/{vhost}/deletion/protection", Right.ADMINISTRATOR, "Is it protected?", scope=Scope.NAME)
def get_protection(ask: Ask) -> dict[str, Any]:
    return {"protected_from_deletion": existing_vhost(ask).protected}


@route(
    "POST",
    "/api/vhosts/{vhost}/deletion/protection",
    Right.ADMINISTRATOR,
    "Protect a virtual host from being deleted",
    scope=Scope.NAME,
)
async def protect_vhost(ask: Ask) -> Answer:
    await ask.durably(lambda: ask.services.vhosts.protect(existing_vhost(ask), True))
    return DONE


@route(
    "DELETE",
    "/api/vhosts/{vhost}/deletion/protection",
    Right.ADMINISTRATOR,
    "Take the protection of a virtual host back",
    scope=Scope.NAME,
)
async def unprotect_vhost(ask: Ask) -> Answer:
    await ask.durably(lambda: ask.services.vhosts.protect(existing_vhost(ask), False))
    return DONE


@route(
    "POST",
    "/api/vhosts/{vhost}/start/{node}",
    Right.ADMINISTRATOR,
    "Start a virtual host on a node: here they all run",
    scope=Scope.NAME,
)
def start_vhost(ask: Ask) -> Answer:
    existing_vhost(ask)
    if ask.path["node"] != ask.services.node_name:
        raise bad_request(f"Request to node {ask.path['node'][:255]} failed with nodedown")
    return DONE


def existing_vhost(ask: Ask) -> Vhost:
    found = ask.services.broker.catalog.vhosts.get(ask.path["vhost"])
    if found is None:
        raise not_found()
    return found
