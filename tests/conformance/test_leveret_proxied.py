"""Clients behind proxies: their own addresses count everywhere, from configured networks only, and guests stay local.

With headers that the tests write themselves, and with a real HAProxy that runs the configuration of deploy/haproxy."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from leveret.wire.stream_codes import Code
from tests.conformance.haproxy_process import haproxy, through
from tests.conformance.raw_client import PROTOCOL_HEADER, RawClient
from tests.conformance.raw_stream_client import RawStreamClient
from tests.conformance.tls_scenes import TlsScene, tls_scene
from tests.http_client import Api

PROXY = "127.0.0.5"
STRANGER = "203.0.113.7"
ONE = f"PROXY TCP4 {STRANGER} 198.51.100.1 40001 5672\r\n".encode()
TWO = b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\xcb\x00\x71\x07\xc6\x33\x64\x01\x9c\x41\x16\x28"
LOCAL = b"\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"
WAIT_S_MAX = 30.0


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsScene]:
    with tls_scene(tmp_path_factory.mktemp("proxied"), listen__proxy_networks=[f"{PROXY}/32"]) as made:
        api = Api(made.broker)
        assert api.put("/users/app", {"password": "secret", "tags": "administrator"}).status == 201
        rights = {"configure": ".*", "write": ".*", "read": ".*"}
        assert api.put("/permissions/%2F/app", rights).status == 201
        yield made


def log_in(client: RawClient) -> None:
    client.start()
    client.start_ok("app", "secret")
    client.tune_ok(client.expect(0, "connection.tune"))
    client.call(0, "connection.open", virtual_host="/")


def refuses_guests(host: str, port: int, stream_port: int, management_port: int) -> None:
    with RawClient(host, port) as client:
        client.start()
        client.start_ok()
        assert client.refusal().code == 403
    with RawStreamClient(host, stream_port) as streaming:
        assert streaming.authenticate() == Code.SASL_AUTHENTICATION_FAILURE_LOOPBACK
    assert Api(f"http://{host}:{management_port}").get("/whoami").status == 401


def seen(api: Api, port: int) -> list[tuple[str, str, str]]:
    """Connections of clients with this port, as the API shows them."""
    found = api.get("/connections").body
    return [(one["peer_host"], one["protocol"], one["name"]) for one in found if one["peer_port"] == port]


@pytest.mark.parametrize("header", [ONE, TWO], ids=["version 1", "version 2"])
def test_the_clients_own_address_is_shown_for_amqp_and_streams(scene: TlsScene, header: bytes) -> None:
    broker = scene.broker
    with ExitStack() as stack:
        with through(header, PROXY):
            log_in(stack.enter_context(RawClient(broker.host, broker.port)))
            log_in(stack.enter_context(scene.connect()))
            stack.enter_context(RawStreamClient(broker.host, broker.stream_port)).log_in("app", "secret")
            stack.enter_context(scene.stream()).log_in("app", "secret")
        name = f"{STRANGER}:40001 -> 198.51.100.1:5672"
        assert sorted(seen(Api(broker), 40001)) == [
            (STRANGER, "AMQP 0-9-1", name),
            (STRANGER, "AMQP 0-9-1", name),
            (STRANGER, "stream", name),
            (STRANGER, "stream", name),
        ]


def test_a_guest_is_local_by_its_own_address_alone(scene: TlsScene) -> None:
    broker = scene.broker
    with through(TWO, PROXY):
        refuses_guests(broker.host, broker.port, broker.stream_port, broker.management_port)
        assert Api(broker, "app", "secret").get("/whoami").status == 200
    with through(b"PROXY UNKNOWN\r\n", PROXY):
        assert Api(broker).get("/whoami").status == 401
    with through(b"PROXY TCP4 127.0.0.1 127.0.0.1 9 9\r\n", PROXY):
        assert Api(broker).get("/whoami").status == 200
    with through(LOCAL, PROXY):
        assert Api(broker).get("/whoami").status == 200


def test_the_audit_log_and_failed_logins_name_the_client(scene: TlsScene) -> None:
    broker = scene.broker
    with through(TWO, PROXY):
        assert Api(broker, "app", "secret").put("/queues/%2F/audited", {"durable": True}).status == 201
    entries = Api(broker).get("/audit?limit=50").body
    listed = entries["items"] if isinstance(entries, dict) else entries
    assert [one["peer"] for one in listed if "audited" in str(one)] == [STRANGER]
    with through(TWO, PROXY):
        assert Api(broker, "app", "wrong").get("/whoami").status == 401
    failures: dict[str, Any] = broker.call(lambda node: node.broker.logins.backoff._addresses)
    assert STRANGER in failures
    assert PROXY not in failures


def test_connections_over_http_count_for_their_client(scene: TlsScene) -> None:
    """Not for the proxy: one client must not use up what the others have."""
    places = scene.broker.call(lambda node: node.management.server.connections.places)
    with ExitStack() as stack, through(TWO, PROXY):
        stack.enter_context(socket.create_connection((scene.broker.host, scene.broker.management_port)))
        deadline = time.monotonic() + WAIT_S_MAX
        while not scene.broker.call(lambda _: places.connected(STRANGER)):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert scene.broker.call(lambda _: places.connected(PROXY)) == 0


def answer(host: str, port: int, octets: bytes, source: str) -> bytes:
    """All that comes back before the connection ends."""
    came = b""
    with socket.create_connection((host, port), WAIT_S_MAX, source_address=(source, 0)) as client:
        try:
            client.sendall(octets)
            while chunk := client.recv(4096):
                came += chunk
        except ConnectionResetError:
            pass
    return came


@pytest.mark.parametrize("header", [ONE, TWO], ids=["version 1", "version 2"])
def test_headers_of_others_are_refused_as_a_bad_protocol(scene: TlsScene, header: bytes) -> None:
    broker = scene.broker
    request = b"GET /health/live HTTP/1.1\r\nHost: a\r\n\r\n"
    assert answer(broker.host, broker.port, header + PROTOCOL_HEADER, "127.0.0.1") == PROTOCOL_HEADER
    assert answer(broker.host, broker.management_port, header + request, "127.0.0.1").startswith(b"HTTP/1.0 400")
    # An alert of TLS, or nothing.
    assert answer(broker.host, broker.tls_port, header, "127.0.0.1")[:1] in (b"", b"\x15")
    assert seen(Api(broker), 40001) == []


@pytest.mark.parametrize("port", ["port", "tls_port", "stream_port", "management_port"])
def test_a_proxy_without_a_header_is_refused(scene: TlsScene, port: str) -> None:
    number = getattr(scene.broker, port)
    octets = b"GET /health/live HTTP/1.1\r\nHost: a\r\n\r\n" if port == "management_port" else PROTOCOL_HEADER
    assert answer(scene.broker.host, number, octets, PROXY) == b""


def test_metrics_and_a_reload(scene: TlsScene) -> None:
    """Prometheus comes by itself. Networks can change while the node runs."""
    broker = scene.broker
    assert answer(broker.host, broker.metrics_port, b"GET /health HTTP/1.0\r\n\r\n", PROXY) != b""
    settings = broker.call(lambda node: node.settings)
    without = msgspec.structs.replace(settings, listen=msgspec.structs.replace(settings.listen, proxy_networks=()))
    assert broker.call(lambda node: node.reload(without)) == ["listen.proxy_networks"]
    try:
        assert answer(broker.host, broker.port, b"NONSENSE", PROXY) == PROTOCOL_HEADER
    finally:
        broker.call(lambda node: node.reload(settings))


# ---- a real HAProxy


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsScene]:
    with tls_scene(tmp_path_factory.mktemp("behind"), listen__proxy_networks=["127.0.0.1/32"]) as made:
        yield made


def ports(scene: TlsScene) -> dict[int, int]:
    broker = scene.broker
    return {
        5672: broker.port,
        5671: broker.tls_port,
        5552: broker.stream_port,
        5551: broker.stream_tls_port,
        15672: broker.management_port,
    }


def test_clients_keep_their_addresses_behind_haproxy(behind: TlsScene, tmp_path: Path) -> None:
    checks = behind.broker.call(lambda node: node.management.server)
    before = checks.requests_total
    context = behind.authority.context(None)
    with haproxy(tmp_path, ports(behind)) as fronts, ExitStack() as stack:
        host = "127.0.0.1"
        api = Api(f"http://{host}:{fronts[15672]}")
        for client, protocol, front in (
            (RawClient(host, fronts[5672]), "AMQP 0-9-1", 5672),
            (RawClient(host, fronts[5671], context), "AMQP 0-9-1", 5671),
            (RawStreamClient(host, fronts[5552]), "stream", 5552),
            (RawStreamClient(host, fronts[5551], context), "stream", 5551),
        ):
            stack.enter_context(client).log_in()
            port = client.socket.getsockname()[1]
            name = f"{host}:{port} -> {host}:{fronts[front]}"
            assert seen(api, port) == [(host, protocol, name)]
        deadline = time.monotonic() + WAIT_S_MAX
        while checks.requests_total - before < 4 + len(fronts):
            assert time.monotonic() < deadline, "HAProxy's health checks do not come through"
            time.sleep(0.05)
    assert "DOWN" not in (tmp_path / "haproxy.log").read_text()


def test_a_guest_from_afar_stays_out_behind_a_local_haproxy(behind: TlsScene, tmp_path: Path) -> None:
    with haproxy(tmp_path, ports(behind), client=STRANGER) as fronts:
        refuses_guests("127.0.0.1", fronts[5672], fronts[5552], fronts[15672])
