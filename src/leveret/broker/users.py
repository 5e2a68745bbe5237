"""Users and what they may, as operators change them: checked, then told to the catalog.

For HTTP, definitions and the command line alike. Who may ask for it was decided before."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from leveret.broker.broker import Broker
from leveret.catalog import commands
from leveret.catalog.json_tables import is_text
from leveret.catalog.parameters import USER_LIMIT_NAMES, limit_problems
from leveret.catalog.passwords import PASSWORD_BYTES_MAX
from leveret.catalog.patterns import compile_pattern
from leveret.catalog.records import Permission, TopicPermission, User
from leveret.catalog.unusable import pattern_problems
from leveret.core.codec.names import NAME_OCTETS_MAX
from leveret.errors import InvalidRequest

TAGS_MAX = 64
ALL = ".*"


class UserService:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        # Hashing is slow by design; one at a time leaves the other cores alone.
        self._hashing = asyncio.Semaphore(1)

    # ---- users

    async def hash(self, password: str) -> str:
        """Of a new password, off the loop; an empty one lets nobody in."""
        octets = password.encode("utf-8", "surrogatepass")
        check_password(octets)
        if not octets:
            return ""
        async with self._hashing:
            return await asyncio.to_thread(self._broker.logins.hash, octets)

    def put(self, name: str, password_hash: str, tags: Sequence[str], limits: dict[str, int] | None = None) -> bool:
        """Makes a user or changes one; whether it is new. `password_hash` is as the catalog keeps it; without
        `limits` those that he has stay."""
        existing = self._broker.catalog.users.get(name)
        kept = {} if existing is None else existing.limits
        user = User(name, password_hash, tuple(dict.fromkeys(tags)), dict(kept if limits is None else limits))
        check_user(user)
        if user != existing:
            self._broker.apply(commands.PutUser(user))
        return existing is None

    def delete(self, names: Iterable[str]) -> None:
        """All of them or none."""
        wanted = list(dict.fromkeys(names))
        for name in wanted:
            self.find(name)
        if wanted:
            self._broker.apply(commands.Together(tuple(commands.DeleteUser(name) for name in wanted)))

    def find(self, name: str) -> User:
        found = self._broker.catalog.users.get(name)
        if found is None:
            raise InvalidRequest(f"no_such_user {name}")
        return found

    def set_limit(self, name: str, limit: str, value: Any) -> None:
        user = self.find(name)
        raise_first(limit_problems({limit: value}, USER_LIMIT_NAMES, "user-limits"))
        changed = msgspec.structs.replace(user, limits={**user.limits, limit: int(value)})
        self._broker.apply(commands.PutUser(changed))

    def clear_limit(self, name: str, limit: str) -> None:
        user = self.find(name)
        if limit in user.limits:
            left = {key: value for key, value in user.limits.items() if key != limit}
            self._broker.apply(commands.PutUser(msgspec.structs.replace(user, limits=left)))

    # ---- permissions

    def put_permission(self, permission: Permission) -> bool:
        """Whether it is new. The user and the virtual host exist."""
        check_permission(permission)
        existing = self._broker.catalog.permissions.get((permission.user, permission.vhost))
        if existing != permission:
            self._broker.apply(commands.PutPermission(permission))
        return existing is None

    def delete_permission(self, user: str, vhost: str) -> bool:
        """Whether there was one."""
        if (user, vhost) not in self._broker.catalog.permissions:
            return False
        self._broker.apply(commands.DeletePermission(user, vhost))
        return True

    def put_topic_permission(self, permission: TopicPermission) -> bool:
        check_topic_permission(permission)
        key = (permission.user, permission.vhost, permission.exchange)
        existing = self._broker.catalog.topic_permissions.get(key)
        if existing != permission:
            self._broker.apply(commands.PutTopicPermission(permission))
        return existing is None

    def delete_topic_permissions(self, user: str, vhost: str, exchange: str | None = None) -> bool:
        """Of one exchange or of all; whether there was one."""
        found = [
            commands.DeleteTopicPermission(*key)
            for key in self._broker.catalog.topic_permissions
            if key[:2] == (user, vhost) and exchange in (None, key[2])
        ]
        if found:
            self._broker.apply(commands.Together(tuple(found)))
        return bool(found)


# ---- checks, which definitions make as well


def check_name(what: str, name: str) -> None:
    if not is_text(name) or not 0 < len(name.encode()) <= NAME_OCTETS_MAX:
        raise InvalidRequest(f"the name of a {what} has 1 to {NAME_OCTETS_MAX} bytes of valid text")


def check_password(password: bytes) -> None:
    if len(password) > PASSWORD_BYTES_MAX:
        raise InvalidRequest(f"a password has at most {PASSWORD_BYTES_MAX} bytes")


def check_user(user: User) -> None:
    check_name("user", user.name)
    if len(user.tags) > TAGS_MAX:
        raise InvalidRequest(f"a user has at most {TAGS_MAX} tags")
    for tag in user.tags:
        check_name("tag", tag)
    raise_first(limit_problems(user.limits, USER_LIMIT_NAMES, "user-limits"))


def check_permission(permission: Permission) -> None:
    _check_patterns(permission, ("configure", "write", "read"))


def check_topic_permission(permission: TopicPermission) -> None:
    if not is_text(permission.exchange) or len(permission.exchange.encode()) > NAME_OCTETS_MAX:
        raise InvalidRequest(f"the name of an exchange has at most {NAME_OCTETS_MAX} bytes")
    _check_patterns(permission, ("write", "read"))


def _check_patterns(permission: Permission | TopicPermission, kinds: tuple[str, ...]) -> None:
    for kind in kinds:
        pattern = getattr(permission, kind)
        try:
            compile_pattern(pattern)
        except ValueError as error:
            raise InvalidRequest(f"{kind}: invalid_regexp {pattern[:64]!r}: {error}") from None
    # A topic permission's may become too large by the names that it stands for.
    for kind, problem in pattern_problems(permission).items():
        raise InvalidRequest(f"{kind}: invalid_regexp {getattr(permission, kind)[:64]!r}: {problem}")


def raise_first(problems: list[str]) -> None:
    if problems:
        raise InvalidRequest(problems[0])
