"""Identities and what they allow: a user of the catalog, or the bearer of a token.

An identity only answers; who must be asked what is decided in auth/access.py, and who is whom in auth/login.py.
A user's answers always come from the catalog as it is now, a token's from what was signed."""

from __future__ import annotations

from abc import ABC, abstractmethod

from leveret.auth.scopes import Scopes
from leveret.catalog.catalog import Catalog
from leveret.catalog.patterns import expanded, is_found
from leveret.catalog.records import TopicPermission

CONFIGURE, WRITE, READ = "configure", "write", "read"


class Identity(ABC):
    # What it is called in logs, answers and user-id.
    name: str
    # Seconds of the wall clock, after which it counts for nothing; None for as long as it is not deleted.
    expires_at: float | None = None

    @property
    @abstractmethod
    def tags(self) -> tuple[str, ...]: ...

    @property
    @abstractmethod
    def exists(self) -> bool:
        """Whether it is still known here."""

    @abstractmethod
    def may_enter(self, vhost: str) -> bool: ...

    @abstractmethod
    def allows(self, kind: str, vhost: str, name: str) -> bool:
        """`kind` is CONFIGURE, WRITE or READ; `name` a queue's or an exchange's."""

    @abstractmethod
    def has_topics(self, vhost: str, exchange: str) -> bool:
        """Whether routing keys matter at this topic exchange; if not, `allows_topic` need not be asked there."""

    @abstractmethod
    def allows_topic(self, kind: str, vhost: str, exchange: str, key: str) -> bool:
        """Whether it may publish with this routing key (WRITE) or bind with it (READ)."""

    def limit(self, name: str) -> int | None:
        """One of its own limits, such as max-connections; None for none."""
        return None


class CatalogUser(Identity):
    def __init__(self, catalog: Catalog, name: str) -> None:
        self._catalog = catalog
        self.name = name

    @property
    def tags(self) -> tuple[str, ...]:
        user = self._catalog.users.get(self.name)
        return () if user is None else user.tags

    @property
    def exists(self) -> bool:
        return self.name in self._catalog.users

    def may_enter(self, vhost: str) -> bool:
        return (self.name, vhost) in self._catalog.permissions

    def allows(self, kind: str, vhost: str, name: str) -> bool:
        permission = self._catalog.permissions.get((self.name, vhost))
        if permission is None:
            return False
        pattern = {CONFIGURE: permission.configure, WRITE: permission.write, READ: permission.read}[kind]
        return is_found(pattern, name)

    def has_topics(self, vhost: str, exchange: str) -> bool:
        return self._topic(vhost, exchange) is not None

    def allows_topic(self, kind: str, vhost: str, exchange: str, key: str) -> bool:
        permission = self._topic(vhost, exchange)
        if permission is None:
            return True
        pattern = {WRITE: permission.write, READ: permission.read}[kind]
        return is_found(expanded(pattern, self.name, vhost), key)

    def _topic(self, vhost: str, exchange: str) -> TopicPermission | None:
        return self._catalog.topic_permissions.get((self.name, vhost, exchange))

    def limit(self, name: str) -> int | None:
        user = self._catalog.users.get(self.name)
        return None if user is None else user.limits.get(name)


class TokenBearer(Identity):
    """The bearer of a signed token. Nothing is looked up: the token has all permissions, until it expires."""

    def __init__(self, name: str, scopes: Scopes, expires_at: float | None) -> None:
        self.name = name
        self.scopes = scopes
        self.expires_at = expires_at

    @property
    def tags(self) -> tuple[str, ...]:
        return self.scopes.tags

    @property
    def exists(self) -> bool:
        return True

    def may_enter(self, vhost: str) -> bool:
        return self.scopes.may_enter(vhost)

    def allows(self, kind: str, vhost: str, name: str) -> bool:
        return self.scopes.allows(kind, vhost, name)

    def has_topics(self, vhost: str, exchange: str) -> bool:
        return True

    def allows_topic(self, kind: str, vhost: str, exchange: str, key: str) -> bool:
        return self.scopes.allows_topic(kind, vhost, exchange, key)
