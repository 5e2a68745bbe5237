"""The service for users and permissions: what it checks, and what it tells the catalog."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from leveret.broker.users import UserService
from leveret.catalog.passwords import verify_password
from leveret.catalog.records import Permission, TopicPermission, User
from leveret.errors import InvalidRequest
from tests.unit.broker.people import Town


@pytest.fixture
def town() -> Iterator[Town]:
    town = Town()
    yield town
    town.close()


@pytest.fixture
def users(town: Town) -> UserService:
    return UserService(town.broker)


def test_a_user_is_made_and_changed(town: Town, users: UserService) -> None:
    assert users.put("eve", "h", ["a", "a", "b"], {"max-channels": 3})
    assert town.broker.catalog.users["eve"] == User("eve", "h", ("a", "b"), {"max-channels": 3})
    # Limits stay unless something is said of them.
    assert not users.put("eve", "", [])
    assert town.broker.catalog.users["eve"] == User("eve", "", (), {"max-channels": 3})
    users.put("eve", "", [], {})
    assert town.broker.catalog.users["eve"].limits == {}


@pytest.mark.parametrize(
    ("name", "tags", "limits"),
    [
        ("", [], {}),
        ("x" * 256, [], {}),
        ("\udcff", [], {}),
        ("eve", ["t"] * 1 + [str(number) for number in range(64)], {}),
        ("eve", [""], {}),
        ("eve", [], {"max-queues": 1}),
        ("eve", [], {"max-channels": "1"}),
        ("eve", [], {"max-channels": True}),
    ],
)
def test_bad_users_are_refused(town: Town, users: UserService, name: str, tags: list[str], limits: dict) -> None:
    with pytest.raises(InvalidRequest):
        users.put(name, "", tags, limits)
    assert name not in town.broker.catalog.users


def test_several_users_are_deleted_together_or_not_at_all(town: Town, users: UserService) -> None:
    with pytest.raises(InvalidRequest):
        users.delete(["ann", "nobody"])
    assert "ann" in town.broker.catalog.users
    users.delete(["ann", "bob", "ann"])
    assert not town.broker.catalog.users
    assert not town.broker.catalog.permissions


def test_a_password_is_hashed_off_the_loop(users: UserService) -> None:
    async def hashed() -> str:
        return await users.hash("secret")

    assert verify_password(asyncio.run(hashed()), b"secret")


def test_an_empty_password_is_none_and_a_long_one_is_refused(users: UserService) -> None:
    async def hashed(password: str) -> str:
        return await users.hash(password)

    assert asyncio.run(hashed("")) == ""
    with pytest.raises(InvalidRequest) as refused:
        asyncio.run(hashed("canary" * 1000))
    assert "canary" not in str(refused.value)


def test_limits_of_a_user(town: Town, users: UserService) -> None:
    users.set_limit("ann", "max-channels", 3)
    users.set_limit("ann", "max-connections", -1)
    assert town.broker.catalog.users["ann"].limits == {"max-channels": 3, "max-connections": -1}
    users.clear_limit("ann", "max-channels")
    users.clear_limit("ann", "nonsense")
    assert town.broker.catalog.users["ann"].limits == {"max-connections": -1}
    for limit, value in (("nonsense", 1), ("max-channels", 1.5), ("max-channels", 2**64)):
        with pytest.raises(InvalidRequest):
            users.set_limit("ann", limit, value)


@pytest.mark.parametrize("pattern", ["(", "^(?!a)", "x" * 2000, r"(a)\1", "(.{0,255}a){3}b"])
def test_patterns_that_cannot_be_used_are_refused(town: Town, users: UserService, pattern: str) -> None:
    before = town.broker.catalog.permissions["ann", "/"]
    with pytest.raises(InvalidRequest):
        users.put_permission(Permission("ann", "/", "", pattern, ""))
    with pytest.raises(InvalidRequest):
        users.put_topic_permission(TopicPermission("ann", "/", "amq.topic", "", pattern))
    assert town.broker.catalog.permissions["ann", "/"] == before
    assert not town.broker.catalog.topic_permissions


def test_permissions_come_and_go(town: Town, users: UserService) -> None:
    assert not users.put_permission(Permission("ann", "/", "a", "", ""))
    assert town.broker.catalog.permissions["ann", "/"].configure == "a"
    assert users.delete_permission("ann", "/")
    assert not users.delete_permission("ann", "/")
    assert users.put_topic_permission(TopicPermission("ann", "/", "amq.topic", "^{username}", ""))
    users.put_topic_permission(TopicPermission("ann", "/", "other", "", ""))
    assert users.delete_topic_permissions("ann", "/", "other")
    assert not users.delete_topic_permissions("ann", "/", "other")
    assert users.delete_topic_permissions("ann", "/")
    assert not town.broker.catalog.topic_permissions
