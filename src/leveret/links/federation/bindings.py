"""The bindings of a federated exchange at its upstream: those that its bindings here ask for, and no others.

Reads the catalog, and binds and unbinds at the upstream as it changes. Owned by an exchange's link."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from leveret.catalog.catalog import Catalog
from leveret.catalog.records import ExchangeRecord
from leveret.client.errors import ClientError
from leveret.client.transport.channel import Channel
from leveret.core.codec.tables import encode_table
from leveret.links.federation.hops import BOUND_FROM, Cluster
from leveret.wire.exchange_methods import ExchangeBind, ExchangeUnbind

__all__ = ["INTERNAL_PREFIX", "UpstreamBindings", "wanted_bindings"]

# What exchanges that links have declared begin with.
INTERNAL_PREFIX = "federation: "
HEADERS = "headers"
BINDINGS_MAX = 100_000


class Wanted(NamedTuple):
    routing_key: str
    arguments: dict[str, Any]


def wanted_bindings(
    catalog: Catalog, exchange: ExchangeRecord, ours: Cluster, upstream: Cluster, max_hops: int
) -> dict[tuple[str, bytes], Wanted]:
    """Each once, whoever asks for it here. A binding that another link has made is passed on if it may come so far, and
    never back to where it is from."""
    topology = catalog.topologies.get(exchange.vhost)
    found: dict[tuple[str, bytes], Wanted] = {}
    bound = {} if topology is None else topology.bindings_from.get(exchange.name, {})
    for binding in bound.values():
        before = binding.arguments.get(BOUND_FROM)
        asked = before if isinstance(before, list) else []
        made_by_link = not binding.to_queue and binding.destination.startswith(INTERNAL_PREFIX)
        if len(asked) >= max_hops or upstream.is_in(asked) or (made_by_link and exchange.kind == HEADERS):
            continue
        arguments = {key: value for key, value in binding.arguments.items() if key != BOUND_FROM}
        if exchange.kind != HEADERS:
            # A headers exchange would route by it.
            arguments[BOUND_FROM] = [ours.entry(), *asked]
        key = (binding.routing_key, encode_table({name: arguments[name] for name in sorted(arguments)}))
        if len(found) < BINDINGS_MAX:
            found[key] = Wanted(binding.routing_key, arguments)
    return found


class UpstreamBindings:
    def __init__(self, wanted: Callable[[], dict[tuple[str, bytes], Wanted]]) -> None:
        self._wanted = wanted
        self._bound: dict[tuple[str, bytes], Wanted] = {}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def changed(self) -> None:
        self._changed.set()

    async def bind_all(self, channel: Channel, source: str, internal: str) -> None:
        """At an exchange that has no bindings yet."""
        self._bound = {}
        await self._reconcile(channel, source, internal)

    def follow(self, channel: Channel, source: str, internal: str, failed: Callable[[ClientError], None]) -> None:
        self._task = asyncio.get_running_loop().create_task(self._follow(channel, source, internal, failed))

    async def _follow(
        self, channel: Channel, source: str, internal: str, failed: Callable[[ClientError], None]
    ) -> None:
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                await self._reconcile(channel, source, internal)
        except ClientError as error:
            failed(error)

    async def _reconcile(self, channel: Channel, source: str, internal: str) -> None:
        wanted = self._wanted()
        for key in [key for key in wanted if key not in self._bound]:
            await channel.call(ExchangeBind(internal, source, wanted[key].routing_key, arguments=wanted[key].arguments))
            self._bound[key] = wanted[key]
        for key in [key for key in self._bound if key not in wanted]:
            gone = self._bound[key]
            await channel.call(ExchangeUnbind(internal, source, gone.routing_key, arguments=gone.arguments))
            del self._bound[key]

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
