"""Transactions are whole, where RabbitMQ's are not: all of one takes effect, or none of it does."""

import pytest

from tests.conformance.amqp_codec import Value
from tests.conformance.conftest import Connect
from tests.conformance.raw_client import RawClient, Refusal
from tests.conformance.topology import Topology, drain, publish_all, wait_for_counts

REFUSING = pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])


@REFUSING
def test_a_full_queue_undoes_all_of_a_transaction(
    client: RawClient, connect: Connect, topology: Topology, overflow: str
) -> None:
    grave, other, work = (topology.queue(client, exclusive=False) for _ in range(3))
    letters: dict[str, Value] = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": grave}
    full = topology.queue(client, arguments={"x-max-length": 2, "x-overflow": overflow, **letters})
    publish_all(client, work, [b"to do"])
    tx = connect()
    tx.call(1, "tx.select")
    assert tx.call(1, "basic.get", queue=work).body == b"to do"
    tx.publish(1, "", other, b"before")
    for body in (b"1", b"2", b"3"):
        tx.publish(1, "", full, body)
    tx.publish(1, "", other, b"after")
    tx.send(1, "basic.ack", delivery_tag=1)
    tx.send(1, "tx.commit")
    refusal = tx.refusal()
    assert refusal == Refusal("channel", 406, refusal.text, 90, 20)
    assert "none of it took effect" in refusal.text and f"queue '{full}' in vhost '/' is full" in refusal.text
    assert [drain(client, queue) for queue in (full, other, grave)] == [[], [], []]
    wait_for_counts(client, work, 1, 0)


@REFUSING
def test_what_fits_exactly_is_committed(client: RawClient, connect: Connect, topology: Topology, overflow: str) -> None:
    full = topology.queue(client, arguments={"x-max-length": 3, "x-overflow": overflow})
    publish_all(client, full, [b"0"])
    tx = connect()
    tx.call(1, "tx.select")
    for body in (b"1", b"2"):
        tx.publish(1, "", full, body)
    tx.call(1, "tx.commit")
    assert drain(client, full) == [b"0", b"1", b"2"]


def test_a_message_of_a_stream_that_is_rejected_undoes_all_of_a_transaction(
    client: RawClient, connect: Connect, topology: Topology
) -> None:
    stream = topology.queue(client, exclusive=False, durable=True, arguments={"x-queue-type": "stream"})
    other = topology.queue(client)
    client.publish(1, "", stream, b"x")
    tx = connect()
    tx.call(1, "basic.qos", prefetch_count=10)
    tx.call(1, "basic.consume", queue=stream, arguments={"x-stream-offset": "first"})
    assert tx.expect(1, "basic.deliver").body == b"x"
    tx.call(1, "tx.select")
    tx.publish(1, "", other, b"y")
    tx.send(1, "basic.reject", delivery_tag=1, requeue=False)
    tx.send(1, "tx.commit")
    refusal = tx.refusal()
    assert (refusal.scope, refusal.code) == ("connection", 540)
    assert drain(client, other) == []
