"""What clients may keep of the HTTP server: memory for bodies and answers, connections, time. And who gets in all the
same: health checks, scrapers, the operator on the machine itself."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leveret.management.http import server as server_module
from leveret.management.services import Services
from leveret.runtime.descriptors import Share
from leveret.testing import Broker
from tests.http_client import Api

KIB = 1024
SETTINGS = {
    "management.bodies_bytes_max": 1024 * KIB,
    "management.answers_bytes_max": 4096 * KIB,
    "auth.failures_max": 1_000_000,
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker({**SETTINGS, "listen.socket": str(tmp_path / "leveret.sock")}) as made:
        api = Api(made)
        for user in ("ann", "bob"):
            api.put(f"/users/{user}", {"password": user, "tags": "management"})
            api.put(f"/permissions/%2F/{user}", {"configure": ".*", "write": ".*", "read": ".*"})
        yield made


@pytest.fixture
def services(broker: Broker) -> Services:
    return broker.call(lambda node: node.management.services)  # type: ignore[no-any-return]


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def head(user: str, line: str, *headers: str) -> bytes:
    login = base64.b64encode(f"{user}:{user}".encode()).decode()
    return "\r\n".join((f"{line} HTTP/1.1", "Host: x", f"Authorization: Basic {login}", *headers, "", "")).encode()


def connected(broker: Broker, octets: bytes, port: int | None = None) -> socket.socket:
    sock = socket.socket()
    # Little is in flight, so that what is not read is in the broker.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.settimeout(20)
    sock.connect((broker.host, port or broker.management_port))
    sock.sendall(octets)
    return sock


def local(broker: Broker, path: str) -> int:
    connection = http.client.HTTPConnection("localhost", timeout=20)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.settimeout(20)
    connection.sock.connect(broker.call(lambda node: node.settings.listen.socket))
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


def message(size: int) -> dict[str, Any]:
    return {"properties": {}, "routing_key": "q", "payload": "x" * size, "payload_encoding": "string"}


PUBLISH = "/exchanges/%2F/amq.default/publish"


# ---- bodies


def test_bodies_that_do_not_come_use_up_one_users_half(broker: Broker, services: Services) -> None:
    begun = head("ann", f"POST /api{PUBLISH}", f"Content-Length: {450 * KIB}") + b"{"
    with connected(broker, begun):
        eventually(lambda: services.bodies.used == 450 * KIB)
        refused = Api(broker, "ann", "ann").post(PUBLISH, message(100 * KIB))
        assert refused.status == 503 and refused.headers["retry-after"] == "1"
        assert "management.bodies_bytes_max" in refused.body["reason"]
        # What is small is taken, and so is what others send.
        assert Api(broker, "ann", "ann").post(PUBLISH, message(10)).status == 200
        assert Api(broker, "bob", "bob").post(PUBLISH, message(400 * KIB)).status == 200
        assert services.bodies.used == 450 * KIB
    eventually(lambda: services.bodies.used == 0)


def test_bodies_of_unknown_length_are_counted_as_they_come(broker: Broker, services: Services) -> None:
    begun = head("ann", f"POST /api{PUBLISH}", "Transfer-Encoding: chunked")
    chunk = b"%x\r\n" % (200 * KIB) + b" " * (200 * KIB) + b"\r\n"
    with connected(broker, begun + chunk * 2) as first:
        eventually(lambda: services.bodies.used == 400 * KIB)
        with connected(broker, begun + chunk) as second:
            assert b" 503 " in second.recv(4096).split(b"\r\n")[0]
        first.sendall(b"0\r\n\r\n")
        assert b" 400 " in first.recv(4096).split(b"\r\n")[0]
    eventually(lambda: services.bodies.used == 0)


# ---- answers


def filled(broker: Broker, count: int, size: int) -> Api:
    api = Api(broker)
    api.put("/queues/%2F/q", {"durable": True})
    for _ in range(count):
        assert api.post(PUBLISH, message(size)).status == 200
    return api


def test_answers_that_are_not_read_use_up_the_budget_and_no_message(broker: Broker, services: Services) -> None:
    filled(broker, 45, 100 * KIB)
    ann, bob = Api(broker, "ann", "ann"), Api(broker, "bob", "bob")
    taking = {"ackmode": "ack_requeue_false", "encoding": "auto", "count": 40}
    with connected(broker, head("ann", "GET /api/queues/%2F/q/peek?count=45")):
        # Alone it may have all that it asks for.
        eventually(lambda: services.answers.used > 45 * 100 * KIB)
        for api in (ann, bob):
            refused = api.post("/queues/%2F/q/get", taking)
            assert (refused.status, refused.headers["retry-after"]) == (503, "1")
            assert "management.answers_bytes_max" in refused.body["reason"]
            assert api.get("/queues/%2F/q").body["messages_ready"] == 45
    eventually(lambda: services.answers.used == 0)


def test_an_answer_that_finds_little_room_ends_early_and_loses_nothing(broker: Broker, services: Services) -> None:
    filled(broker, 30, 100 * KIB)
    services.answers.add("somebody", 2048 * KIB)
    taking = {"ackmode": "ack_requeue_false", "encoding": "auto", "count": 30}
    got = Api(broker, "ann", "ann").post("/queues/%2F/q/get", taking)
    assert got.status == 200 and 10 < len(got.body) < 25
    assert Api(broker).get("/queues/%2F/q").body["messages_ready"] == 30 - len(got.body)
    assert services.answers.used == 2048 * KIB


def test_a_client_that_does_not_read_is_not_waited_for(broker: Broker, services: Services) -> None:
    filled(broker, 40, 100 * KIB)
    server = broker.call(lambda node: node.management.server)
    services.write_deadline_s = 0.2
    big = head("ann", "GET /api/queues/%2F/q/peek?count=40")
    with connected(broker, big):
        eventually(lambda: server.unread_total == 1)
        eventually(lambda: services.answers.used == 0)
    services.write_deadline_s = 30.0
    # One who reads gets all of it.
    assert len(Api(broker, "ann", "ann").get("/queues/%2F/q/peek?count=40").body) == 40


def test_a_long_answer_in_one_piece_has_the_deadline_too(
    broker: Broker, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "READ_BYTES_A_SECOND_MIN", 2**40)
    server = broker.call(lambda node: node.management.server)
    services.write_deadline_s = 0.2
    api = Api(broker)
    value = {"value": "x" * 60_000}
    for number in range(60):
        api.put(f"/global-parameters/p{number}", value)
    with connected(broker, head("guest", "GET /api/global-parameters?page=1&page_size=100")):
        eventually(lambda: server.unread_total == 1)
        eventually(lambda: services.answers.used == 0)


# ---- connections


def health(broker: Broker) -> int:
    connection = http.client.HTTPConnection(broker.host, broker.management_port, timeout=20)
    try:
        connection.request("GET", "/health/live")
        return connection.getresponse().status
    finally:
        connection.close()


def test_half_open_requests_lock_nobody_out(broker: Broker) -> None:
    """Not even by sending a letter now and then."""
    http_share: Share = broker.call(lambda node: node.descriptors.http)
    metrics: Share = broker.call(lambda node: node.descriptors.metrics)
    http_share.limit, metrics.limit = 20, 20
    with contextlib.ExitStack() as kept:
        for port in (broker.management_port, broker.metrics_port):
            slow = [kept.enter_context(connected(broker, b"GET /api/whoami HTTP/1.1\r\nHo", port)) for _ in range(40)]
            for sock in slow:
                with contextlib.suppress(OSError):
                    sock.sendall(b"s")
        for _ in range(3):
            assert health(broker) == 200
            assert Api(broker).get("/health/checks/virtual-hosts").status == 200
            assert local(broker, "/api/whoami") == 200
            scraper = http.client.HTTPConnection(broker.host, broker.metrics_port, timeout=20)
            scraper.request("GET", "/metrics")
            assert scraper.getresponse().status == 200
            scraper.close()


def test_requests_that_never_end_lock_nobody_out(broker: Broker) -> None:
    share: Share = broker.call(lambda node: node.descriptors.http)
    share.limit = 12
    places = broker.call(lambda node: node.management.server.connections.places)
    body = head("ann", f"POST /api{PUBLISH}", "Content-Length: 5000") + b"{"
    with contextlib.ExitStack() as kept:
        for _ in range(9):
            kept.enter_context(connected(broker, body))
        eventually(lambda: not places.may_work(share, "127.0.0.1"))
        refused = Api(broker).get("/whoami")
        assert (refused.status, refused.headers["retry-after"], refused.headers["connection"]) == (503, "1", "close")
        assert health(broker) == 200
        assert Api(broker).get("/health/checks/alarms").status == 200
        assert local(broker, "/api/whoami") == 200
    eventually(lambda: places.may_work(share, "127.0.0.1"))
    assert Api(broker).get("/whoami").status == 200


def test_one_address_has_its_limit(broker: Broker) -> None:
    server = broker.call(lambda node: node.management.server.connections)
    server.places.per_address_max = 4
    with contextlib.ExitStack() as kept:
        for _ in range(10):
            kept.enter_context(connected(broker, b"GET /"))
        eventually(lambda: server.evicted_total >= 6)
        eventually(lambda: server.places.connected("127.0.0.1") <= 4)
        assert health(broker) == 200


def test_a_crowd_of_one_address_does_not_push_out_who_has_just_come(broker: Broker) -> None:
    """Many come at once, are told to come back, and never send the body that they announced."""
    server = broker.call(lambda node: node.management.server.connections)
    server.places.per_address_max = 8
    body = head("ann", f"POST /api{PUBLISH}", "Content-Length: 5000") + b"{"
    with contextlib.ExitStack() as kept:
        for _ in range(3):
            for _ in range(16):
                kept.enter_context(connected(broker, body))
            assert health(broker) == 200


def test_a_body_that_breaks_off_is_no_mistake_of_the_broker(broker: Broker) -> None:
    server = broker.call(lambda node: node.management.server)
    body = head("ann", f"POST /api{PUBLISH}", "Content-Length: 5000") + b"{"
    with connected(broker, body):
        eventually(lambda: server.connections.places._working.get("127.0.0.1") == 1)
    eventually(lambda: "127.0.0.1" not in server.connections.places._working)
    assert server.failures_total == 0


def test_the_head_of_each_request_has_a_deadline(broker: Broker) -> None:
    server = broker.call(lambda node: node.management.server.connections)
    server.header_deadline_s = 0.3
    with connected(broker, head("ann", "GET /api/whoami")) as sock:
        answer = sock.recv(65536)
        assert b" 200 " in answer.split(b"\r\n")[0] and json.loads(answer.split(b"\r\n\r\n")[1])["name"] == "ann"
        time.sleep(0.5)
        # Idle between requests it stays; once the next has begun it must come.
        sock.sendall(b"GET /api/who")
        begun = time.monotonic()
        with contextlib.suppress(ConnectionResetError):
            assert sock.recv(1) == b""
        assert time.monotonic() - begun < 15
