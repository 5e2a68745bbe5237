"""The HTTP server: from a socket's request to the handler of its route, and back.

In this order: is there such a path, who is it, may he, how large is the body, and only then is the body read. What a
handler raises on purpose becomes a 4xx with a reason; what it raises by mistake becomes a 500 whose reason only the log
knows."""

from __future__ import annotations

import asyncio
import inspect
import socket
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

from aiohttp import hdrs, web

from leveret.broker.access import Right, has, require, sees_vhost
from leveret.broker.audit import DONE, FAILED, REFUSED, Actor
from leveret.broker.identity import Identity
from leveret.errors import LeveretError
from leveret.management.http.ask import Answer, Ask
from leveret.management.http.errors import HttpError, not_authorised, not_found, refusal_of
from leveret.management.http.guard import SECURITY_HEADERS, GuardedServer, GuardedSite, has_asked
from leveret.management.http.json import decode, encode
from leveret.management.http.route import Login, Route, Scope, Size, Table
from leveret.management.http.who import Nobody, identify, local_operator
from leveret.management.services import Services
from leveret.runtime.log import get_logger

log = get_logger(__name__)

COMPRESS_FROM_BYTES = 1024
COMPRESS_IN_THREAD_FROM_BYTES = 65536
# How long requests that are being answered get when the broker stops.
STOP_DEADLINE_S = 1.0
# How long a body may take to come.
BODY_DEADLINE_S = 60.0
# What may be asked for without /api before it, if the settings say so.
ROOT_ALIASES = ("/queues", "/exchanges", "/bindings")
OWN_SITE = ("same-origin", "none")
READING = ("GET", "HEAD", "OPTIONS")


class HttpServer:
    def __init__(self, services: Services, table: Table) -> None:
        self._services = services
        self._table = table
        self.connections = GuardedServer(self._handle)
        self._runner = web.ServerRunner(self.connections, handle_signals=False, shutdown_timeout=STOP_DEADLINE_S)
        self._sites: list[web.BaseSite] = []
        self.requests_total = 0
        self.failures_total = 0

    async def start(self) -> None:
        await self._runner.setup()

    async def listen(self, sock: Any, tls: Any = None) -> None:
        """Serves on a socket that is bound already."""
        site = GuardedSite(self._runner, sock, tls)
        await site.start()
        self._sites.append(site)

    async def stop(self) -> None:
        await self._runner.cleanup()

    # ---- one request

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests_total += 1
        has_asked(request)
        route: Route | None = None
        ask: Ask | None = None
        try:
            route, values = self._find(request)
            if route is None:
                return self._plain(request, 200, {"Allow": ", ".join(sorted(values))})
            ask = self._ask(request, route, values)
            answer = await self._answer(request, route, ask)
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
        if route is not None and ask is not None and route.changes:
            self._note(route, ask, answer.status)
        return await self._send(request, route, answer)

    def _find(self, request: web.BaseRequest) -> tuple[Route | None, list[str]]:
        """The route and the names in the path; or, for OPTIONS, None and the methods that there are."""
        # As it came over the wire, without what follows the question mark.
        raw_path = request.raw_path.partition("?")[0]
        if self._services.root_aliases and raw_path.startswith(ROOT_ALIASES):
            raw_path = f"/api{raw_path}"
        found = self._table.find(raw_path)
        if found is None:
            raise not_found()
        routes, values = found
        method = request.method
        if method == "OPTIONS":
            return None, ["OPTIONS", *routes, *(["HEAD"] if "GET" in routes else [])]
        route = routes.get("GET" if method == "HEAD" else method)
        if route is None:
            raise HttpError(405, "method_not_allowed", f"{method} is not for this path", {"Allow": ", ".join(routes)})
        return route, values

    def _ask(self, request: web.BaseRequest, route: Route, values: list[str]) -> Ask:
        """By nobody, so far."""
        return Ask(
            self._services,
            Nobody(),
            request.remote or "",
            request.method,
            dict(zip(route.parameters, values, strict=True)),
            _query(request),
            content_type=request.content_type,
            headers={name.lower(): value for name, value in request.headers.items()},
        )

    def _note(self, route: Route, ask: Ask, status: int) -> None:
        """Who wanted to change something, and what became of it."""
        outcome = DONE if status < 400 else REFUSED if status < 500 else FAILED
        actor = Actor(ask.who.name, ask.peer_host, "http")
        self._services.audit.note(actor, f"{route.method} {route.path}", {**ask.path, **ask.noted}, outcome, status)

    async def _answer(self, request: web.BaseRequest, route: Route, ask: Ask) -> Answer:
        self._refuse_other_sites(request, route)
        ask.who = await self._identify(request, route, ask.peer_host)
        self.check_rights(ask.who, route, ask.path)
        if request.method not in READING:
            octets = await self._read(request, route.size)
            if octets and request.content_type.startswith("multipart/"):
                ask.body = octets
            elif octets.strip():
                ask.body = decode(octets, route.body)
        given = route.handler(ask)
        if inspect.isawaitable(given):
            given = await given
        return given if isinstance(given, Answer) else Answer(body=given)

    # ---- who may

    async def _identify(self, request: web.BaseRequest, route: Route, peer_host: str) -> Identity:
        header = request.headers.get(hdrs.AUTHORIZATION)
        transport = request.transport
        sock = None if transport is None else transport.get_extra_info("socket")
        if header is None and sock is not None and sock.family == socket.AF_UNIX:
            operator = local_operator(sock)
            if operator is not None:
                return operator
        if route.right is Login.NOBODY:
            return Nobody()
        return await identify(self._services.broker, header, peer_host)

    def check_rights(self, who: Identity, route: Route, path: dict[str, str]) -> None:
        if route.right is Login.NOBODY:
            return
        vhost = path.get("vhost")
        if vhost not in self._services.broker.vhosts:
            # Which the handler says, to whoever may ask.
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
            own = site in OWN_SITE or route.right is Login.NOBODY
        else:
            own = (
                origin is None
                or request.method in READING
                or urlsplit(origin).netloc == request.headers.get(hdrs.HOST, "")
            )
        if not own:
            raise HttpError(403, "forbidden", "requests from pages of other sites are refused")

    # ---- bodies

    async def _read(self, request: web.BaseRequest, size: Size) -> bytes:
        most = self._services.small_body_bytes_max if size is Size.SMALL else self._services.large_body_bytes_max
        too_large = HttpError(413, "payload_too_large", f"a body here has at most {most} bytes")
        if request.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity":
            raise HttpError(415, "unsupported_media_type", "bodies are taken as they are, not compressed")
        if (request.content_length or 0) > most:
            raise too_large
        octets = bytearray()
        try:
            async with asyncio.timeout(BODY_DEADLINE_S):
                async for chunk in request.content.iter_chunked(65536):
                    octets += chunk
                    if len(octets) > most:
                        raise too_large
        except TimeoutError:
            raise HttpError(408, "timeout", f"the body did not come within {BODY_DEADLINE_S:g} s") from None
        except web.RequestPayloadError as error:
            raise HttpError(400, "bad_request", f"the body is broken: {error}") from None
        return bytes(octets)

    # ---- answers

    def _plain(self, request: web.BaseRequest, status: int, headers: dict[str, str]) -> web.Response:
        return web.Response(status=status, headers={**SECURITY_HEADERS, **headers})

    async def _send(self, request: web.BaseRequest, route: Route | None, answer: Answer) -> web.StreamResponse:
        headers = {**SECURITY_HEADERS, **answer.headers}
        if route is not None and route.private:
            headers["Cache-Control"] = "no-store"
        if request.secure:
            headers["Strict-Transport-Security"] = "max-age=31536000"
        body = answer.body
        if isinstance(body, AsyncIterator):
            return await self._send_pieces(request, answer, headers)
        if body is None:
            return web.Response(status=answer.status, headers=headers)
        octets = body if isinstance(body, bytes) else encode(body)
        response = web.Response(
            status=answer.status,
            body=octets,
            headers={**headers, "Content-Type": answer.content_type},
            # What is larger is compressed in a thread: the broker's clients are not to wait for it.
            zlib_executor_size=COMPRESS_IN_THREAD_FROM_BYTES,
        )
        if len(octets) >= COMPRESS_FROM_BYTES:
            response.enable_compression()
        return response

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
                    await response.write(piece)
        except ConnectionError:
            # Whoever asked is gone, as people do who have seen enough.
            return response
        finally:
            await answer.body.aclose()
        await response.write_eof()
        return response


def _refused(error: HttpError) -> Answer:
    body = {"error": error.error, "reason": error.reason} if error.error else None
    return Answer(error.status, body, error.headers)


def _query(request: web.BaseRequest) -> dict[str, str]:
    """The first value of each name."""
    found: dict[str, str] = {}
    for name, value in request.query.items():
        found.setdefault(name, value)
    return found
