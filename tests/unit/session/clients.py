"""A running broker and clients of it, for tests that need the whole way from socket to queue.

The clients are the conformance suite's raw ones: they send what a test spells out and answer nothing by themselves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from leveret.catalog import commands
from leveret.catalog.passwords import hash_known_password
from leveret.catalog.records import Permission, User
from leveret.testing import Broker
from tests.conformance.raw_client import RawClient

WAIT_SECONDS_MAX = 60.0
PASSWORD = "secret"
_HASH = hash_known_password(PASSWORD.encode(), bytes(16))


class Scene:
    """One broker and everybody connected to it."""

    def __init__(self, broker: Broker, stack: ExitStack) -> None:
        self.broker = broker
        self._stack = stack

    def stranger(self) -> RawClient:
        """A socket on which nothing was said yet."""
        return self._stack.enter_context(RawClient(self.broker.host, self.broker.port))

    def connect(
        self,
        user: str = "guest",
        vhost: str = "/",
        capabilities: Mapping[str, Any] | None = None,
        **tune_wishes: int,
    ) -> RawClient:
        """A client that is logged in and has channel 1 open."""
        client = self.stranger()
        client.start()
        client.start_ok(user, "guest" if user == "guest" else PASSWORD, capabilities)
        client.tune_ok(client.expect(0, "connection.tune"), **tune_wishes)
        client.call(0, "connection.open", virtual_host=vhost)
        client.open_channel(1)
        return client

    def add_user(self, name: str, configure: str, write: str, read: str, tags: tuple[str, ...] = ()) -> None:
        """A user with these permissions in /, whose password is PASSWORD."""
        self.apply(commands.PutUser(User(name, _HASH, tags)))
        self.apply(commands.PutPermission(Permission(name, "/", configure, write, read)))

    def apply(self, command: commands.Command) -> None:
        self.broker.call(lambda node: node.broker.apply(command))

    def queue_names(self, vhost: str = "/") -> set[str]:
        return self.broker.call(lambda node: {name.decode() for name in node.broker.vhosts[vhost].queues})

    def ready_count(self, queue: str) -> int:
        return self.broker.call(lambda node: int(node.broker.vhosts["/"].queues[queue.encode()].ready_count()))

    def connection_count(self) -> int:
        return self.broker.call(lambda node: len(node.broker.connections))


@contextmanager
def running_scene(settings: dict[str, object] | None = None) -> Iterator[Scene]:
    """Clients leave before the broker does, so that it has nobody to wait for."""
    with Broker(settings) as broker, ExitStack() as stack:
        yield Scene(broker, stack)


def eventually(condition: Callable[[], bool], what: str = "", seconds: float = WAIT_SECONDS_MAX) -> None:
    """Waits until the condition holds; what the broker does after a socket closes nobody can see otherwise."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"still not so after {seconds} s: {what}"
        time.sleep(0.005)
