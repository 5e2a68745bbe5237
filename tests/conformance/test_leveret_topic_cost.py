"""Topic matching costs what its result is worth: no binding key can hang the broker, as it can hang RabbitMQ."""

import time

from tests.conformance.raw_client import RawClient
from tests.conformance.topology import Topology, drain


def test_many_hashes_in_one_binding_do_not_multiply(client: RawClient, topology: Topology) -> None:
    exchange = topology.exchange(client, "topic")
    queue = topology.bound_queue(client, exchange, ".".join(["#", "a"] * 40))
    client.publish(1, exchange, ".".join(["a"] * 39), b"too few words")
    began = time.monotonic()
    client.publish(1, exchange, ".".join(["a"] * 80), b"enough words")
    assert drain(client, queue) == [b"enough words"]
    assert time.monotonic() - began < 50
