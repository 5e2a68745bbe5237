"""The example for TLS alone: a node starts with it, and answers nobody without TLS."""

from __future__ import annotations

import re
import ssl
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from leveret.node.config.loading import load_settings, values_of
from leveret.testing import Broker
from tests.conformance.authority import Authority
from tests.conformance.raw_client import RawClient, ServerClosed

EXAMPLE = Path(__file__).parents[3] / "deploy/config/tls-only.toml"
PASSWORD = "of the test"


def example(directory: Path) -> tuple[Authority, dict[str, Any]]:
    """The settings as they stand there, with test certificates and any free ports."""
    authority = Authority(directory / "authority")
    papers = authority.server()
    text = EXAMPLE.read_text()
    for named, ours in (("tls/server.pem", papers.certificate), ("tls/server.key", papers.key)):
        assert text.count(f"/etc/leveret/{named}") == 1
        text = text.replace(f"/etc/leveret/{named}", str(ours))
    secret = directory / "admin"
    secret.write_text(f"{PASSWORD}\n")
    text = text.replace("/etc/leveret/secrets/admin", str(secret)).replace("0.0.0.0", "127.0.0.1")
    file = directory / "leveret.toml"
    file.write_text(re.sub(r"^(\w*port) = \d+$", r"\1 = 0", text, flags=re.MULTILINE))
    return authority, values_of(load_settings(file, {}))


def test_a_node_speaks_tls_and_nothing_else(tmp_path: Path) -> None:
    authority, settings = example(tmp_path)
    with Broker({**settings, "data_dir": str(tmp_path / "data")}) as broker:
        assert {one.tls for one in broker.call(lambda node: node.listening())} == {True}
        context = authority.context(None)
        with RawClient(broker.host, broker.tls_port, context) as client:
            client.start()
            client.start_ok("admin", PASSWORD)
            client.expect(0, "connection.tune")
        with RawClient(broker.host, broker.tls_port) as plain, pytest.raises((ServerClosed, AssertionError, OSError)):
            plain.start()
        for port in (broker.management_port, broker.metrics_port):
            address = f"//{broker.host}:{port}/{'health/ready' if port == broker.management_port else 'metrics'}"
            with urllib.request.urlopen(f"https:{address}", context=_of(authority), timeout=20) as answer:
                assert answer.status == 200
            with pytest.raises(OSError):
                urllib.request.urlopen(f"http:{address}", timeout=20)


def _of(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authority.file))


def test_the_example_names_rabbitmqs_ports() -> None:
    ports = re.findall(r"^(\w*port) = (\d+)$", EXAMPLE.read_text(), flags=re.MULTILINE)
    assert dict(ports) == {
        "tls_port": "5671",
        "stream_tls_port": "5551",
        "management_port": "15671",
        "metrics_port": "15691",
    }
