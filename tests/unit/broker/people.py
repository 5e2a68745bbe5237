"""A broker without network, and people who ask it for things."""

from __future__ import annotations

import itertools

from leveret.auth.access import Access
from leveret.auth.identity import CatalogUser
from leveret.broker.activity import Activity
from leveret.broker.broker import Broker
from leveret.broker.topology import Topology
from leveret.broker.vhost import LiveVhost
from leveret.catalog import commands
from leveret.catalog.records import Permission, User, Vhost
from leveret.runtime.clock import Clock
from leveret.runtime.dice import Dice
from leveret.storage.store import Store


class LoadedDice(Dice):
    """Names count up, and the first is always picked."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def name(self) -> str:
        return f"{next(self._numbers):022}"

    def pick(self, count: int) -> int:
        return 0


class Person:
    """Whoever asks: a user on a connection of their own."""

    def __init__(self, broker: Broker, user: str, connection_id: int, vhost: str = "/") -> None:
        self.vhost: LiveVhost = broker.vhosts[vhost]
        self.access = Access(CatalogUser(broker.catalog, user), vhost)
        self.connection_id = connection_id


class Line:
    """A connection that remembers what the broker told it."""

    vhost_name = "/"
    user = "ann"
    protocol = "AMQP 0-9-1"

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.user = "ann"
        self.vhost_name = "/"
        self.protocol = "AMQP 0-9-1"
        self.told: list[tuple[object, ...]] = []

    def close_by_broker(self, code: int, text: str) -> None:
        self.told.append(("close", code, text))

    def user_deleted(self, user: str) -> None:
        self.told.append(("user deleted", user))

    def vhost_deleted(self, vhost: str) -> None:
        self.told.append(("vhost deleted", vhost))

    def permissions_changed(self, user: str) -> None:
        self.told.append(("permissions", user))

    def blocked_changed(self, reason: str | None) -> None:
        self.told.append(("blocked", reason))

    def count_into(self, activity: Activity) -> None:
        activity.bytes_received += 100


class Town:
    """A broker with virtual host / and the users ann and bob, who may do everything there."""

    def __init__(self, store: Store | None = None) -> None:
        self.broker = Broker(LoadedDice(), Clock(), store)
        self.topology = Topology(self.broker)
        self.broker.apply(commands.PutVhost(Vhost("/")))
        for user in ("ann", "bob"):
            self.broker.apply(commands.PutUser(User(user, "")))
            self.allow(user, ".*", ".*", ".*")
        self.ann = Person(self.broker, "ann", 1)
        self.bob = Person(self.broker, "bob", 2)

    def allow(self, user: str, configure: str, write: str, read: str) -> None:
        self.broker.apply(commands.PutPermission(Permission(user, "/", configure, write, read)))

    def close(self) -> None:
        self.broker.close()
