"""The brokers that the client library is tested against: Leveret in this process, RabbitMQ where it is installed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from leveret.testing import Broker
from tests.client.amqp_server import AmqpServer
from tests.client.proxy import Proxy
from tests.client.proxy_scene import Connect, connecting, proxied
from tests.client.topology_scene import Scene, scene_on
from tests.conformance.rabbitmq_node import running_rabbitmq
from tests.conformance.server_process import free_port


@pytest.fixture(scope="session")
def leveret_server() -> Iterator[AmqpServer]:
    with Broker() as broker:
        yield AmqpServer("leveret", broker.host, broker.port, broker.management_url, broker=broker)


@pytest.fixture(scope="session")
def rabbitmq_server() -> Iterator[AmqpServer]:
    port = free_port()
    # Numbers are to appear soon after something has happened.
    configuration = f"management.tcp.port = {port}\nmanagement.tcp.ip = 127.0.0.1\ncollect_statistics_interval = 500\n"
    with running_rabbitmq(("rabbitmq_management",), configuration) as node:
        yield AmqpServer("rabbitmq", node.host, node.port, f"http://127.0.0.1:{port}", node=node)


@pytest.fixture(scope="session", params=["leveret", "rabbitmq"])
def amqp_server(request: pytest.FixtureRequest) -> AmqpServer:
    """Each test that asks for it runs twice. RabbitMQ is started for the first test that needs it, once a session."""
    server: AmqpServer = request.getfixturevalue(f"{request.param}_server")
    return server


@pytest.fixture
def scene(amqp_server: AmqpServer) -> Iterator[Scene]:
    """A virtual host that only this test uses."""
    with scene_on(amqp_server) as made:
        yield made


@pytest.fixture
def leveret_scene(leveret_server: AmqpServer) -> Iterator[Scene]:
    """The same on Leveret alone, for what does not depend on the broker."""
    with scene_on(leveret_server) as made:
        yield made


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A Leveret that only the tests of one file use: they may count its connections."""
    with Broker() as running:
        yield running


@pytest.fixture
def proxy(broker: Broker) -> Iterator[Proxy]:
    with proxied(broker) as running:
        yield running


@pytest.fixture
def connect(proxy: Proxy) -> Iterator[Connect]:
    with connecting(proxy) as connected:
        yield connected
