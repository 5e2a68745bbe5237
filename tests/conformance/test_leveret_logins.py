"""Logins on a live broker: those who guess wait, and nobody else does; keys for tokens are fetched over TLS."""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web

from tests.conformance.own_broker import running
from tests.conformance.raw_client import RawClient
from tests.unit.broker.signing import AUDIENCE, claims, jwks, private_key, sign


def try_to_log_in(broker: Any, user: str, password: str) -> tuple[bool, float]:
    """Whether it succeeded, and after how many seconds."""
    with RawClient(broker.host, broker.port) as client:
        client.start()
        began = time.monotonic()
        client.start_ok(user, password)
        answer = client.read().name
        return answer == "connection.tune", time.monotonic() - began


def test_whoever_guesses_gets_one_try_a_second_and_others_notice_nothing(tmp_path: Path) -> None:
    with running(tmp_path) as broker:
        assert try_to_log_in(broker, "guest", "guest")[0]
        quick = [try_to_log_in(broker, "ann", f"guess{number}") for number in range(5)]
        assert not any(succeeded for succeeded, _ in quick)
        slow = [try_to_log_in(broker, "ann", f"again{number}") for number in range(2)]
        assert all(not succeeded and took > 0.5 for succeeded, took in slow), slow
        # The same address, another user: known to be good, and at once.
        succeeded, took = try_to_log_in(broker, "guest", "guest")
        assert succeeded and took < 0.5
        assert broker.call(lambda node: node.broker.logins_refused_total) == 7


def test_a_flood_of_guesses_holds_nobody_up(tmp_path: Path) -> None:
    with running(tmp_path) as broker:
        assert try_to_log_in(broker, "guest", "guest")[0]
        clients = []
        try:
            for number in range(100):
                client = RawClient(broker.host, broker.port)
                clients.append(client)
                client.start()
                client.start_ok(f"user{number % 10}", f"guess{number}")
            took = [try_to_log_in(broker, "guest", "guest") for _ in range(5)]
            assert all(succeeded and seconds < 1.0 for succeeded, seconds in took), took
        finally:
            for client in clients:
                client.socket.close()


@contextmanager
def provider(directory: Path, document: bytes) -> Iterator[str]:
    """Publishes keys over TLS; gives the address. The authority is in ca.pem."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(directory / "ca.pem")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    loop = asyncio.new_event_loop()
    ready: list[int] = []
    started, runners = threading.Event(), []

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=document)

    async def serve() -> None:
        application = web.Application()
        application.router.add_get("/keys", answer)
        runner = web.AppRunner(application)
        runners.append(runner)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        ready.append(runner.addresses[0][1])
        started.set()

    def run() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(serve())
        loop.run_forever()
        loop.run_until_complete(runners[0].cleanup())
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    assert started.wait(10)
    try:
        yield f"https://localhost:{ready[0]}/keys"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


@pytest.mark.parametrize("trusted", [True, False])
def test_keys_that_are_published_are_fetched_from_those_whom_one_trusts(tmp_path: Path, trusted: bool) -> None:
    key = private_key("ec")
    with provider(tmp_path, jwks(k1=key)) as url:
        if not trusted:
            trustme.CA().cert_pem.write_to_path(tmp_path / "ca.pem")
        settings = {
            "auth__tokens__enabled": True,
            "auth__tokens__audience": AUDIENCE,
            "auth__tokens__jwks_url": url,
            "auth__tokens__jwks_ca": str(tmp_path / "ca.pem"),
        }
        with running(tmp_path / "data", **settings) as broker:
            token = sign(claims("read:*/*"), key, "ES256")
            assert try_to_log_in(broker, "", token)[0] is trusted
