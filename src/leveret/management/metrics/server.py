"""The HTTP server that Prometheus scrapes, on a port of its own and in the broker's loop.

Knows paths, methods and formats; what is written comes from the scraper. Nobody logs in here, as with RabbitMQ: there
is nothing but numbers and the names of objects."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from typing import Final

from aiohttp import hdrs, web

from leveret.management.http.guard import GuardedServer, GuardedSite, has_asked
from leveret.management.metrics.exposition import (
    OPENMETRICS_END,
    OPENMETRICS_TYPE,
    PLAIN_TYPE,
    wants_gzip,
    wants_openmetrics,
)
from leveret.management.metrics.scraper import AGGREGATED, DETAILED, MEMORY, PER_OBJECT, Scraper, Wanted
from leveret.management.metrics.source import Source
from leveret.runtime.log import get_logger

log = get_logger(__name__)

ENDPOINTS: Final = {
    "/metrics": AGGREGATED,
    "/metrics/per-object": PER_OBJECT,
    "/metrics/detailed": DETAILED,
    "/metrics/memory-breakdown": MEMORY,
}
ALLOWED: Final = "GET, HEAD, OPTIONS"
# Nobody need know which libraries are in here.
SERVER: Final = {hdrs.SERVER: "leveret"}
# Text that gathers before it is sent.
CHUNK_CHARS: Final = 65536
# How many are answered at once; others wait, so that scrapers cannot outnumber clients. Whoever does not read its
# answer in time is not waited for.
SCRAPES_MAX: Final = 4
CONNECTIONS_MAX: Final = 200
SCRAPE_DEADLINE_S: Final = 30.0


class MetricsServer:
    def __init__(self, source: Source) -> None:
        self._scraper = Scraper(source)
        self._places = asyncio.Semaphore(SCRAPES_MAX)
        self.connections = GuardedServer(self._answer)
        self.connections.connections_max = CONNECTIONS_MAX
        self._runner: web.ServerRunner | None = None
        self.scrapes_total = 0

    async def start(self, host: str, port: int, ssl_context: ssl.SSLContext | None = None) -> None:
        """Raises OSError if it cannot listen there."""
        runner = await self._prepared()
        await self._begin(web.TCPSite(runner, host, port, ssl_context=ssl_context))

    async def start_on(self, listening: socket.socket, ssl_context: ssl.SSLContext | None = None) -> None:
        """The same on a socket that is bound already."""
        runner = await self._prepared()
        await self._begin(GuardedSite(runner, listening, ssl_context))

    async def _prepared(self) -> web.ServerRunner:
        assert self._runner is None, "the server is running"
        # Scrapes that are under way when the node stops are not worth waiting for.
        self._runner = web.ServerRunner(self.connections, handle_signals=False, shutdown_timeout=0.5)
        await self._runner.setup()
        return self._runner

    async def _begin(self, site: web.BaseSite) -> None:
        try:
            await site.start()
        except OSError:
            await self.stop()
            raise

    async def stop(self) -> None:
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()

    @property
    def port(self) -> int:
        assert self._runner is not None, "the server is not running"
        port: int = self._runner.addresses[0][1]
        return port

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        has_asked(request)
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
                self._places,
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
