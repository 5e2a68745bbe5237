"""Limits of virtual hosts and of users."""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from leveret.auth.access import Right, sees_vhost
from leveret.management.api.users import existing_user
from leveret.management.api.vhosts import existing_vhost
from leveret.management.api.visible import OTHERS, sees_everything
from leveret.management.http.bodies import LIMIT_BODY
from leveret.management.http.errors import bad_request, not_authorised, vhost_not_found
from leveret.management.http.fields import Fields
from leveret.management.http.lists import shown
from leveret.management.http.request import DONE, Answer, Request
from leveret.management.http.route import Scope, route


@route("GET", "/api/vhost-limits", Right.MANAGEMENT, "Limits of all virtual hosts that the caller sees")
async def get_all_vhost_limits(request: Request) -> list[Raw]:
    vhosts = request.services.broker.catalog.vhosts
    limited = [vhosts[name] for name in sorted(vhosts) if vhosts[name].limits and sees_vhost(request.who, name)]
    return await shown(limited, lambda vhost: {"vhost": vhost.name, "value": vhost.limits})


@route("GET", "/api/vhost-limits/{vhost}", Right.MANAGEMENT, "Limits of a virtual host")
def get_vhost_limits(request: Request) -> list[dict[str, Any]]:
    vhost = existing_vhost(request)
    return [{"vhost": vhost.name, "value": vhost.limits}] if vhost.limits else []


@route(
    "PUT",
    "/api/vhost-limits/{vhost}/{name}",
    Right.ADMINISTRATOR,
    "Set a limit of a virtual host: max-connections or max-queues; -1 for none",
    scope=Scope.NAME,
    accepts=LIMIT_BODY,
)
async def put_vhost_limit(request: Request) -> Answer:
    fields = Fields(request.body)
    if request.path["vhost"] not in request.services.broker.catalog.vhosts:
        raise vhost_not_found()
    fields.need("value")
    limit, value = request.path["name"], fields.values["value"]
    await request.durably(lambda: request.services.vhosts.set_limit(existing_vhost(request), limit, value))
    return DONE


@route(
    "DELETE",
    "/api/vhost-limits/{vhost}/{name}",
    Right.ADMINISTRATOR,
    "Clear a limit of a virtual host",
    scope=Scope.NAME,
)
async def delete_vhost_limit(request: Request) -> Answer:
    await request.durably(lambda: request.services.vhosts.clear_limit(existing_vhost(request), request.path["name"]))
    return DONE


@route("GET", "/api/user-limits", Right.MANAGEMENT, "Limits of all users; one's own, without the tag monitoring")
async def get_all_user_limits(request: Request) -> list[Raw]:
    users = request.services.broker.catalog.users
    seen = sorted(users) if sees_everything(request) else [name for name in (request.who.name,) if name in users]
    limited = [users[name] for name in seen if users[name].limits]
    return await shown(limited, lambda user: {"user": user.name, "value": user.limits})


@route("GET", "/api/user-limits/{user}", Right.MANAGEMENT, "Limits of a user; one's own, without the tag monitoring")
def get_user_limits(request: Request) -> list[dict[str, Any]]:
    if request.path["user"] != request.who.name and not sees_everything(request):
        # Whether there is such a user or not.
        raise not_authorised(OTHERS)
    user = existing_user(request)
    return [{"user": user.name, "value": user.limits}] if user.limits else []


@route(
    "PUT",
    "/api/user-limits/{user}/{name}",
    Right.ADMINISTRATOR,
    "Set a limit of a user: max-connections or max-channels; -1 for none",
    accepts=LIMIT_BODY,
)
async def put_user_limit(request: Request) -> Answer:
    fields = Fields(request.body)
    user = request.path["user"]
    if user not in request.services.broker.catalog.users:
        raise bad_request(["no_such_user", user[:255]])
    fields.need("value")
    value = fields.values["value"]
    await request.durably(lambda: request.services.users.set_limit(user, request.path["name"], value))
    return DONE


@route("DELETE", "/api/user-limits/{user}/{name}", Right.ADMINISTRATOR, "Clear a limit of a user")
async def delete_user_limit(request: Request) -> Answer:
    user = existing_user(request).name
    await request.durably(lambda: request.services.users.clear_limit(user, request.path["name"]))
    return DONE
