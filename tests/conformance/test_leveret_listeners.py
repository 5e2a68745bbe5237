"""What listens where: TLS alone, and addresses of their own for each port."""

from __future__ import annotations

import itertools
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import pika
import pytest

from leveret.errors import StartupError
from leveret.node.serve import SHOWN
from leveret.testing import Broker
from tests.conformance.authority import Authority
from tests.conformance.server_process import free_port

OTHER = "127.0.0.2"


def certified(directory: Path) -> tuple[Authority, dict[str, object]]:
    authority = Authority(directory)
    papers = authority.server()
    return authority, {"tls.certificate": str(papers.certificate), "tls.key": str(papers.key)}


def is_open(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), 2).close()
    except ConnectionRefusedError:
        return False
    return True


def test_tls_alone(tmp_path: Path) -> None:
    authority, settings = certified(tmp_path)
    off = {"listen.port": "off", "listen.stream_port": "off", "listen.tls_port": 0, "listen.stream_tls_port": 0}
    secure = {"listen.management_tls": True, "listen.metrics_tls": True}
    with Broker({**settings, **off, **secure}) as broker:
        assert (broker.port, broker.stream_port) == (0, 0)
        listening = broker.call(lambda node: node.listening())
        assert [(one.protocol, one.tls) for one in listening] == [
            ("amqp", True),
            ("stream", True),
            ("http", True),
            ("http/prometheus", True),
        ]
        context = ssl.create_default_context(cafile=str(authority.file))
        options = pika.SSLOptions(context, "localhost")
        pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.tls_port, ssl_options=options)).close()
        for port in (broker.management_port, broker.metrics_port):
            with socket.create_connection((broker.host, port), 5) as plain:
                context.wrap_socket(plain, server_hostname="localhost").close()


@pytest.mark.parametrize(
    ("name", "port"),
    [
        ("tls_", lambda node: node.tls_port),
        ("stream_", lambda node: node.stream_port),
        ("stream_tls_", lambda node: node.stream_tls_port),
        ("management_", lambda node: node.management_port),
        ("metrics_", lambda node: node.metrics_port),
    ],
)
def test_a_port_has_its_own_address(name: str, port: Callable[[object], int], tmp_path: Path) -> None:
    _, settings = certified(tmp_path)
    chosen = {**settings, f"listen.{name}host": OTHER, f"listen.{name}port": free_port()}
    with Broker(chosen) as broker:
        number = broker.call(port)
        assert is_open(OTHER, number)
        assert not is_open("127.0.0.1", number)
        assert is_open("127.0.0.1", broker.port)


def test_an_address_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind((OTHER, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(StartupError, match=f"{OTHER}:{port}"):
            Broker({"listen.stream_host": OTHER, "listen.stream_port": port}).start()


def test_the_start_prints_every_kind_of_port_for_clients() -> None:
    assert set(SHOWN) == set(itertools.product(("amqp", "stream", "http", "http/prometheus"), (False, True)))
