"""A running broker as the client's tests see it, be it Leveret or RabbitMQ."""

from __future__ import annotations

from dataclasses import dataclass

from leveret.testing import Broker
from tests.conformance.rabbitmq_node import RabbitNode
from tests.http_client import Api


@dataclass(frozen=True)
class AmqpServer:
    """A running broker with user guest, password guest, virtual host /. All tests of a session share it, so a test
    makes its own names (tests.conformance.topology.unique_name)."""

    name: str  # "leveret" or "rabbitmq"
    host: str
    port: int
    management_url: str
    # What the broker is made of, for what only one of them can do; None where it is the other.
    broker: Broker | None = None
    node: RabbitNode | None = None

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@{self.host}:{self.port}/"

    @property
    def management_login(self) -> str:
        """The management address with user and password in it."""
        return self.management_url.replace("http://", "http://guest:guest@")

    @property
    def api(self) -> Api:
        return Api(self.management_url)

    def close_connections(self) -> None:
        """Makes the broker close every connection, as an operator would."""
        if self.broker is not None:
            self.broker.close_connections()
        elif self.node is not None:
            self.node.control("close_all_connections", "closed for a test")
