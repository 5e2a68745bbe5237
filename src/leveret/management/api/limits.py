"""Limits of virtual hosts and of users."""

from __future__ import annotations

from typing import Any

from leveret.broker.access import Right, sees_vhost
from leveret.management.api.users import existing_user
from leveret.management.api.vhosts import existing_vhost
from leveret.management.http.ask import DONE, Answer, Ask
from leveret.management.http.bodies import LIMIT_BODY
from leveret.management.http.errors import bad_request, vhost_not_found
from leveret.management.http.fields import Fields
from leveret.management.http.route import Scope, route


@route("GET", "/api/vhost-limits", Right.MANAGEMENT, "Limits of all virtual hosts that the caller sees")
def get_all_vhost_limits(ask: Ask) -> list[dict[str, Any]]:
    vhosts = ask.services.broker.catalog.vhosts
    return [
        {"vhost": name, "value": vhosts[name].limits}
        for name in sorted(vhosts)
        if vhosts[name].limits and sees_vhost(ask.who, name)
    ]


@route("GET", "/api/vhost-limits/{vhost}", Right.MANAGEMENT, "Limits of a virtual host")
def get_vhost_limits(ask: Ask) -> list[dict[str, Any]]:
    vhost = existing_vhost(ask)
    return [{"vhost": vhost.name, "value": vhost.limits}] if vhost.limits else []


@route(
    "PUT",
    "/api/vhost-limits/{vhost}/{name}",
    Right.ADMINISTRATOR,
    "Set a limit of a virtual host: max-connections or max-queues; -1 for none",
    scope=Scope.NAME,
    accepts=LIMIT_BODY,
)
async def put_vhost_limit(ask: Ask) -> Answer:
    fields = Fields(ask.body)
    if ask.path["vhost"] not in ask.services.broker.catalog.vhosts:
        raise vhost_not_found()
    fields.need("value")
    limit, value = ask.path["name"], fields.values["value"]
    await ask.durably(lambda: ask.services.vhosts.set_limit(existing_vhost(ask), limit, value))
    return DONE


@route(
    "DELETE",
    "/api/vhost-limits/{vhost}/{name}",
    Right.ADMINISTRATOR,
    "Clear a limit of a virtual host",
    scope=Scope.NAME,
)
async def delete_vhost_limit(ask: Ask) -> Answer:
    await ask.durably(lambda: ask.services.vhosts.clear_limit(existing_vhost(ask), ask.path["name"]))
    return DONE


@route("GET", "/api/user-limits", Right.MANAGEMENT, "Limits of all users")
def get_all_user_limits(ask: Ask) -> list[dict[str, Any]]:
    users = ask.services.broker.catalog.users
    return [{"user": name, "value": users[name].limits} for name in sorted(users) if users[name].limits]


@route("GET", "/api/user-limits/{user}", Right.MANAGEMENT, "Limits of a user")
def get_user_limits(ask: Ask) -> list[dict[str, Any]]:
    user = existing_user(ask)
    return [{"user": user.name, "value": user.limits}] if user.limits else []


@route(
    "PUT",
    "/api/user-limits/{user}/{name}",
    Right.ADMINISTRATOR,
    "Set a limit of a user: max-connections or max-channels; -1 for none",
    accepts=LIMIT_BODY,
)
async def put_user_limit(ask: Ask) -> Answer:
    fields = Fields(ask.body)
    user = ask.path["user"]
    if user not in ask.services.broker.catalog.users:
        raise bad_request(["no_such_user", user[:255]])
    fields.need("value")
    value = fields.values["value"]
    await ask.durably(lambda: ask.services.users.set_limit(user, ask.path["name"], value))
    return DONE


@route("DELETE", "/api/user-limits/{user}/{name}", Right.ADMINISTRATOR, "Clear a limit of a user")
async def delete_user_limit(ask: Ask) -> Answer:
    user = existing_user(ask).name
    await ask.durably(lambda: ask.services.users.clear_limit(user, ask.path["name"]))
    return DONE
