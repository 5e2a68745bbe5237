"""A virtual host of a test's own on either broker, connections to it, and what the broker says is in it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar
from urllib.parse import quote

import pika

from leveret.client import events
from leveret.client.connection import Connection, connect
from leveret.client.topology import Topology
from leveret.wire.method import Method
from tests.client.amqp_server import AmqpServer

T = TypeVar("T")
WAIT_S = 30.0


def _attached(connection: Connection) -> Topology:
    topology = Topology(connection.channel, virtual_host=connection.address.vhost)
    connection.attach(topology)
    return topology


if not hasattr(Connection, "topology"):
    # Until a connection makes one itself; then this counts for nothing and can go.
    Connection.topology = cached_property(_attached)
    Connection.topology.__set_name__(Connection, "topology")


@dataclass(frozen=True)
class Scene:
    server: AmqpServer
    virtual_host: str

    @property
    def url(self) -> str:
        return self.server.url + quote(self.virtual_host, safe="")

    @property
    def management(self) -> str:
        return self.server.management_login

    def run(self, script: Callable[[Connection, Topology], Awaitable[T]]) -> T:
        """Runs the script on a connection of its own."""

        async def whole() -> T:
            async with asyncio.timeout(WAIT_S), self.connected() as connection:
                return await script(connection, connection.topology)

        return asyncio.run(whole())

    @asynccontextmanager
    async def connected(self, **options: Any) -> AsyncIterator[Connection]:
        async with connect(self.url, **options) as connection:
            yield connection

    def pika(self) -> pika.BlockingConnection:
        """Another client, which knows nothing of ours."""
        return pika.BlockingConnection(pika.URLParameters(self.url))

    # ---- what is there

    def listed(self, what: str) -> list[dict[str, Any]]:
        reply = self.server.api.ask("GET", f"/{what}/{quote(self.virtual_host, safe='')}")
        assert reply.status == 200, reply
        items: list[dict[str, Any]] = reply.body
        return items

    def exchange_names(self) -> set[str]:
        return {item["name"] for item in self.listed("exchanges") if not item["name"].startswith("amq.")} - {""}

    def queue_names(self) -> set[str]:
        return {item["name"] for item in self.listed("queues")}

    def routes(self) -> set[tuple[str, str, str]]:
        """(source, destination, routing key) of each binding."""
        found = (item for item in self.listed("bindings") if item["source"])
        return {(item["source"], item["destination"], item["routing_key"]) for item in found}


@contextmanager
def scene_on(server: AmqpServer) -> Iterator[Scene]:
    name = f"topology-{uuid.uuid4().hex[:12]}"
    assert server.api.ask("PUT", f"/vhosts/{name}", {}).status == 201
    rights = {"configure": ".*", "write": ".*", "read": ".*"}
    assert server.api.ask("PUT", f"/permissions/{name}/guest", rights).status in (201, 204)
    try:
        yield Scene(server, name)
    finally:
        assert server.api.ask("DELETE", f"/vhosts/{name}").status == 204


class Overheard:
    """The way to a connection's channels, with all methods noted that go out on them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.sent: list[Method] = []
        self.opened_count = 0

    def sending(self, method: Method) -> None:
        """For whoever wants to meddle."""

    async def channel(self, deadline_s: float | None = None) -> Any:
        channel = await self._connection.channel(deadline_s)
        self.opened_count += 1
        call = channel.call

        async def noted(method: Method, deadline_s: float | None = None) -> Any:
            self.sending(method)
            self.sent.append(method)
            return await call(method, deadline_s)

        channel.call = noted  # type: ignore[method-assign]
        return channel


def cut(connection: Connection) -> None:
    """The TCP connection breaks."""
    link = connection._link
    assert link is not None and link._transport is not None
    link._transport.abort()


async def cut_and_restored(connection: Connection) -> None:
    """Returns when everything is as it was."""
    heard = connection.events()
    cut(connection)
    async with asyncio.timeout(WAIT_S):
        async for event in heard:
            if isinstance(event, events.Restored):
                return
