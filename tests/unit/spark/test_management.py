"""The connector's questions to the HTTP API: where the password goes, and where it does not."""

from __future__ import annotations

import base64
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from leveret.spark.broker_client import Broker
from leveret.spark.errors import InvalidOption, SourceFailed
from leveret.spark.management import base_url, get, post
from leveret.spark.options import ANY, READ, read_options
from tests.conformance.authority import Authority, Papers

LOGIN = "Basic " + base64.b64encode(b"ann:secret").decode()


class Server(ThreadingHTTPServer):
    """Notes the logins that come, and answers with what it has, or with a redirect."""

    def __init__(self, redirect: str | None = None, papers: Papers | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.redirect = redirect
        self.logins: list[str | None] = []
        if papers is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(papers.certificate, papers.key)
            self.socket = context.wrap_socket(self.socket, server_side=True)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that does not trust the certificate is no error here."""


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.logins.append(self.headers["Authorization"])
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(200 if self.server.redirect is None else 307)
        if self.server.redirect is not None:
            self.send_header("Location", self.server.redirect + self.path)
        self.end_headers()
        self.wfile.write(b'{"path": "%s"}' % self.path.encode())

    do_POST = do_GET  # noqa: N815

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serving(redirect: str | None = None, papers: Papers | None = None) -> Iterator[Server]:
    server = Server(redirect, papers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def broker(**options: str) -> Broker:
    given = {"user": "ann", "password": "secret", "url": "amqp://broker/", **options}
    return Broker(read_options(given, READ), "test")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def test_the_api_is_asked_over_tls_beside_amqps() -> None:
    assert base_url(broker()) == "http://broker:15672"
    assert base_url(broker(url="amqps://broker/")) == "https://broker:15671"
    assert base_url(broker(url="amqps://[::1]/")) == "https://[::1]:15671"


def test_plain_http_beside_amqps_takes_a_word() -> None:
    exposed = {"url": "amqps://broker/", "managementUrl": "http://broker:15672"}
    with pytest.raises(InvalidOption, match="managementPlain"):
        base_url(broker(**exposed))
    with pytest.raises(InvalidOption, match="managementPlain"):
        get(broker(**exposed), "/api/queues", "asking")
    assert base_url(broker(**exposed, managementPlain="true")) == "http://broker:15672"
    # What stays on this machine is seen by nobody, and what is not secret over AMQP is not secret here.
    assert base_url(broker(url="amqps://broker/", managementUrl="http://127.0.0.1:1")) == "http://127.0.0.1:1"
    assert base_url(broker(managementUrl="http://other:1/")) == "http://other:1"
    with pytest.raises(InvalidOption, match="managementUrl"):
        base_url(broker(managementUrl="file:///etc/passwd"))


@pytest.mark.parametrize("ask", [get, lambda broker, path, doing: post(broker, path, {}, doing)])
def test_no_redirect_is_followed(ask: Any) -> None:
    with serving() as other, serving(f"http://127.0.0.1:{other.server_port}") as server:
        asked = broker(managementUrl=f"http://127.0.0.1:{server.server_port}")
        with pytest.raises(SourceFailed, match="redirect"):
            ask(asked, "/api/queues", "asking")
        assert server.logins == [LOGIN]
        assert other.logins == []


def test_a_prefix_and_a_body_arrive() -> None:
    with serving() as server:
        asked = broker(managementUrl=f"http://127.0.0.1:{server.server_port}/prefix/")
        assert post(asked, "/api/x?y=1", {"a": 1}, "asking") == {"path": "/prefix/api/x?y=1"}
        assert server.logins == [LOGIN]


def test_no_proxy_of_the_environment_gets_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as proxy, serving() as server:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.server_port}")
        get(broker(managementUrl=f"http://127.0.0.1:{server.server_port}"), "/api/queues", "asking")
        assert (len(server.logins), proxy.logins) == (1, [])


def test_the_certificate_is_checked_as_that_of_amqp_is(authority: Authority, tmp_path: Path) -> None:
    named = authority.issue("named", "rabbit.internal")
    with serving(papers=authority.server()) as server, serving(papers=named) as other:
        url = f"https://127.0.0.1:{server.server_port}"
        assert get(broker(managementUrl=url, ca=str(authority.file)), "/a", "asking") == {"path": "/a"}
        stranger = Authority(tmp_path / "stranger")
        for ca in ({}, {"ca": str(stranger.file)}):
            with pytest.raises(SourceFailed, match="certificate verify failed"):
                get(broker(managementUrl=url, **ca), "/a", "asking")
        elsewhere = {"managementUrl": f"https://127.0.0.1:{other.server_port}", "ca": str(authority.file)}
        with pytest.raises(SourceFailed, match="certificate verify failed"):
            get(broker(**elsewhere), "/a", "asking")
        assert get(broker(**elsewhere, serverName="rabbit.internal"), "/a", "asking") == {"path": "/a"}
        assert (len(server.logins), len(other.logins)) == (1, 1), "a login went to a server that is not trusted"


def test_our_own_certificate_is_shown(authority: Authority) -> None:
    ours = authority.issue("ours", "ann@example.org")
    server = Server(papers=authority.server())
    server.socket.context.verify_mode = ssl.CERT_REQUIRED  # type: ignore[attr-defined]
    server.socket.context.load_verify_locations(authority.file)  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        url = f"https://127.0.0.1:{server.server_port}"
        with pytest.raises(SourceFailed):
            get(broker(managementUrl=url, ca=str(authority.file)), "/a", "asking")
        papers = {"certificate": str(ours.certificate), "key": str(ours.key)}
        assert get(broker(managementUrl=url, ca=str(authority.file), **papers), "/a", "asking") == {"path": "/a"}
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_option_is_for_reading_and_writing() -> None:
    assert read_options({"managementPlain": "true"}, ANY)["managementPlain"] is True
