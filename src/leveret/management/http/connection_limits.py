"""Connections of HTTP clients, bounded in number and in how long they may take to say something.

aiohttp ends a connection that is idle between requests; one that never sends a request, or sends it letter by letter,
would stay forever, so the head of every request has a deadline. Accepting is ours, too: asyncio's servers accept all
that come, and a crowd would take every descriptor of the process before it could be counted."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import socket
import ssl
from collections import deque
from collections.abc import Iterator
from typing import Any

from aiohttp import web

from leveret.management.http.json import encode
from leveret.management.http.places import Places, Queue
from leveret.runtime.descriptors import Share
from leveret.runtime.listener import Acceptor
from leveret.runtime.proxy_acceptor import ProxyNetworks

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
HEADER_DEADLINE_S = 10.0
TLS_HANDSHAKE_DEADLINE_S = 5.0
TLS_SHUTDOWN_DEADLINE_S = 2.0
IDLE_DEADLINE_S = 75.0
# Connections that are closed at once to make room for others.
EVICTED_AT_ONCE = 32
# A new connection is not closed for others before its request had a chance to be read.
FIRST_LOOK_S = 0.1
# Meanwhile so many others of the same address wait for a place, each for a while, and look again so often.
AWAITING_MAX = 256
AWAITING_S = 2.0
AWAITING_PAUSE_S = 0.02
# How often all connections may be gone through for one that is idle.
LOOK_PAUSE_S = 0.02


class _Connection(web.RequestHandler):
    __slots__ = ("_deadline", "_guard", "_lingers", "_share", "address", "waits_since")

    def __init__(self, guard: GuardedServer, share: Share, address: str, **settings: Any) -> None:
        super().__init__(guard, **settings)
        self._guard = guard
        # While the head of a request is awaited, the first or one that has begun.
        self._deadline: asyncio.TimerHandle | None = None
        # Whether it was answered before all of its request came: aiohttp waits a while for the rest.
        self._lingers = False
        # Where its descriptor is counted; None once it is given back.
        self._share: Share | None = share
        share.used += 1
        # Empty for the unix socket.
        self.address = address
        guard.places.enter(address)
        # Since when it has not sent a whole request: letters that come one by one do not make it younger.
        self.waits_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._deadline is None and not self._request_in_progress and not self._messages:
            # The head of another request has begun.
            self._await_head()

    def _await_head(self) -> None:
        if self.transport is not None:
            loop = asyncio.get_running_loop()
            self.waits_since = loop.time()
            self._deadline = loop.call_later(self._guard.header_deadline_s, self.close_now)
            self._guard.half_open.add(self._share, self.address, self)

    def has_answered(self, request: web.BaseRequest) -> None:
        """If the rest of the request is still to come, only the socket waits for it."""
        if self.transport is not None and not request.content.is_eof():
            self._lingers = True
            self._guard.half_open.add(self._share, self.address, self)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._end_head()
        self.give_back()
        super().connection_lost(exc)

    def give_back(self) -> None:
        """The socket is closed."""
        if self._share is not None:
            self._share.used -= 1
            self._share = None
            self._guard.places.leave(self.address)

    @property
    def places(self) -> Places:
        return self._guard.places

    @property
    def share(self) -> Share | None:
        return self._share

    def is_idle(self, share: Share) -> bool:
        """Whether it counts there and waits for a request, the first or the next."""
        return self._share is share and self.transport is not None and not self._request_in_progress

    def has_asked(self) -> None:
        """A whole request came."""
        self.waits_since = asyncio.get_running_loop().time()
        self._end_head()

    def may_be_closed(self, now: float) -> bool:
        """Whether one that is half open may make room for others."""
        return self._lingers or now - self.waits_since >= FIRST_LOOK_S

    def _end_head(self) -> None:
        if self._deadline is not None or self._lingers:
            self._lingers = False
            self._guard.half_open.remove(self._share, self.address, self)
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
        self.header_deadline_s = HEADER_DEADLINE_S
        self.places = Places()
        # Connections that have sent nothing, or the beginning of a request, answered or not.
        self.half_open: Queue[_Connection] = Queue()
        self._looked_at = 0.0
        # Connections closed while they were idle, because others came and there was no room.
        self.evicted_total = 0

    def bound(self, header_deadline_s: float, per_address_max: int) -> None:
        """From now on, as the settings say."""
        self.header_deadline_s = header_deadline_s
        self.places.per_address_max = per_address_max

    def connection(self, share: Share, address: str = "") -> _Connection:
        return _Connection(self, share, address, loop=asyncio.get_running_loop(), **self._settings)

    def evict_idle(self, share: Share, address: str | None = None) -> bool:
        """Closes connections that only wait, of one address or of all, so that clients that only hold connections
        cannot lock others out: a part of those whose request has not come, the oldest first, or else the one that has
        been idle for longest. False if all are at work."""
        now = asyncio.get_running_loop().time()
        waiting = self.half_open.count(share, address)
        oldest = self.half_open.first(share, address, min(EVICTED_AT_ONCE, max(1, waiting // 8)))
        chosen = [made for made in oldest if made.may_be_closed(now)]
        if not chosen:
            if now - self._looked_at < LOOK_PAUSE_S:
                return False
            self._looked_at = now
            idle = (made for made in self.connections if isinstance(made, _Connection) and made.is_idle(share))
            of_address = (made for made in idle if address in (None, made.address))
            chosen = heapq.nsmallest(1, of_address, key=lambda made: made.waits_since)
        for made in chosen:
            self.evicted_total += 1
            made.close_now()
        return bool(chosen)


class GuardedSite(web.BaseSite):
    """A socket that is bound already, whose connections count in a share of the descriptor budget. aiohttp's own sites
    give a TLS handshake a minute, in which its connection is not counted yet."""

    def __init__(
        self,
        runner: web.BaseRunner,
        sock: socket.socket,
        tls: ssl.SSLContext | None,
        share: Share,
        proxies: ProxyNetworks | None = None,
    ) -> None:
        super().__init__(runner, ssl_context=tls)
        # A unix socket's peer has no address.
        self._proxies = proxies if sock.family != socket.AF_UNIX else None
        self._sock = sock
        self._share = share
        self._acceptor: Acceptor | None = None
        # Handshakes, which are cancelled only here.
        self._tasks: set[asyncio.Task[None]] = set()
        # Connections that wait for one of their address's places, and until when; and when each address is looked at.
        self._awaiting: dict[str, deque[tuple[socket.socket, float]]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    @property
    def name(self) -> str:
        return str(self._sock.getsockname())

    async def start(self) -> None:
        await super().start()
        server = self._runner.server
        assert isinstance(server, GuardedServer)
        self._acceptor = Acceptor(
            asyncio.get_running_loop(),
            self._sock,
            self._share,
            lambda sock, peer, _: self._begin(server, sock, peer[0] if sock.family != socket.AF_UNIX else ""),
            lambda: server.evict_idle(self._share),
            self._proxies,
        )

    async def stop(self) -> None:
        if self._acceptor is not None:
            self._acceptor.close()
        for timer in self._timers.values():
            timer.cancel()
        for line in self._awaiting.values():
            for sock, _ in line:
                sock.close()
                self._share.used -= 1
        self._timers.clear()
        self._awaiting.clear()
        for task in self._tasks:
            task.cancel()
        await super().stop()

    def _begin(self, server: GuardedServer, sock: socket.socket, address: str) -> None:
        line = self._awaiting.get(address)
        if line is None and self._has_place(server, address):
            self._serve_new(server, sock, address)
        elif (line is None or len(line) < AWAITING_MAX) and self._share.room:
            self._share.used += 1
            if line is None:
                line = self._awaiting[address] = deque()
                self._look_later(server, address)
            line.append((sock, asyncio.get_running_loop().time() + AWAITING_S))
        else:
            self._refuse(server, sock)

    def _has_place(self, server: GuardedServer, address: str) -> bool:
        return not server.places.is_full(address) or server.evict_idle(self._share, address)

    def _refuse(self, server: GuardedServer, sock: socket.socket) -> None:
        server.places.refused_total += 1
        self._share.refused_total += 1
        sock.close()

    def _look_later(self, server: GuardedServer, address: str) -> None:
        """One timer serves an address, however many of its connections wait."""
        loop = asyncio.get_running_loop()
        self._timers[address] = loop.call_later(AWAITING_PAUSE_S, self._admit, server, address)

    def _admit(self, server: GuardedServer, address: str) -> None:
        """Connections of the address get its places as these become free, in the order in which they came."""
        line, now = self._awaiting[address], asyncio.get_running_loop().time()
        while line:
            sock, deadline = line[0]
            if self._has_place(server, address):
                admit = True
            elif now > deadline:
                admit = False
            else:
                break
            line.popleft()
            self._share.used -= 1
            self._serve_new(server, sock, address) if admit else self._refuse(server, sock)
        if line:
            self._look_later(server, address)
        else:
            del self._awaiting[address], self._timers[address]

    def _serve_new(self, server: GuardedServer, sock: socket.socket, address: str) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(server.connection(self._share, address), sock))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, connection: _Connection, sock: socket.socket) -> None:
        tls = self._ssl_context
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                sock,
                ssl=tls,
                ssl_handshake_timeout=TLS_HANDSHAKE_DEADLINE_S if tls is not None else None,
                ssl_shutdown_timeout=TLS_SHUTDOWN_DEADLINE_S if tls is not None else None,
            )
        except BaseException as error:
            with contextlib.suppress(OSError):
                sock.close()
            connection.give_back()
            # A handshake that fails is the peer's affair.
            if not isinstance(error, OSError):
                raise


def client_address(request: web.BaseRequest) -> str:
    """Where the client is, also if it came through a proxy; empty for the unix socket."""
    connection = request.protocol
    return connection.address if isinstance(connection, _Connection) else request.remote or ""


def has_asked(request: web.BaseRequest) -> None:
    """To be told with every request."""
    connection = request.protocol
    if isinstance(connection, _Connection):
        connection.has_asked()


@contextlib.contextmanager
def at_work(request: web.BaseRequest, always: bool) -> Iterator[bool]:
    """Counts a request while it is answered. False if there are too many, unless it is `always` answered."""
    connection = request.protocol
    share = connection.share if isinstance(connection, _Connection) else None
    if not isinstance(connection, _Connection) or share is None:
        yield True
        return
    places = connection.places
    if not always and not places.may_work(share, connection.address):
        places.refused_total += 1
        yield False
        connection.has_answered(request)
        return
    places.begin(share, connection.address)
    try:
        yield True
    finally:
        places.end(share, connection.address)
        connection.has_answered(request)
