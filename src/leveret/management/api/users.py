"""Users: made, changed, deleted; and hashes of passwords."""

from __future__ import annotations

from typing import Any

from leveret.auth.access import Right
from leveret.catalog.definitions import shown_user
from leveret.catalog.passwords import ALGORITHMS, RABBIT_SHA256, read_hash, shown_hash
from leveret.catalog.records import User
from leveret.management.http.bodies import PASSWORD_BODY, USER, USER_BODY, USERS_BODY
from leveret.management.http.bodies import listed as listing
from leveret.management.http.errors import bad_request, keys_missing, not_found
from leveret.management.http.fields import Fields
from leveret.management.http.lists import LIST_PARAMETERS, Listed, listed, one
from leveret.management.http.request import CREATED, DONE, Answer, Request
from leveret.management.http.route import route

BULK_MAX = 1000


def described_user(_request: Request, user: User) -> dict[str, Any]:
    return shown_user(user)


USERS: Listed[User] = Listed(
    described_user, lambda user: user.name, {"name": lambda user: user.name, "tags": lambda user: list(user.tags)}
)


@route(
    "GET",
    "/api/users",
    Right.ADMINISTRATOR,
    "All users",
    query=LIST_PARAMETERS,
    private=True,
    answers={200: listing(USER)},
)
async def get_users(request: Request) -> Answer:
    users = request.services.broker.catalog.users
    return await listed(request, [users[name] for name in sorted(users)], USERS)


@route(
    "GET", "/api/users/without-permissions", Right.ADMINISTRATOR, "Users who may enter no virtual host", private=True
)
async def get_users_without_permissions(request: Request) -> Answer:
    catalog = request.services.broker.catalog
    able = {user for user, _ in catalog.permissions}
    return await listed(request, [catalog.users[name] for name in sorted(catalog.users) if name not in able], USERS)


@route("GET", "/api/users/{user}", Right.ADMINISTRATOR, "One user", private=True, answers={200: USER})
def get_user(request: Request) -> dict[str, Any]:
    return one(request, shown_user(existing_user(request)))


@route(
    "PUT",
    "/api/users/{user}",
    Right.ADMINISTRATOR,
    "Make a user or change one",
    answers={201: None, 204: None},
    accepts=USER_BODY,
)
async def put_user(request: Request) -> Answer:
    fields = Fields(request.body)
    password, given_hash = fields.optional_text("password"), fields.optional_text("password_hash")
    if password is not None and given_hash is not None:
        raise bad_request("both_password_and_password_hash_are_provided")
    tags = _tags(fields)
    users = request.services.users
    if password is not None:
        password_hash = await users.hash(password)
    else:
        # As in RabbitMQ: a request without a password removes it.
        password_hash = _read_hash(fields, given_hash or "")
    limits = fields.object("limits") if "limits" in fields else None
    new = await request.durably(lambda: users.put(request.path["user"], password_hash, tags, limits))
    return CREATED if new else DONE


def _tags(fields: Fields) -> list[str]:
    if "tags" in fields:
        return fields.texts("tags")
    if "administrator" in fields:
        # The way of RabbitMQ 2, which old tools still go.
        return ["administrator"] if fields.flag("administrator") else []
    raise bad_request("tags_not_present")


def _read_hash(fields: Fields, given: str) -> str:
    try:
        return read_hash(given, fields.text("hashing_algorithm", ALGORITHMS[RABBIT_SHA256]))
    except ValueError as error:
        raise bad_request(str(error)) from None


@route("DELETE", "/api/users/{user}", Right.ADMINISTRATOR, "Delete a user")
async def delete_user(request: Request) -> Answer:
    name = existing_user(request).name
    await request.durably(lambda: request.services.users.delete([name]))
    return DONE


@route(
    "POST",
    "/api/users/bulk-delete",
    Right.ADMINISTRATOR,
    "Delete several users, all of them or none",
    accepts=USERS_BODY,
)
async def delete_users(request: Request) -> Answer:
    fields = Fields(request.body)
    if "users" not in fields:
        raise keys_missing("users")
    names = fields.values["users"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len(names) > BULK_MAX:
        raise bad_request(f"users must be a list of at most {BULK_MAX} names")
    for name in names:
        if name not in request.services.broker.catalog.users:
            raise bad_request(["no_such_user", name[:255]])
    request.noted["users"] = names
    await request.durably(lambda: request.services.users.delete(names))
    return DONE


def existing_user(request: Request) -> User:
    found = request.services.broker.catalog.users.get(request.path["user"])
    if found is None:
        raise not_found()
    return found


# ---- hashing


@route(
    "POST",
    "/api/auth/hash_password",
    Right.ADMINISTRATOR,
    "Hash a password, for definitions; the password is in the body, where no log sees it",
    answers={200: Any},
    private=True,
    harmless=True,
    accepts=PASSWORD_BODY,
)
async def hash_password(request: Request) -> dict[str, Any]:
    fields = Fields(request.body)
    fields.need("password")
    password_hash, algorithm = shown_hash(await request.services.users.hash(fields.text("password")))
    return {"ok": password_hash, "password_hash": password_hash, "hashing_algorithm": algorithm}
