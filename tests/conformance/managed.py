"""A broker with its management API, Leveret's or RabbitMQ's, behind one face: for tests that ask both the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.own_broker import running
from tests.conformance.rabbitmq_node import running_rabbitmq
from tests.conformance.server_process import free_port
from tests.conformance.target import ORACLE_IS_TARGET
from tests.http_client import Api


@dataclass(frozen=True)
class Managed:
    host: str
    port: int
    management_url: str

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@{self.host}:{self.port}/"

    @property
    def api(self) -> Api:
        return Api(self.management_url)


@contextmanager
def running_managed(directory: Path) -> Iterator[Managed]:
    if not ORACLE_IS_TARGET:
        with running(directory) as broker:
            yield Managed(broker.host, broker.port, broker.management_url)
        return
    port = free_port()
    # Numbers are to appear soon after something has happened.
    configuration = f"management.tcp.port = {port}\nmanagement.tcp.ip = 127.0.0.1\ncollect_statistics_interval = 500\n"
    with running_rabbitmq(("rabbitmq_management",), configuration) as node:
        yield Managed(node.host, node.port, f"http://127.0.0.1:{port}")
