"""A broker with TLS ports and an authority that signs for it and for its clients."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika

from tests.conformance.authority import Authority, Papers
from tests.conformance.raw_client import RawClient
from tests.conformance.raw_stream_client import RawStreamClient


class TlsScene:
    def __init__(self, authority: Authority, papers: Papers, broker: Any) -> None:
        self.authority = authority
        # Of the broker.
        self.papers = papers
        self.broker = broker

    def connect(self, papers: Papers | None = None, context: ssl.SSLContext | None = None) -> RawClient:
        """A client that trusts the authority, shows these papers and has said nothing yet."""
        return RawClient(self.broker.host, self.broker.tls_port, context or self.authority.context(papers))

    def stream(self, papers: Papers | None = None) -> RawStreamClient:
        return RawStreamClient(self.broker.host, self.broker.stream_tls_port, self.authority.context(papers))

    def parameters(self, papers: Papers | None = None, **more: Any) -> pika.ConnectionParameters:
        options = pika.SSLOptions(self.authority.context(papers), "localhost")
        return pika.ConnectionParameters(self.broker.host, self.broker.tls_port, ssl_options=options, **more)

    def handshakes_failed(self) -> int:
        failed: int = self.broker.call(lambda node: node.tls_door.handshakes_failed_total)
        return failed


@contextmanager
def tls_scene(directory: Path, **settings: object) -> Iterator[TlsScene]:
    """Settings are written with two underscores for the dot; clients are asked for a certificate if they say so."""
    # Not at the top of the file, so that the oracle can be asked where Leveret is not built.
    from leveret.testing import Broker

    authority = Authority(directory / "authority")
    papers = authority.server()
    chosen = {
        "listen.tls_port": 0,
        "listen.stream_tls_port": 0,
        "tls.certificate": str(papers.certificate),
        "tls.key": str(papers.key),
        "tls.ca": str(authority.file),
        **{name.replace("__", "."): value for name, value in settings.items()},
    }
    with Broker(chosen) as broker:
        yield TlsScene(authority, papers, broker)
