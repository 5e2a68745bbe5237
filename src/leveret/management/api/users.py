"""Users: made, changed, deleted; and hashes of passwords."""

from __future__ import annotations

from typing import Any

from leveret.broker.access import Right
from leveret.catalog.definitions import shown_user
from leveret.catalog.passwords import ALGORITHMS, RABBIT_SHA256, read_hash, shown_hash
from leveret.catalog.records import User
from leveret.management.http.ask import CREATED, DONE, Answer, Ask
from leveret.management.http.bodies import PASSWORD_BODY, USER, USER_BODY, USERS_BODY
from leveret.management.http.bodies import listed as listing
from leveret.management.http.errors import bad_request, keys_missing, not_found
from leveret.management.http.fields import Fields
from leveret.management.http.lists import LIST_PARAMETERS, Listed, listed, one
from leveret.management.http.route import route

BULK_MAX = 1000


def described_user(_ask: Ask, user: User) -> dict[str, Any]:
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
async def get_users(ask: Ask) -> Answer:
    users = ask.services.broker.catalog.users
    return await listed(ask, [users[name] for name in sorted(users)], USERS)


@route(
    "GET", "/api/users/without-permissions", Right.ADMINISTRATOR, "Users who may enter no virtual host", private=True
)
async def get_users_without_permissions(ask: Ask) -> Answer:
    catalog = ask.services.broker.catalog
    able = {user for user, _ in catalog.permissions}
    return await listed(ask, [catalog.users[name] for name in sorted(catalog.users) if name not in able], USERS)


@route("GET", "/api/users/{user}", Right.ADMINISTRATOR, "One user", private=True, answers={200: USER})
def get_user(ask: Ask) -> dict[str, Any]:
    return one(ask, shown_user(existing_user(ask)))


@route(
    "PUT",
    "/api/users/{user}",
    Right.ADMINISTRATOR,
    "Make a user or change one",
    answers={201: None, 204: None},
    accepts=USER_BODY,
)
async def put_user(ask: Ask) -> Answer:
    fields = Fields(ask.body)
    password, given_hash = fields.optional_text("password"), fields.optional_text("password_hash")
    if password is not None and given_hash is not None:
        raise bad_request("both_password_and_password_hash_are_provided")
    tags = _tags(fields)
    users = ask.services.users
    if password is not None:
        password_hash = await users.hash(password)
    else:
        # As in RabbitMQ: whoever says nothing of a password has none from now on.
        password_hash = _read_hash(fields, given_hash or "")
    limits = fields.object("limits") if "limits" in fields else None
    new = await ask.durably(lambda: users.put(ask.path["user"], password_hash, tags, limits))
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
async def delete_user(ask: Ask) -> Answer:
    name = existing_user(ask).name
    await ask.durably(lambda: ask.services.users.delete([name]))
    return DONE


@route(
    "POST",
    "/api/users/bulk-delete",
    Right.ADMINISTRATOR,
    "Delete several users, all of them or none",
    accepts=USERS_BODY,
)
async def delete_users(ask: Ask) -> Answer:
    fields = Fields(ask.body)
    if "users" not in fields:
        raise keys_missing("users")
    names = fields.values["users"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len(names) > BULK_MAX:
        raise bad_request(f"users must be a list of at most {BULK_MAX} names")
    for name in names:
        if name not in ask.services.broker.catalog.users:
            raise bad_request(["no_such_user", name[:255]])
    ask.noted["users"] = names
    await ask.durably(lambda: ask.services.users.delete(names))
    return DONE


def existing_user(ask: Ask) -> User:
    found = ask.services.broker.catalog.users.get(ask.path["user"])
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
async def hash_password(ask: Ask) -> dict[str, Any]:
    fields = Fields(ask.body)
    fields.need("password")
    password_hash, algorithm = shown_hash(await ask.services.users.hash(fields.text("password")))
    return {"ok": password_hash, "password_hash": password_hash, "hashing_algorithm": algorithm}
