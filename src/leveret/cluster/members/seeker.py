"""Looks for other nodes while this one runs: resolves the sources again and again and probes what they name."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from leveret.cluster.links.address import Address
from leveret.cluster.links.hello import Welcome
from leveret.cluster.members.discovery import (
    FILE_BYTES_MAX,
    Discovery,
    DnsHost,
    DnsService,
    Found,
    Listed,
    Source,
    parse_list,
)
from leveret.errors import ClusterError, ConfigError
from leveret.runtime.dns.message import DnsError
from leveret.runtime.dns.resolver import ServiceResolver, addresses
from leveret.runtime.log import get_logger

log = get_logger(__name__)

RESOLVE_DEADLINE_S = 10.0
PROBES_AT_ONCE = 8


class Prober(Protocol):
    """As NodeLinks."""

    async def probe(self, address: Address) -> Welcome: ...


class Seeker:
    """`changed` is called when another node was found, or one is found elsewhere or in a new life."""

    def __init__(
        self,
        own: int,
        sources: Sequence[Source],
        prober: Prober,
        resolver: ServiceResolver,
        random: Callable[[], float],
        changed: Callable[[dict[int, Found]], None],
        every_s: float = 10.0,
        poll_s: float = 0.25,
    ) -> None:
        self.discovery = Discovery(own)
        self._sources = sources
        self._prober = prober
        self._resolver = resolver
        self._random = random
        self._changed = changed
        self._every_s = every_s
        self._poll_s = poll_s
        self._told: dict[int, Found] = {}
        # What each source gave last: one that fails for a while loses nobody.
        self._last: dict[Source, list[Address]] = {}
        self._complaints: dict[Source, str] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="discovery of nodes")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        resolve_at = loop.time()
        while True:
            if loop.time() >= resolve_at:
                self.discovery.resolved(await self._resolve_all(), loop.time())
                resolve_at = loop.time() + self._every_s
            due = self.discovery.due(loop.time())
            for start in range(0, len(due), PROBES_AT_ONCE):
                await asyncio.gather(*(self._probe(address) for address in due[start : start + PROBES_AT_ONCE]))
            nodes = self.discovery.nodes()
            if nodes != self._told:
                self._told = nodes
                self._changed(dict(nodes))
            await asyncio.sleep(self._poll_s)

    async def _probe(self, address: Address) -> None:
        found: Found | None = None
        try:
            welcome = await self._prober.probe(address)
            found = Found(welcome.node, welcome.incarnation, welcome.name, address)
        except ClusterError as error:
            log.debug("no node found", address=str(address), reason=str(error))
        self.discovery.probed(address, found, asyncio.get_running_loop().time(), self._random())

    async def _resolve_all(self) -> list[Address]:
        for source in self._sources:
            try:
                self._last[source] = await self._resolve(source)
                self._complaints.pop(source, None)
            except (OSError, DnsError, ConfigError) as error:
                text = str(error) or type(error).__name__
                # Once, until it is another reason: it is tried again all the time.
                if self._complaints.get(source) != text:
                    self._complaints[source] = text
                    log.warning("a source of nodes gives none", source=str(source), reason=text)
        return [address for source in self._sources for address in self._last.get(source, [])]

    async def _resolve(self, source: Source) -> list[Address]:
        if isinstance(source, Listed):
            return [source.address]
        if isinstance(source, DnsHost):
            hosts = await addresses(source.host, source.port, RESOLVE_DEADLINE_S)
            return [Address(host, source.port) for host in hosts]
        if isinstance(source, DnsService):
            services = await self._resolver.services(source.name, RESOLVE_DEADLINE_S)
            return [Address(service.target, service.port) for service in services]
        return parse_list(await asyncio.to_thread(_read, source.path))


def _read(path: str) -> str:
    with Path(path).open("rb") as file:
        octets = file.read(FILE_BYTES_MAX + 1)
    if len(octets) > FILE_BYTES_MAX:
        raise ConfigError(f"{path} is longer than {FILE_BYTES_MAX} octets")
    return octets.decode("utf-8", "replace")
