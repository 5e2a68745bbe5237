"""The HTTP server itself: what every route has in common, and what it withstands."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leveret.errors import ConfigError
from leveret.runtime.descriptors import Share
from leveret.testing import Broker
from tests.http_client import Api, Reply

WHOAMI = {"name": "guest", "tags": ["administrator"]}
# Any route with a small body does.
CHANGING = "/global-parameters/from-a-test"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def api(broker: Broker) -> Api:
    return Api(broker)


def test_who_says_nothing_is_asked_who_he_is(broker: Broker) -> None:
    reply = Api(broker, None).get("/whoami")
    assert (reply.status, reply.body) == (401, None)
    assert reply.headers["www-authenticate"].startswith("Basic realm=")


@pytest.mark.parametrize(
    "header",
    ["Basic Z3Vlc3Q6d3Jvbmc=", "Basic !!!", "Basic Z3Vlc3Q=", "Bearer nonsense", "Bearer ", "Basic"],
)
def test_who_says_something_wrong_has_failed_to_log_in(broker: Broker, header: str) -> None:
    reply = Api(broker, None).get("/whoami", headers={"Authorization": header})
    assert (reply.status, reply.body) == (401, {"error": "not_authorized", "reason": "Login failed"})


def test_an_unknown_scheme_is_asked_again(broker: Broker) -> None:
    assert Api(broker, None).get("/whoami", headers={"Authorization": "Digest x"}).status == 401


def test_methods(api: Api) -> None:
    assert api.get("/whoami").body == WHOAMI
    assert api.get("/whoami/").body == WHOAMI
    head = api.ask("HEAD", "/whoami")
    assert (head.status, head.body) == (200, None)
    assert int(head.headers["content-length"]) > 0
    options = api.ask("OPTIONS", "/whoami")
    assert (options.status, options.headers["allow"]) == (200, "GET, HEAD, OPTIONS")
    for method in ("PATCH", "POST", "PUT", "DELETE", "TRACE"):
        refused = api.ask(method, "/whoami")
        assert (refused.status, refused.headers["allow"]) == (405, "GET"), method


def test_what_is_not_there(api: Api) -> None:
    for path in ("/nosuch", "/", "/whoami/nosuch", "/queues/%2F/nosuch", "//nosuch", "/queues/%00/%ff"):
        reply = api.get(path)
        assert (reply.status, reply.body) == (404, {"error": "Object Not Found", "reason": "Not Found"}), path


def test_every_answer_says_how_browsers_are_to_treat_it(api: Api, broker: Broker) -> None:
    for reply in (
        api.get("/whoami"),
        api.get("/nosuch"),
        Api(broker, None).get("/whoami"),
        api.ask("OPTIONS", "/whoami"),
    ):
        assert reply.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["x-frame-options"] == "DENY"
        assert reply.headers["referrer-policy"] == "no-referrer"
        assert reply.headers["cache-control"] == "no-cache"
        assert reply.headers["server"] == "Leveret"


def test_no_other_site_is_let_in(api: Api) -> None:
    """Neither told that it may, nor obeyed."""
    reply = api.get("/whoami", headers={"Origin": "https://evil.example"})
    assert reply.status == 200
    assert not [name for name in reply.headers if name.startswith("access-control-")]
    for headers in (
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
    ):
        assert api.put(CHANGING, {"value": 1}, headers=headers).status == 403, headers
    assert api.get(CHANGING).status == 404
    # A GET may take messages: an image in a page of another site does not.
    assert api.get("/whoami", headers={"Sec-Fetch-Site": "cross-site"}).status == 403
    assert api.get("//health/live", headers={"Sec-Fetch-Site": "cross-site"}).status == 200
    for headers in ({"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}, {}):
        assert api.put(CHANGING, {"value": 1}, headers=headers).status in (201, 204), headers
    own = api._url.removeprefix("http://")
    assert api.put(CHANGING, {"value": 2}, headers={"Origin": f"http://{own}"}).status == 204
    assert api.delete(CHANGING).status == 204


def test_long_answers_are_compressed_if_asked(api: Api) -> None:
    reply = api.get("/openapi.json", headers={"Accept-Encoding": "gzip"}, decoded=False)
    assert reply.headers["content-encoding"] == "gzip"
    assert json.loads(gzip.decompress(reply.body)) == api.get("/openapi.json").body
    assert "content-encoding" not in api.get("/whoami", headers={"Accept-Encoding": "gzip"}).headers


def raw_request(broker: Broker, octets: bytes, wait_s: float = 5.0) -> bytes:
    with socket.create_connection((broker.host, broker.management_port), timeout=wait_s) as sock:
        sock.sendall(octets)
        answer = b""
        try:
            while chunk := sock.recv(65536):
                answer += chunk
        except OSError:
            pass
        return answer


AUTHORIZED = b"Host: x\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\nConnection: close\r\n"


def test_a_body_is_bounded_before_it_is_read(broker: Broker, api: Api) -> None:
    limit = broker.call(lambda node: node.management.services.small_body_bytes_max)
    path = f"PUT /api{CHANGING} HTTP/1.1\r\n".encode()
    # Said to be too long: refused although nothing of it came.
    assert b" 413 " in raw_request(broker, path + AUTHORIZED + b"Content-Length: %d\r\n\r\n" % (limit + 1))
    # Not said: refused as soon as it is too long.
    chunk = b"%x\r\n" % 32768 + b" " * 32768 + b"\r\n"
    body = chunk * (limit // 32768 + 2)
    assert b" 413 " in raw_request(broker, path + AUTHORIZED + b"Transfer-Encoding: chunked\r\n\r\n" + body)
    assert api.put(CHANGING, raw=b" " * (limit - 20) + b'{"value":1}').status in (201, 204)
    assert api.put(CHANGING, raw=b" " * limit + b'{"value":1}').status == 413
    # Who may not is not read at all.
    stranger = Api(broker, None).put(CHANGING, raw=b" " * (limit + 1))
    assert stranger.status == 401


def test_a_compressed_body_is_not_unpacked(api: Api) -> None:
    bomb = gzip.compress(b" " * 10_000_000)
    reply = api.put(CHANGING, raw=bomb, headers={"Content-Encoding": "gzip"})
    assert (reply.status, reply.body["error"]) == (415, "unsupported_media_type")


@pytest.mark.parametrize("raw", [b"{bad json", b"\xff", b"[" * 30_000, b'{"value":1', b"nul\x00"])
def test_what_is_no_json(api: Api, raw: bytes) -> None:
    reply = api.put(CHANGING, raw=raw)
    assert (reply.status, reply.body) == (400, {"error": "bad_request", "reason": "not_json"})


@pytest.mark.parametrize(
    "octets",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"AMQP\x00\x00\x09\x01",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: " + b"a" * 100_000 + b"\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"<script>alert(1)</script> / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PUT /api/whoami HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"PUT /api/whoami HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET /api/%0d%0aX-Evil:%201 HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
    ids=["tls", "amqp", "long path", "long header", "version", "markup", "negative", "smuggled", "line end"],
)
def test_nonsense_on_the_port_harms_nobody(broker: Broker, api: Api, octets: bytes) -> None:
    answer = raw_request(broker, octets, 2.0)
    assert not answer or (answer.startswith(b"HTTP/1.") and b" 500 " not in answer.split(b"\r\n")[0])
    assert b"\r\nX-Evil" not in answer and b"script" not in answer
    assert not answer or b"nosniff" in answer
    assert api.get("/whoami").body == WHOAMI


def test_a_connection_that_never_asks_is_closed_and_those_that_do_stay(broker: Broker) -> None:
    server: Any = broker.call(lambda node: node.management.server.connections)
    before = server.header_deadline_s
    server.header_deadline_s = 0.3
    try:
        with socket.create_connection((broker.host, broker.management_port), timeout=10) as slow:
            begun = time.monotonic()
            slow.sendall(b"GET /api/whoami HTTP/1.1\r\nHo")
            with contextlib.suppress(ConnectionResetError):
                assert slow.recv(1) == b""
            assert time.monotonic() - begun < 8
        connection = http.client.HTTPConnection(broker.host, broker.management_port, timeout=10)
        for _ in range(3):
            connection.request("GET", "/api/whoami", headers={"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="})
            assert connection.getresponse().read()
            time.sleep(0.25)
        connection.close()
    finally:
        server.header_deadline_s = before


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_connections_are_bounded(broker: Broker, api: Api) -> None:
    server: Any = broker.call(lambda node: node.management.server.connections)
    share: Share = broker.call(lambda node: node.descriptors.http)
    # Those of other tests are gone.
    eventually(lambda: share.used == 0)
    before, share.limit = share.limit, 3
    evicted = server.evicted_total
    try:
        with contextlib.ExitStack() as kept:
            for _ in range(6):
                kept.enter_context(socket.create_connection((broker.host, broker.management_port), timeout=10))
            # Those that came first have said nothing for longest, and make room.
            eventually(lambda: server.evicted_total == evicted + 3)
            eventually(lambda: share.used == 3)
    finally:
        share.limit = before
    eventually(lambda: share.used == 0)
    assert api.get("/whoami").body == WHOAMI


def local(path: Path, request: str) -> Reply:
    connection = http.client.HTTPConnection("localhost", timeout=10)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(path))
    try:
        connection.request("GET", request)
        answer = connection.getresponse()
        return Reply(answer.status, answer.read(), {})
    finally:
        connection.close()


def test_the_local_socket_asks_for_no_password_and_is_for_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "leveret.sock"
    with Broker({"listen.socket": str(path)}):
        assert path.stat().st_mode & 0o777 == 0o600
        reply = local(path, "/api/whoami")
        assert reply.status == 200 and b'"administrator"' in reply.body
    assert not path.exists()


def test_a_socket_that_a_dead_broker_left_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "leveret.sock"
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))
    left.close()
    with Broker({"listen.socket": str(path)}):
        assert local(path, "/api/whoami").status == 200


def test_the_api_can_be_off() -> None:
    with Broker({"listen.management_port": "off"}) as broker:
        assert broker.management_port == 0
        assert broker.call(lambda node: node.management_port) is None


def test_paths_without_api_before_them_unless_the_settings_say_otherwise(api: Api) -> None:
    assert api.put("//queues/%2F/q", {"durable": True}).status == 201
    assert api.get("//queues/%2F/q").body == api.get("/queues/%2F/q").body
    assert api.delete("//queues/%2F/q").status == 204
    for path in ("//users", "//queuesx", "//overview"):
        assert api.get(path).status == 404
    described = api.get("/openapi.json").body["paths"]
    assert "/queues/{vhost}/{queue}/get" in described
    with Broker({"management.root_aliases": False}) as broker:
        other = Api(broker)
        assert other.put("//queues/%2F/q", {"durable": True}).status == 404
        assert other.get("//queues").status == 404
        assert "/queues/{vhost}/{queue}/get" not in other.get("/openapi.json").body["paths"]
        assert described.keys() - other.get("/openapi.json").body["paths"].keys() == {
            path for path in described if path.startswith(("/queues", "/exchanges", "/bindings"))
        }


def test_a_socket_whose_name_is_too_long_is_refused_if_asked_for_and_else_left_out(tmp_path: Path) -> None:
    data_dir = tmp_path / ("d" * 120)
    with pytest.raises(ConfigError, match="at most 107"):
        Broker({"data_dir": str(data_dir), "listen.socket": str(data_dir / "s")}).start()
    with Broker({"data_dir": str(data_dir), "listen.socket": ""}) as broker:
        assert Api(broker).get("/whoami").status == 200
    assert not list(data_dir.glob("*.sock"))
