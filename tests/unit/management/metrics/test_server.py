"""The server that Prometheus scrapes: paths, methods, formats, and that it goes when it is told to."""

import asyncio
import contextlib
import gzip
import socket
import ssl
from collections.abc import Callable, Coroutine
from typing import Any

import aiohttp
import pytest
import trustme
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from leveret.management.metrics import server as server_module
from leveret.management.metrics.server import MetricsServer
from leveret.runtime.descriptors import Share
from tests.unit.management.metrics.scene import Scene, names, samples_of

Visit = Callable[[aiohttp.ClientSession, str], Coroutine[Any, Any, None]]


def serve(visit: Visit, scene: Scene | None = None) -> None:
    """Runs a visit of a server on a free port."""

    async def run() -> None:
        server = MetricsServer((scene or Scene()).source)
        listening = socket.create_server(("127.0.0.1", 0))
        await server.start_on(listening, Share("metrics", 200))
        port = listening.getsockname()[1]
        try:
            async with aiohttp.ClientSession(auto_decompress=False, skip_auto_headers=("Accept-Encoding",)) as client:
                await visit(client, f"http://127.0.0.1:{port}")
        finally:
            await server.stop()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/metrics", "rabbitmq_queues"),
        ("/metrics/", "rabbitmq_queues"),
        ("/metrics/per-object", "rabbitmq_cluster_vhost_status"),
        ("/metrics/detailed?family=vhost_status", "rabbitmq_cluster_vhost_status"),
        ("/metrics/memory-breakdown", "leveret_memory_bytes"),
    ],
)
def test_endpoints(path: str, name: str) -> None:
    async def visit(client: aiohttp.ClientSession, url: str) -> None:
        async with client.get(url + path) as answer:
            assert answer.status == 200
            assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            assert "Content-Encoding" not in answer.headers
            assert answer.headers["Server"] == "leveret"
            assert name in names(samples_of(await answer.text()))

    serve(visit)


@pytest.mark.parametrize("path", ["/", "/nope", "/metrics/nope", "/metrics/per-object/x", "/METRICS"])
def test_other_paths_are_not_found(path: str) -> None:
    async def visit(client: aiohttp.ClientSession, url: str) -> None:
        async with client.get(url + path) as answer:
            assert answer.status == 404

    serve(visit)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_other_methods_are_not_allowed(method: str) -> None:
    async def visit(client: aiohttp.ClientSession, url: str) -> None:
        async with client.request(method, url + "/metrics", data=b"x") as answer:
            assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD, OPTIONS")

    serve(visit)


def test_head_and_options() -> None:
    async def visit(client: aiohttp.ClientSession, url: str) -> None:
        async with client.head(url + "/metrics") as answer:
            assert (answer.status, await answer.read()) == (200, b"")
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        async with client.options(url + "/metrics") as answer:
            assert (answer.status, answer.headers["Allow"]) == (200, "GET, HEAD, OPTIONS")
        # The connection is still in step.
        async with client.get(url + "/metrics") as answer:
            assert answer.status == 200

    serve(visit)


def test_openmetrics_for_those_who_ask() -> None:
    async def visit(client: aiohttp.ClientSession, url: str) -> None:
        accept = "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
        async with client.get(url + "/metrics", headers={"Accept": accept}) as answer:
            assert answer.headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
            assert "rabbitmq_queues" in {family.name for family in parse_openmetrics(await answer.text())}

    serve(visit)


def test_gzip_for_those_who_take_it() -> None:
    async def visit(client: aiohttp.ClientSession, url: str) -> None:
        async with client.get(url + "/metrics", headers={"Accept-Encoding": "gzip"}) as answer:
            assert answer.headers["Content-Encoding"] == "gzip"
            assert "rabbitmq_queues" in names(samples_of(gzip.decompress(await answer.read()).decode()))
        async with client.get(url + "/metrics", headers={"Accept-Encoding": "identity, gzip;q=0"}) as answer:
            assert "Content-Encoding" not in answer.headers

    serve(visit)


def test_an_error_is_answered_as_one(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()

    def broken() -> int:
        raise RuntimeError("cannot count")

    object.__setattr__(scene.source, "http_leases", broken)

    # Errors come before anything was sent only if little was written before them.
    async def visit(client: aiohttp.ClientSession, url: str) -> None:
        async with client.get(url + "/metrics") as answer:
            assert answer.status == 500
            assert "cannot count" not in await answer.text()
        async with client.get(url + "/metrics/memory-breakdown") as answer:
            assert answer.status == 200

    serve(visit, scene)
    assert "cannot count" in caplog.text


def test_whoever_does_not_read_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """And those who wait for a place get theirs."""
    monkeypatch.setattr(server_module, "SCRAPES_MAX", 1)
    monkeypatch.setattr(server_module, "SCRAPE_DEADLINE_S", 0.5)
    scene = Scene()
    for i in range(3000):
        scene.declare(f"queue-with-a-rather-long-name-{i}" * 3)

    async def visit(client: aiohttp.ClientSession, url: str) -> None:
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as lazy:
            # Not less, or what is left is read at a crawl at the end.
            lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            lazy.sendall(b"GET /metrics/per-object HTTP/1.1\r\nHost: x\r\n\r\n")
            await asyncio.sleep(0.2)
            async with client.get(url + "/metrics", timeout=aiohttp.ClientTimeout(20)) as answer:
                assert answer.status == 200
            # What was on its way may be read; then the connection is at its end.
            lazy.settimeout(10)
            with contextlib.suppress(ConnectionResetError):
                while await asyncio.to_thread(lazy.recv, 1 << 20):
                    pass

    serve(visit, scene)


def test_with_tls() -> None:
    authority = trustme.CA()
    ours, theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(ours)
    authority.configure_trust(theirs)

    async def run() -> None:
        server = MetricsServer(Scene().source)
        listening = socket.create_server(("127.0.0.1", 0))
        await server.start_on(listening, Share("metrics", 200), ours)
        port = listening.getsockname()[1]
        try:
            async with (
                aiohttp.ClientSession() as client,
                client.get(f"https://127.0.0.1:{port}/metrics", ssl=theirs) as answer,
            ):
                assert "rabbitmq_queues" in names(samples_of(await answer.text()))
        finally:
            await server.stop()

    asyncio.run(run())
