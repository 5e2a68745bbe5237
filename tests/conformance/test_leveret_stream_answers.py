"""Streams where Leveret does better than RabbitMQ 3.10: nothing of a message is lost, credit and counts are exact, and
what is malformed costs the channel, not the connection."""

import pytest

from tests.conformance.amqp_codec import Typed, Value, encode_properties
from tests.conformance.raw_client import RawClient, Refusal
from tests.conformance.topology import (
    Topology,
    bodies_of,
    counts,
    deliveries,
    publish_all,
    refusal_of,
    unique_name,
    wait_for,
)

STREAM = {"x-queue-type": "stream"}


@pytest.fixture
def stream(client: RawClient, topology: Topology) -> str:
    return topology.queue(client, exclusive=False, durable=True, arguments=STREAM)


def consume(client: RawClient, stream: str, offset: Value, prefetch: int = 100) -> None:
    client.call(1, "basic.qos", prefetch_count=prefetch)
    client.call(1, "basic.consume", queue=stream, consumer_tag="reader", arguments={"x-stream-offset": offset})


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


class TestNothingIsLost:
    """RabbitMQ drops these on the way, or the whole message, or the connection that published it."""

    def test_headers_and_properties(self, client: RawClient, stream: str) -> None:
        """In the order in which they came, and the offset last."""
        headers: dict[str, Value] = {
            "z": [1, "a", {"b": [None]}],
            "CC": ["nowhere"],
            "table": {"inner": {"short": Typed(b"s", 1)}, "none": {}},
            "empty": [],
            "decimal": Typed(b"D", (2, 314)),
            "a": 1,
        }
        client.publish(1, "", stream, b"all", {"headers": headers, "cluster_id": "c"})
        consume(client, stream, "first")
        (letter,) = deliveries(client, 1)
        expected = {"headers": {**headers, "x-stream-offset": Typed(b"l", 0)}, "cluster_id": "c"}
        assert letter.properties_raw == encode_properties(expected)

    def test_dead_letters(self, client: RawClient, topology: Topology, stream: str) -> None:
        """RabbitMQ throws those away that a queue sends to a stream."""
        reach = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": stream}
        rejecting = topology.queue(client, arguments=reach)
        full = topology.queue(client, arguments={**reach, "x-max-length": 1})
        expiring = topology.queue(client, arguments={**reach, "x-message-ttl": 1})
        publish_all(client, rejecting, [b"rejected"])
        tag = client.call(1, "basic.get", queue=rejecting)["delivery_tag"]
        client.send(1, "basic.reject", delivery_tag=tag)
        publish_all(client, full, [b"maxlen", b"newer"])
        publish_all(client, expiring, [b"expired"])
        wait_for("three dead letters", lambda: counts(client, stream)[0] == 3)
        consume(client, stream, "first")
        letters = deliveries(client, 3)
        assert sorted(bodies_of(letters)) == [b"expired", b"maxlen", b"rejected"]
        for letter in letters:
            assert letter.properties["headers"]["x-death"][0]["reason"] == letter.body.decode()


class TestExact:
    """Whatever was written at once."""

    def test_prefetch(self, client: RawClient, stream: str) -> None:
        publish_all(client, stream, numbers(0, 50))
        consume(client, stream, 20, prefetch=3)
        assert bodies_of(deliveries(client, 3)) == numbers(20, 23)
        client.expect_quiet()
        client.send(1, "basic.ack", delivery_tag=2, multiple=True)
        assert bodies_of(deliveries(client, 2)) == numbers(23, 25)
        client.expect_quiet()

    def test_the_last_one(self, client: RawClient, stream: str) -> None:
        publish_all(client, stream, numbers(0, 50))
        consume(client, stream, "last")
        assert bodies_of(deliveries(client, 1)) == [b"49"]

    def test_counts(self, client: RawClient, stream: str) -> None:
        """At once, readers too."""
        publish_all(client, stream, numbers(0, 50))
        assert counts(client, stream) == (50, 0)
        consume(client, stream, "next")
        assert counts(client, stream) == (50, 1)


class TestDeletedOnConditions:
    """Which RabbitMQ does not look at."""

    def test_if_empty(self, client: RawClient, stream: str) -> None:
        publish_all(client, stream, [b"a"])
        refusal = refusal_of(client, "queue.delete", queue=stream, if_empty=True)
        text = f"PRECONDITION_FAILED - queue '{stream}' in vhost '/' not empty"
        assert refusal == Refusal("channel", 406, text, 50, 40)

    def test_if_unused(self, client: RawClient, stream: str) -> None:
        consume(client, stream, "next")
        refusal = refusal_of(client, "queue.delete", queue=stream, if_unused=True)
        assert refusal == Refusal("channel", 406, f"PRECONDITION_FAILED - queue '{stream}' in vhost '/' in use", 50, 40)


class TestMalformed:
    """RabbitMQ closes the connection with an internal error."""

    @pytest.mark.parametrize("offset", ["First", "", "-1h", " 1h", True, 1.5, [], {}])
    def test_offsets(self, client: RawClient, stream: str, offset: Value) -> None:
        client.call(1, "basic.qos", prefetch_count=1)
        refusal = refusal_of(client, "basic.consume", queue=stream, arguments={"x-stream-offset": offset})
        assert (refusal.scope, refusal.code) == ("channel", 406)
        assert f"invalid arg 'x-stream-offset' for queue '{stream}' in vhost '/'" in refusal.text

    @pytest.mark.parametrize("age", ["", "abc", "D", "-1h", " 1h"])
    def test_ages(self, client: RawClient, age: str) -> None:
        name = unique_name("stream")
        arguments = {**STREAM, "x-max-age": age}
        refusal = refusal_of(client, "queue.declare", queue=name, durable=True, arguments=arguments)
        text = f"PRECONDITION_FAILED - invalid arg 'x-max-age' for queue '{name}' in vhost '/': invalid_max_age"
        assert refusal == Refusal("channel", 406, text, 50, 10)
