"""The HTTP server that Prometheus scrapes, on a port of its own and in the broker's loop.

Knows paths, methods and formats; what is written comes from the scraper. No login is required, as with RabbitMQ: there
is nothing but numbers and the names of objects."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from typing import Final

from aiohttp import hdrs, web

from leveret.management.http.connection_limits import GuardedServer, GuardedSite, at_work, has_asked
from leveret.management.metrics.exposition import (
    OPENMETRICS_END,
    OPENMETRICS_TYPE,
    PLAIN_TYPE,
    wants_gzip,
    wants_openmetrics,
)
from leveret.management.metrics.scraper import AGGREGATED, DETAILED, MEMORY, PER_OBJECT, Scraper, Wanted
from leveret.management.metrics.source import Source
from leveret.runtime.descriptors import Share
from leveret.runtime.log import get_logger

log = get_logger(__name__)

ENDPOINTS: Final = {
    "/metrics": AGGREGATED,
    "/metrics/per-object": PER_OBJECT,
    "/metrics/detailed": DETAILED,
    "/metrics/memory-breakdown": MEMORY,
}
ALLOWED: Final = "GET, HEAD, OPTIONS"
# The libraries in use are not disclosed.
SERVER: Final = {hdrs.SERVER: "leveret"}
# Text that gathers before it is sent.
CHUNK_CHARS: Final = 65536
# How many are answered at once; others wait, so that scrapers cannot outnumber clients. A scraper that
# does not read its answer in time is disconnected.
SCRAPES_MAX: Final = 4
# Of one address: it does not take all places with answers that it does not read.
SCRAPES_OF_ADDRESS_MAX: Final = 2
SCRAPE_DEADLINE_S: Final = 30.0


class MetricsServer:
    def __init__(self, source: Source) -> None:
        self._scraper = Scraper(source)
        self._places = asyncio.Semaphore(SCRAPES_MAX)
        # Of addresses that scrape now or wait for it, and how many scrapes of them there are.
        self._places_of: dict[str, tuple[asyncio.Semaphore, int]] = {}
        self.connections = GuardedServer(self._answer)
        self._runner: web.ServerRunner | None = None
        self.scrapes_total = 0

    async def start_on(self, listening: socket.socket, share: Share, ssl_context: ssl.SSLContext | None = None) -> None:
        """Serves on a socket that is bound already; its connections count in the share."""
        assert self._runner is None, "the server is running"
        # Scrapes that are under way when the node stops are not worth waiting for.
        self._runner = web.ServerRunner(self.connections, handle_signals=False, shutdown_timeout=0.5)
        await self._runner.setup()
        await GuardedSite(self._runner, listening, ssl_context, share).start()

    async def stop(self) -> None:
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()

    @contextlib.asynccontextmanager
    async def _place(self, address: str) -> AsyncIterator[None]:
        own, count = self._places_of.get(address, (asyncio.Semaphore(SCRAPES_OF_ADDRESS_MAX), 0))
        self._places_of[address] = own, count + 1
        try:
            async with own, self._places:
                yield
        finally:
            own, count = self._places_of.pop(address)
            if count > 1:
                self._places_of[address] = own, count - 1

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        has_asked(request)
        with at_work(request, False) as may:
            if not may:
                headers = {hdrs.RETRY_AFTER: "1", hdrs.CONNECTION: "close", **SERVER}
                return web.Response(status=503, text="too many scrapes at a time\n", headers=headers)
            return await self._scraped(request)

    async def _scraped(self, request: web.BaseRequest) -> web.StreamResponse:
        endpoint = ENDPOINTS.get(request.path.rstrip("/"))
        if endpoint is None:
            return web.Response(status=404, text=f"metrics are at {', '.join(ENDPOINTS)}\n", headers=SERVER)
        if request.method == hdrs.METH_OPTIONS:
            return web.Response(headers={hdrs.ALLOW: ALLOWED, **SERVER})
        if request.method not in (hdrs.METH_GET, hdrs.METH_HEAD):
            return web.Response(status=405, headers={hdrs.ALLOW: ALLOWED, **SERVER})
        openmetrics = wants_openmetrics(request.headers.get(hdrs.ACCEPT, ""))
        kind = OPENMETRICS_TYPE if openmetrics else PLAIN_TYPE
        response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: kind, hdrs.CACHE_CONTROL: "no-cache", **SERVER})
        if request.method == hdrs.METH_HEAD:
            await response.prepare(request)
            return response
        if wants_gzip(request.headers.get(hdrs.ACCEPT_ENCODING, "")):
            response.enable_compression(web.ContentCoding.gzip)
        query = request.rel_url.query
        wanted = Wanted(
            endpoint,
            openmetrics,
            frozenset(query.getall("family", ())),
            frozenset(query.getall("vhost", ())),
            frozenset(query.getall("queue", ())),
        )
        self.scrapes_total += 1
        try:
            async with (
                self._place(request.remote or ""),
                asyncio.timeout(SCRAPE_DEADLINE_S),
                contextlib.aclosing(self._scraper.scrape(wanted)) as texts,
            ):
                await self._send(request, response, texts, openmetrics)
        except TimeoutError:
            log.warning(f"a scrape of metrics was not read within {SCRAPE_DEADLINE_S:.0f} s", peer=request.remote)
            if request.transport is not None:
                request.transport.abort()
        return response

    async def _send(
        self, request: web.BaseRequest, response: web.StreamResponse, texts: AsyncIterator[str], openmetrics: bool
    ) -> None:
        gathered: list[str] = []
        size = 0
        async for text in texts:
            gathered.append(text)
            size += len(text)
            if size >= CHUNK_CHARS:
                await self._flush(request, response, gathered)
                size = 0
        if openmetrics:
            gathered.append(OPENMETRICS_END)
        await self._flush(request, response, gathered)
        await response.write_eof()

    @staticmethod
    async def _flush(request: web.BaseRequest, response: web.StreamResponse, gathered: list[str]) -> None:
        # Only now: until the first text is there, an error can still be answered as one.
        if not response.prepared:
            await response.prepare(request)
        data = "".join(gathered).encode()
        gathered.clear()
        await response.write(data)
