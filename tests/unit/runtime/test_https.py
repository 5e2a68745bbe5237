"""Fetching over TLS: only from those whom the authority vouches for, only so much, only so long."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trustme
from aiohttp import web

from leveret.runtime.https import FetchError, fetch, post

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def fetched(
    tmp_path: Path, answer: Answer, *, trusted: bool = True, host: str = "localhost", seconds: float = 5.0
) -> bytes:
    """What comes from a server that answers so."""
    authority = trustme.CA()
    (authority if trusted else trustme.CA()).cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(host).configure_cert(context)

    async def run() -> bytes:
        application = web.Application()
        application.router.add_get("/keys", answer)
        runner = web.AppRunner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        assert site._server is not None
        port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
        try:
            return await fetch(f"https://localhost:{port}/keys", str(tmp_path / "ca.pem"), 1000, seconds)
        finally:
            await runner.cleanup()

    return asyncio.run(run())


async def plain(request: web.Request) -> web.StreamResponse:
    return web.Response(body=b"document")


async def redirecting(request: web.Request) -> web.StreamResponse:
    raise web.HTTPFound("https://localhost/elsewhere")


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(100):
        await response.write(b"x" * 100)
    return response


async def slow(request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(1)
    return web.Response(body=b"late")


def test_a_document_comes(tmp_path: Path) -> None:
    assert fetched(tmp_path, plain) == b"document"


def test_a_server_that_nobody_vouches_for_is_not_believed(tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="Certificate"):
        fetched(tmp_path, plain, trusted=False)
    with pytest.raises(FetchError, match="Certificate"):
        fetched(tmp_path, plain, host="other.example")


def test_redirects_are_not_followed(tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="status 302"):
        fetched(tmp_path, redirecting)


def test_too_much_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="more than 1000 bytes"):
        fetched(tmp_path, endless)


def test_a_late_answer_is_not_waited_for(tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="Timeout"):
        fetched(tmp_path, slow, seconds=0.1)


@pytest.mark.parametrize(
    "url", ["http://example.com/keys", "http://localhost.example.com/", "file:///etc/passwd", "", "https://"]
)
def test_only_https_is_fetched(url: str) -> None:
    with pytest.raises(FetchError, match="only https"):
        asyncio.run(fetch(url, "", 1000, 1.0))


def test_an_authority_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="FileNotFoundError"):
        asyncio.run(fetch("https://localhost:1/", str(tmp_path / "missing.pem"), 1000, 1.0))


# ---- posting


def posted(tmp_path: Path, answer: Answer, *, trusted: bool = True, seconds: float = 5.0) -> None:
    authority = trustme.CA()
    (authority if trusted else trustme.CA()).cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)

    async def run() -> None:
        application = web.Application()
        application.router.add_post("/hook/token", answer)
        runner = web.AppRunner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        assert site._server is not None
        port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
        try:
            url = f"https://localhost:{port}/hook/token"
            await post(url, str(tmp_path / "ca.pem"), b"{}", {"X-Own": "1"}, seconds)
        finally:
            await runner.cleanup()

    asyncio.run(run())


def test_what_is_posted_comes(tmp_path: Path) -> None:
    came: list[tuple[bytes, str]] = []

    async def taking(request: web.Request) -> web.StreamResponse:
        came.append((await request.read(), request.headers["X-Own"]))
        return web.Response(status=202)

    posted(tmp_path, taking)
    assert came == [(b"{}", "1")]


def test_a_post_that_is_not_taken_says_so(tmp_path: Path) -> None:
    async def busy(request: web.Request) -> web.StreamResponse:
        return web.Response(status=429, headers={"Retry-After": "7"})

    with pytest.raises(FetchError, match="status 429") as refused:
        posted(tmp_path, busy)
    assert (refused.value.status, refused.value.retry_after_s) == (429, 7.0)
    with pytest.raises(FetchError, match="status 302"):
        posted(tmp_path, redirecting)
    with pytest.raises(FetchError, match="Certificate") as refused:
        posted(tmp_path, plain, trusted=False)
    assert refused.value.status == 0
    with pytest.raises(FetchError, match="TimeoutError"):
        posted(tmp_path, slow, seconds=0.2)


def test_nothing_is_posted_in_the_clear_and_tokens_are_not_told() -> None:
    with pytest.raises(FetchError, match="without TLS"):
        asyncio.run(post("http://example.org/token", "", b"", {}, 1.0))
    # Nobody listens there.
    with pytest.raises(FetchError) as refused:
        asyncio.run(post("http://127.0.0.1:9/s3cret-token", "", b"", {}, 1.0))
    assert "s3cret" not in str(refused.value)
