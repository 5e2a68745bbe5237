"""The HTTP server: from a socket's request to the handler of its route, and back.

In this order: the path, authentication, authorization, the size of the body, and only then is the body read. What a
handler raises on purpose becomes a 4xx with a reason; what it raises by mistake becomes a 500 whose reason only the log
knows."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import socket
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

from aiohttp import hdrs, web

from leveret.auth.access import Right, has, require, sees_vhost
from leveret.auth.audit import DONE, FAILED, REFUSED, Actor
from leveret.auth.identity import Identity
from leveret.errors import LeveretError
from leveret.management.http.authentication import Anonymous, identify, local_operator, session_ended
from leveret.management.http.budget import RETRY_AFTER_S, Hold
from leveret.management.http.connection_limits import (
    SECURITY_HEADERS,
    GuardedServer,
    GuardedSite,
    at_work,
    client_address,
    has_asked,
)
from leveret.management.http.errors import HttpError, not_authorised, not_found, refusal_of
from leveret.management.http.json import decode, encode
from leveret.management.http.request import Answer, Request
from leveret.management.http.route import Login, Route, Scope, Size, Table
from leveret.management.http.sessions import REQUEST_HEADER, token_in
from leveret.management.services import Services
from leveret.runtime.descriptors import Share
from leveret.runtime.log import get_logger
from leveret.runtime.proxy_acceptor import ProxyNetworks

log = get_logger(__name__)

COMPRESS_FROM_BYTES = 1024
COMPRESS_IN_THREAD_FROM_BYTES = 65536
# How long requests that are being answered get when the broker stops.
STOP_DEADLINE_S = 1.0
# How long a body may take to come.
BODY_DEADLINE_S = 60.0
# What may be asked for without /api before it, unless the settings say otherwise. Where such a path has a route of its
# own, it is that one.
ROOT_ALIASES = ("queues", "exchanges", "bindings")
OWN_SITE = ("same-origin", "none")
READING = ("GET", "HEAD", "OPTIONS")
# Answered however many others are being answered.
ALWAYS = ("/health", "/api/health/")
# The least that a client must read, beside the deadline, and what the buffers of a socket take without it.
READ_BYTES_A_SECOND_MIN = 65536
UNWATCHED_BYTES = 65536


class HttpServer:
    def __init__(self, services: Services, table: Table) -> None:
        self._services = services
        self._table = table
        self.connections = GuardedServer(self._handle)
        self._runner = web.ServerRunner(self.connections, handle_signals=False, shutdown_timeout=STOP_DEADLINE_S)
        self._sites: list[web.BaseSite] = []
        self.requests_total = 0
        self.failures_total = 0
        # Answers whose clients did not read them in time.
        self.unread_total = 0

    async def start(self) -> None:
        await self._runner.setup()

    async def listen(self, sock: Any, share: Share, tls: Any = None, proxies: ProxyNetworks | None = None) -> None:
        """Serves on a socket that is bound already; its connections count in the share."""
        site = GuardedSite(self._runner, sock, tls, share, proxies)
        await site.start()
        self._sites.append(site)

    async def stop(self) -> None:
        await self._runner.cleanup()

    # ---- one request

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests_total += 1
        has_asked(request)
        holds: list[Hold] = []
        with at_work(request, request.raw_path.startswith(ALWAYS)) as may:
            try:
                return await self._serve(request, holds) if may else await self._turn_away(request)
            finally:
                for hold in holds:
                    hold.release()

    async def _turn_away(self, request: web.BaseRequest) -> web.StreamResponse:
        headers = {"Retry-After": str(RETRY_AFTER_S), "Connection": "close"}
        error = HttpError(503, "too_busy", "as many requests are being answered as there may be", headers)
        return await self._send(request, None, _refused(error), None)

    async def _serve(self, request: web.BaseRequest, holds: list[Hold]) -> web.StreamResponse:
        route: Route | None = None
        asked: Request | None = None
        try:
            route, values = self._find(request)
            if route is None:
                return self._plain(request, 200, {"Allow": ", ".join(sorted(values))})
            asked = self._asked(request, route, values)
            answer = await self._answer(request, route, asked, holds)
        except HttpError as error:
            answer = _refused(error)
        except LeveretError as error:
            answer = _refused(refusal_of(error))
        except asyncio.CancelledError:
            raise
        except Exception:
            self.failures_total += 1
            log.exception("a request failed", method=request.method, route=route.path if route else "")
            answer = _refused(HttpError(500, "internal_error", "the broker made a mistake; its log says more"))
        if route is not None and asked is not None and route.changes:
            self._note(route, asked, answer.status)
        hold = None if asked is None else asked.answer_hold
        try:
            return await self._send(request, route, answer, hold)
        except HttpError as error:
            # There is no room for this answer.
            return await self._send(request, route, _refused(error), hold)

    def _find(self, request: web.BaseRequest) -> tuple[Route | None, list[str]]:
        """The route and the names in the path; or, for OPTIONS, None and the methods that there are."""
        # As it came over the wire, without what follows the question mark.
        raw_path = request.raw_path.partition("?")[0]
        found = [self._table.find(raw_path)]
        if self._services.root_aliases and raw_path.lstrip("/").partition("/")[0] in ROOT_ALIASES:
            found.append(self._table.find(f"/api{raw_path}"))
        places = [place for place in found if place is not None]
        if not places:
            raise not_found()
        method = request.method
        methods = list(dict.fromkeys(known for routes, _ in places for known in routes))
        if method == "OPTIONS":
            return None, ["OPTIONS", *methods, *(["HEAD"] if "GET" in methods else [])]
        for routes, values in places:
            route = routes.get("GET" if method == "HEAD" else method)
            if route is not None:
                return route, values
        raise HttpError(405, "method_not_allowed", f"{method} is not for this path", {"Allow": ", ".join(methods)})

    def _asked(self, request: web.BaseRequest, route: Route, values: list[str]) -> Request:
        """Before authentication."""
        return Request(
            self._services,
            Anonymous(),
            client_address(request),
            request.method,
            dict(zip(route.parameters, values, strict=True)),
            _query(request),
            content_type=request.content_type,
            headers={name.lower(): value for name, value in request.headers.items()},
            secure=request.secure,
            port=_port(request),
        )

    def _note(self, route: Route, asked: Request, status: int) -> None:
        """Who wanted to change something, and what became of it."""
        outcome = DONE if status < 400 else REFUSED if status < 500 else FAILED
        actor = Actor(asked.who.name, asked.peer_host, "http")
        self._services.audit.note(actor, f"{route.method} {route.path}", {**asked.path, **asked.noted}, outcome, status)

    async def _answer(self, request: web.BaseRequest, route: Route, asked: Request, holds: list[Hold]) -> Answer:
        self._refuse_other_sites(request, route)
        asked.who = await self._identify(request, route, asked)
        self.check_rights(asked.who, route, asked.path)
        # The operator on the machine itself is never told to come back.
        refusable = not _is_local(request)
        asked.answer_hold = Hold(self._services.answers, asked.who.name, refusable)
        holds.append(asked.answer_hold)
        if request.method not in READING:
            holds.append(Hold(self._services.bodies, asked.who.name, refusable))
            octets = await self._read(request, route.size, holds[-1])
            if octets and request.content_type.startswith("multipart/"):
                asked.body = octets
            elif octets.strip():
                asked.body = decode(octets, route.body)
        given = route.handler(asked)
        if inspect.isawaitable(given):
            given = await given
        return given if isinstance(given, Answer) else Answer(body=given)

    # ---- who may

    async def _identify(self, request: web.BaseRequest, route: Route, asked: Request) -> Identity:
        header = request.headers.get(hdrs.AUTHORIZATION)
        if header is None and (sock := _local_socket(request)) is not None:
            operator = local_operator(sock)
            if operator is not None:
                return operator
        if route.right is Login.NOT_REQUIRED:
            return Anonymous()
        if header is None and REQUEST_HEADER in request.headers:
            asked.session_token = token_in(request.headers.get(hdrs.COOKIE), asked.port)
            if asked.session_token is not None:
                return self._of_session(asked.session_token, asked.peer_host)
        return await identify(self._services.broker, header, asked.peer_host)

    def _of_session(self, token: str, peer_host: str) -> Identity:
        session = self._services.sessions.find(token, peer_host)
        if session is None:
            raise session_ended()
        return session.identity

    def check_rights(self, who: Identity, route: Route, path: dict[str, str]) -> None:
        if route.right is Login.NOT_REQUIRED:
            return
        vhost = path.get("vhost")
        if vhost not in self._services.broker.vhosts:
            # The handler reports it, to callers with the right to ask.
            vhost = None
        enters = route.scope is Scope.ENTER or (route.scope is Scope.GOVERN and not has(who, Right.ADMINISTRATOR))
        if isinstance(route.right, Right):
            require(who, route.right, vhost if enters else None)
        if vhost is not None and route.scope is Scope.SEE and not sees_vhost(who, vhost):
            raise not_authorised("User not authorised to access virtual host")

    def _refuse_other_sites(self, request: web.BaseRequest, route: Route) -> None:
        """A page of another site cannot make a browser that knows our password do anything here. That goes for GET as
        well: some of them take messages, and none is meant for other pages."""
        site = request.headers.get("Sec-Fetch-Site")
        origin = request.headers.get(hdrs.ORIGIN)
        if site is not None:
            own = site in OWN_SITE or route.right is Login.NOT_REQUIRED
        else:
            own = (
                origin is None
                or request.method in READING
                or urlsplit(origin).netloc == request.headers.get(hdrs.HOST, "")
            )
        if not own:
            raise HttpError(403, "forbidden", "requests from pages of other sites are refused")

    # ---- bodies

    async def _read(self, request: web.BaseRequest, size: Size, hold: Hold) -> bytes:
        most = self._services.small_body_bytes_max if size is Size.SMALL else self._services.large_body_bytes_max
        too_large = HttpError(413, "payload_too_large", f"a body here has at most {most} bytes")
        if request.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity":
            raise HttpError(415, "unsupported_media_type", "bodies are taken as they are, not compressed")
        if (request.content_length or 0) > most:
            raise too_large
        # What is announced is set aside at once: of many that come together some are read to the end.
        hold.reach(request.content_length or 0)
        octets = bytearray()
        try:
            async with asyncio.timeout(BODY_DEADLINE_S):
                async for chunk in request.content.iter_chunked(65536):
                    octets += chunk
                    if len(octets) > most:
                        raise too_large
                    hold.reach(len(octets))
        except TimeoutError:
            raise HttpError(408, "timeout", f"the body did not come within {BODY_DEADLINE_S:g} s") from None
        except (web.RequestPayloadError, ConnectionError) as error:
            # Or the client has gone: then the answer is not read, and it is no error of the server.
            raise HttpError(400, "bad_request", f"the body is broken: {error}") from None
        return bytes(octets)

    # ---- answers

    def _plain(self, request: web.BaseRequest, status: int, headers: dict[str, str]) -> web.Response:
        return web.Response(status=status, headers={**SECURITY_HEADERS, **headers})

    async def _send(
        self, request: web.BaseRequest, route: Route | None, answer: Answer, hold: Hold | None
    ) -> web.StreamResponse:
        """Until the client has read it, but for what a socket's buffer takes. Raises HttpError if there is no room."""
        headers = {**SECURITY_HEADERS, **answer.headers}
        if route is not None and route.private:
            headers["Cache-Control"] = "no-store"
        if request.secure:
            headers["Strict-Transport-Security"] = "max-age=31536000"
        if REQUEST_HEADER in request.headers:
            # A browser would ask for a password by itself.
            headers.pop(hdrs.WWW_AUTHENTICATE, None)
        body = answer.body
        if isinstance(body, AsyncIterator):
            return await self._send_pieces(request, answer, headers)
        if body is None:
            return web.Response(status=answer.status, headers=headers)
        octets = body if isinstance(body, bytes) else encode(body)
        if hold is not None:
            hold.reach(len(octets))
        response = web.Response(
            status=answer.status,
            body=octets,
            headers={**headers, "Content-Type": answer.content_type},
            # What is larger is compressed in a thread: the broker's clients are not to wait for it.
            zlib_executor_size=COMPRESS_IN_THREAD_FROM_BYTES,
        )
        if len(octets) >= COMPRESS_FROM_BYTES and hdrs.CONTENT_ENCODING not in headers:
            response.enable_compression()
        if len(octets) > UNWATCHED_BYTES:
            with contextlib.suppress(ConnectionError):
                async with self._read_in_time(request, len(octets)):
                    await response.prepare(request)
                    await response.write_eof()
        return response

    @contextlib.asynccontextmanager
    async def _read_in_time(self, request: web.BaseRequest, size: int) -> AsyncIterator[None]:
        """Closes the connection of a client that does not read what is sent; it is not waited for."""
        deadline_s = self._services.write_deadline_s + size / READ_BYTES_A_SECOND_MIN
        try:
            async with asyncio.timeout(deadline_s):
                yield
        except TimeoutError:
            self.unread_total += 1
            log.warning(f"an answer was not read within {deadline_s:.0f} s", peer=client_address(request))
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionResetError("the answer was not read") from None

    async def _send_pieces(
        self, request: web.BaseRequest, answer: Answer, headers: dict[str, str]
    ) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status, headers={**headers, "Content-Type": answer.content_type})
        if answer.content_type != "text/event-stream":
            response.enable_compression()
        try:
            await response.prepare(request)
            if request.method != "HEAD":
                async for piece in answer.body:
                    async with self._read_in_time(request, len(piece)):
                        await response.write(piece)
        except ConnectionError:
            # The caller has disconnected, which is no error.
            return response
        finally:
            await answer.body.aclose()
        with contextlib.suppress(ConnectionError):
            async with self._read_in_time(request, 0):
                await response.write_eof()
        return response


def _local_socket(request: web.BaseRequest) -> Any:
    """The unix socket by which it came, or None."""
    transport = request.transport
    sock = None if transport is None else transport.get_extra_info("socket")
    return sock if sock is not None and sock.family == socket.AF_UNIX else None


def _is_local(request: web.BaseRequest) -> bool:
    return _local_socket(request) is not None


def _port(request: web.BaseRequest) -> int:
    """Of this side; 0 for the unix socket."""
    transport = request.transport
    place = None if transport is None else transport.get_extra_info("sockname")
    return place[1] if isinstance(place, tuple) else 0


def _refused(error: HttpError) -> Answer:
    body = {"error": error.error, "reason": error.reason} if error.error else None
    return Answer(error.status, body, error.headers)


def _query(request: web.BaseRequest) -> dict[str, str]:
    """The first value of each name."""
    found: dict[str, str] = {}
    for name, value in request.query.items():
        found.setdefault(name, value)
    return found
