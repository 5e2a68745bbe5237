"""The brokers that the client library is tested against: Leveret in this process, RabbitMQ where it is installed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from leveret.testing import Broker
from tests.client.amqp_server import AmqpServer
from tests.conformance.rabbitmq_node import running_rabbitmq
from tests.conformance.server_process import free_port


@pytest.fixture(scope="session")
def _leveret() -> Iterator[AmqpServer]:
    with Broker() as broker:
        yield AmqpServer("leveret", broker.host, broker.port, broker.management_url, broker=broker)


@pytest.fixture(scope="session")
def _rabbitmq() -> Iterator[AmqpServer]:
    port = free_port()
    # Numbers are to appear soon after something has happened.
    configuration = f"management.tcp.port = {port}\nmanagement.tcp.ip = 127.0.0.1\ncollect_statistics_interval = 500\n"
    with running_rabbitmq(("rabbitmq_management",), configuration) as node:
        yield AmqpServer("rabbitmq", node.host, node.port, f"http://127.0.0.1:{port}", node=node)


@pytest.fixture(scope="session", params=["leveret", "rabbitmq"])
def amqp_server(request: pytest.FixtureRequest) -> AmqpServer:
    """Each test that asks for it runs twice. RabbitMQ is started for the first test that needs it, once a session."""
    server: AmqpServer = request.getfixturevalue(f"_{request.param}")
    return server
