"""Header values that RabbitMQ cannot hold, because Erlang cannot: Leveret passes them on like any other."""

import math

import pytest

from tests.conformance.amqp_codec import Typed, encode_properties
from tests.conformance.raw_client import RawClient
from tests.conformance.topology import Topology


@pytest.mark.parametrize("tag", [b"f", b"d"])
@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_numbers_that_are_not_finite(client: RawClient, topology: Topology, tag: bytes, value: float) -> None:
    queue = topology.queue(client)
    raw = encode_properties({"headers": {"value": Typed(tag, value)}})
    client.send(1, "basic.publish", routing_key=queue)
    client.send_content(1, b"", raw)
    assert client.call(1, "basic.get", queue=queue).properties_raw == raw
