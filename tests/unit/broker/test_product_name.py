"""What the broker calls itself: the same product and version by every interface, and its own version beside them."""

from __future__ import annotations

from typing import Any

import pytest

from leveret import __version__
from leveret.broker.product_name import RABBITMQ_VERSION, Announced
from leveret.testing import Broker
from leveret.wire import stream_commands
from tests.conformance.raw_client import RawClient
from tests.conformance.raw_stream_client import RawStreamClient
from tests.http_client import Api


def text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


@pytest.mark.parametrize("product", ["RabbitMQ", "Leveret"])
def test_every_interface_announces_the_same(product: str) -> None:
    settings = {} if product == Announced().product else {"compatibility.product": product}
    with Broker(settings) as broker:
        with RawClient(broker.host, broker.port) as client:
            amqp = client.start()["server_properties"]
        with RawStreamClient(broker.host, broker.stream_port) as stream_client:
            stream = stream_client.do(stream_commands.PeerProperties, {}).properties
        api = Api(broker)
        overview, definitions = api.get("/overview").body, api.get("/definitions").body
        version = api.get("/version").body
    expected = (product, RABBITMQ_VERSION, __version__)
    for properties in (amqp, stream):
        assert tuple(text(properties[key]) for key in ("product", "version", "leveret_version")) == expected
    for document in (overview, definitions):
        assert tuple(document[key] for key in ("product_name", "product_version", "leveret_version")) == expected
        assert document["rabbitmq_version"] == RABBITMQ_VERSION
    assert overview["management_version"] == definitions["rabbit_version"] == version == RABBITMQ_VERSION


def test_clients_that_compare_versions_find_one_that_they_can_compare() -> None:
    # NServiceBus asks for 3.10, stream clients for 3.13 before they filter.
    assert tuple(int(part) for part in Announced("Leveret").version.split(".")) >= (3, 13, 0)
