"""The fixture that the client's tests run against: both brokers speak AMQP and answer on their management port."""

from __future__ import annotations

from tests.client.amqp_server import AmqpServer
from tests.conformance.raw_client import RawClient


def test_the_server_is_there_with_its_management(amqp_server: AmqpServer) -> None:
    with RawClient(amqp_server.host, amqp_server.port) as client:
        properties = client.start()["server_properties"]
    assert properties["product"] == "RabbitMQ"
    assert ("leveret_version" in properties) == (amqp_server.name == "leveret")
    overview = amqp_server.api.ask("GET", "/overview")
    assert overview.status == 200
    assert overview.body["product_name"] == "RabbitMQ"
