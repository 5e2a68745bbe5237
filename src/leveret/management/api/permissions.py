"""What users may: permissions for names, and topic permissions for routing keys."""

from __future__ import annotations

from typing import Any

from leveret.auth.access import Right
from leveret.catalog.definitions import shown_permission, shown_topic_permission
from leveret.catalog.records import Permission, TopicPermission
from leveret.catalog.unusable import with_problems
from leveret.management.api.users import existing_user
from leveret.management.http.bodies import PERMISSION, PERMISSION_BODY, TOPIC_PERMISSION, TOPIC_PERMISSION_BODY
from leveret.management.http.bodies import listed as listing
from leveret.management.http.errors import bad_request, not_found
from leveret.management.http.fields import Fields
from leveret.management.http.lists import LIST_PARAMETERS, Listed, listed
from leveret.management.http.request import CREATED, DONE, Answer, Request
from leveret.management.http.route import Scope, route

PERMISSIONS: Listed[Permission] = Listed(
    lambda request, found: with_problems(shown_permission(found), found), lambda found: found.user
)


def _permissions(request: Request, user: str | None = None, vhost: str | None = None) -> list[Permission]:
    permissions = request.services.broker.catalog.permissions
    return [permissions[key] for key in sorted(permissions) if user in (None, key[0]) and vhost in (None, key[1])]


@route(
    "GET",
    "/api/permissions",
    Right.ADMINISTRATOR,
    "All permissions",
    query=LIST_PARAMETERS,
    answers={200: listing(PERMISSION)},
)
async def get_permissions(request: Request) -> Answer:
    return await listed(request, _permissions(request), PERMISSIONS)


@route("GET", "/api/users/{user}/permissions", Right.ADMINISTRATOR, "Permissions of a user")
async def get_user_permissions(request: Request) -> Answer:
    return await listed(request, _permissions(request, user=existing_user(request).name), PERMISSIONS)


@route("GET", "/api/vhosts/{vhost}/permissions", Right.ADMINISTRATOR, "Permissions in a virtual host", scope=Scope.NAME)
async def get_vhost_permissions(request: Request) -> Answer:
    return await listed(request, _permissions(request, vhost=request.vhost.name), PERMISSIONS)


@route(
    "GET",
    "/api/permissions/{vhost}/{user}",
    Right.ADMINISTRATOR,
    "Permission of a user in a virtual host",
    scope=Scope.NAME,
    answers={200: PERMISSION},
)
def get_permission(request: Request) -> dict[str, Any]:
    found = request.services.broker.catalog.permissions.get((request.path["user"], request.path["vhost"]))
    if found is None:
        raise not_found()
    return with_problems(shown_permission(found), found)


@route(
    "PUT",
    "/api/permissions/{vhost}/{user}",
    Right.ADMINISTRATOR,
    "Set a user's permission in a virtual host",
    scope=Scope.NAME,
    answers={201: None, 204: None},
    accepts=PERMISSION_BODY,
)
async def put_permission(request: Request) -> Answer:
    fields = Fields(request.body)
    fields.need("configure", "write", "read")
    user, vhost = _user_and_vhost(request)
    permission = Permission(user, vhost, fields.text("configure"), fields.text("write"), fields.text("read"))
    new = await request.durably(lambda: request.services.users.put_permission(permission))
    return CREATED if new else DONE


@route(
    "DELETE",
    "/api/permissions/{vhost}/{user}",
    Right.ADMINISTRATOR,
    "Take a user's permission in a virtual host back",
    scope=Scope.NAME,
)
async def delete_permission(request: Request) -> Answer:
    user, vhost = request.path["user"], request.path["vhost"]
    if not await request.durably(lambda: request.services.users.delete_permission(user, vhost)):
        raise not_found()
    return DONE


def _user_and_vhost(request: Request) -> tuple[str, str]:
    catalog = request.services.broker.catalog
    user, vhost = request.path["user"], request.path["vhost"]
    if user not in catalog.users or vhost not in catalog.vhosts:
        raise bad_request("vhost_or_user_not_found")
    return user, vhost


# ---- topic permissions


TOPIC_PERMISSIONS: Listed[TopicPermission] = Listed(
    lambda request, found: with_problems(shown_topic_permission(found), found), lambda found: found.user
)


def _topic_permissions(
    request: Request, user: str | None = None, vhost: str | None = None, exchange: str | None = None
) -> list[TopicPermission]:
    found = request.services.broker.catalog.topic_permissions
    return [
        found[key]
        for key in sorted(found)
        if user in (None, key[0]) and vhost in (None, key[1]) and exchange in (None, key[2])
    ]


@route(
    "GET",
    "/api/topic-permissions",
    Right.ADMINISTRATOR,
    "All topic permissions",
    query=LIST_PARAMETERS,
    answers={200: listing(TOPIC_PERMISSION)},
)
async def get_topic_permissions(request: Request) -> Answer:
    return await listed(request, _topic_permissions(request), TOPIC_PERMISSIONS)


@route("GET", "/api/users/{user}/topic-permissions", Right.ADMINISTRATOR, "Topic permissions of a user")
async def get_user_topic_permissions(request: Request) -> Answer:
    return await listed(request, _topic_permissions(request, user=existing_user(request).name), TOPIC_PERMISSIONS)


@route(
    "GET",
    "/api/vhosts/{vhost}/topic-permissions",
    Right.ADMINISTRATOR,
    "Topic permissions in a virtual host",
    scope=Scope.NAME,
)
async def get_vhost_topic_permissions(request: Request) -> Answer:
    return await listed(request, _topic_permissions(request, vhost=request.vhost.name), TOPIC_PERMISSIONS)


@route(
    "GET",
    "/api/topic-permissions/{vhost}/{user}",
    Right.ADMINISTRATOR,
    "Topic permissions of a user in a virtual host",
    scope=Scope.NAME,
)
@route(
    "GET",
    "/api/topic-permissions/{vhost}/{user}/{exchange}",
    Right.ADMINISTRATOR,
    "Topic permission of a user at an exchange, as a list",
    scope=Scope.NAME,
)
async def get_topic_permission(request: Request) -> Answer:
    found = _topic_permissions(request, request.path["user"], request.path["vhost"], request.path.get("exchange"))
    if not found:
        raise not_found()
    return await listed(request, found, TOPIC_PERMISSIONS)


@route(
    "PUT",
    "/api/topic-permissions/{vhost}/{user}",
    Right.ADMINISTRATOR,
    "Set a user's topic permission at an exchange",
    scope=Scope.NAME,
    answers={201: None, 204: None},
    accepts=TOPIC_PERMISSION_BODY,
)
async def put_topic_permission(request: Request) -> Answer:
    fields = Fields(request.body)
    fields.need("exchange", "write", "read")
    user, vhost = _user_and_vhost(request)
    permission = TopicPermission(user, vhost, fields.text("exchange"), fields.text("write"), fields.text("read"))
    new = await request.durably(lambda: request.services.users.put_topic_permission(permission))
    return CREATED if new else DONE


@route(
    "DELETE",
    "/api/topic-permissions/{vhost}/{user}",
    Right.ADMINISTRATOR,
    "Take all topic permissions of a user in a virtual host back",
    scope=Scope.NAME,
)
@route(
    "DELETE",
    "/api/topic-permissions/{vhost}/{user}/{exchange}",
    Right.ADMINISTRATOR,
    "Take a user's topic permission at an exchange back",
    scope=Scope.NAME,
)
async def delete_topic_permission(request: Request) -> Answer:
    user, vhost, exchange = request.path["user"], request.path["vhost"], request.path.get("exchange")
    if not await request.durably(lambda: request.services.users.delete_topic_permissions(user, vhost, exchange)):
        raise not_found()
    return DONE
