"""Connections of HTTP clients, bounded in number and in how long they may take to say something.

aiohttp ends a connection that is idle between requests; whoever never sends a first one, or sends it letter by letter,
would stay forever."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Any

from aiohttp import web

from leveret.management.http.json import encode

# On every answer, whatever it is.
SECURITY_HEADERS = {
    "Server": "Leveret",
    "Cache-Control": "no-cache",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Vary": "Accept, Accept-Encoding, Authorization, Origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
CONNECTIONS_MAX = 2000
FIRST_REQUEST_DEADLINE_S = 10.0
TLS_HANDSHAKE_DEADLINE_S = 5.0
TLS_SHUTDOWN_DEADLINE_S = 2.0
IDLE_DEADLINE_S = 75.0


class _Connection(web.RequestHandler):
    __slots__ = ("_deadline", "_guard")

    def __init__(self, guard: GuardedServer, **settings: Any) -> None:
        super().__init__(guard, **settings)
        self._guard = guard
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if len(self._guard.connections) > self._guard.connections_max:
            self._guard.refused_total += 1
            self.close_now()
            return
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(self._guard.first_request_deadline_s, self.close_now)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.has_asked()
        super().connection_lost(exc)

    def has_asked(self) -> None:
        """A whole request came."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """What is no HTTP is told so, without being repeated: aiohttp's own answer quotes it."""
        if self.transport is None or request.writer.output_size > 0:
            # Too late to say anything.
            return super().handle_error(request, status, exc, message)
        reason = "this is no HTTP"
        if status >= 500:
            self.log_exception("a request failed", exc_info=exc)
            reason = "the broker made a mistake; its log says more"
        body = encode({"error": "bad_request" if status < 500 else "internal_error", "reason": reason})
        headers = {**SECURITY_HEADERS, "Connection": "close"}
        answer = web.Response(status=status, body=body, content_type="application/json", headers=headers)
        answer.force_close()
        return answer

    def close_now(self) -> None:
        if self.transport is not None:
            self.transport.abort()


class GuardedServer(web.Server):
    def __init__(self, handler: Any) -> None:
        self._settings = {
            "auto_decompress": False,
            "access_log": None,
            "keepalive_timeout": IDLE_DEADLINE_S,
            "lingering_time": 2.0,
        }
        super().__init__(handler)
        self.connections_max = CONNECTIONS_MAX
        self.first_request_deadline_s = FIRST_REQUEST_DEADLINE_S
        self.refused_total = 0

    def __call__(self) -> _Connection:
        return _Connection(self, loop=asyncio.get_running_loop(), **self._settings)


class GuardedSite(web.BaseSite):
    """A socket that is bound already. aiohttp's own sites give a TLS handshake a minute, in which its connection is not
    counted yet."""

    def __init__(self, runner: web.BaseRunner, sock: socket.socket, tls: ssl.SSLContext | None) -> None:
        super().__init__(runner, ssl_context=tls)
        self._sock = sock

    @property
    def name(self) -> str:
        return str(self._sock.getsockname())

    async def start(self) -> None:
        await super().start()
        assert self._runner.server is not None
        self._server = await asyncio.get_running_loop().create_server(
            self._runner.server,
            sock=self._sock,
            ssl=self._ssl_context,
            backlog=self._backlog,
            ssl_handshake_timeout=TLS_HANDSHAKE_DEADLINE_S if self._ssl_context is not None else None,
            ssl_shutdown_timeout=TLS_SHUTDOWN_DEADLINE_S if self._ssl_context is not None else None,
        )


def has_asked(request: web.BaseRequest) -> None:
    """To be told with every request."""
    connection = request.protocol
    if isinstance(connection, _Connection):
        connection.has_asked()
