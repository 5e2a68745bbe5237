"""How messages come into streams: bindings, copies, transactions, and what has no meaning there."""

import pytest

from tests.conformance.conftest import Connect
from tests.conformance.raw_client import RawClient, Refusal
from tests.conformance.topology import Topology, drain, refusal_of
from tests.contract.letters import Publisher, Table
from tests.contract.streams import Reader, make_stream, no_settling, offsets_of, read, read_bodies


@pytest.fixture
def stream(client: RawClient, topology: Topology) -> str:
    return make_stream(client, topology)


def bind(client: RawClient, stream: str, exchange: str, routing_key: str, arguments: Table | None = None) -> None:
    client.call(1, "queue.bind", queue=stream, exchange=exchange, routing_key=routing_key, arguments=arguments or {})


class TestBindings:
    """Streams are bound like any queue."""

    @pytest.mark.parametrize(
        ("kind", "binding_key", "routing_key", "arguments", "headers"),
        [
            ("direct", "k", "k", {}, {}),
            ("fanout", "", "any", {}, {}),
            ("topic", "a.#", "a.b.c", {}, {}),
            ("headers", "", "any", {"x-match": "all", "h": "1"}, {"h": "1"}),
        ],
    )
    def test_every_kind_of_exchange(
        self,
        client: RawClient,
        publisher: Publisher,
        topology: Topology,
        stream: str,
        kind: str,
        binding_key: str,
        routing_key: str,
        arguments: Table,
        headers: Table,
    ) -> None:
        exchange = topology.exchange(client, kind)

        def publish() -> str:
            return publisher.publish(routing_key, exchange=exchange, mandatory=True, headers=headers)

        bind(client, stream, exchange, binding_key, arguments)
        assert publish() == "ack"
        (letter,) = read(client, stream, 1)
        assert (letter["exchange"], letter["routing_key"]) == (exchange, routing_key)
        assert letter.properties == {"headers": {**headers, "x-stream-offset": 0}}
        binding = {"queue": stream, "exchange": exchange, "routing_key": binding_key, "arguments": arguments}
        client.call(1, "queue.unbind", binding)
        assert publish() == "return ack"
        bind(client, stream, exchange, binding_key, arguments)
        client.call(1, "queue.delete", queue=stream)
        assert publish() == "return ack"

    def test_not_to_the_default_exchange(self, client: RawClient, stream: str) -> None:
        text = "ACCESS_REFUSED - operation not permitted on the default exchange"
        for method, number in (("queue.bind", 20), ("queue.unbind", 50)):
            refusal = refusal_of(client, method, queue=stream, exchange="", routing_key=stream)
            assert refusal == Refusal("channel", 403, text, 50, number)
            client.open_channel(1)

    def test_beside_queues_of_other_types(
        self, client: RawClient, publisher: Publisher, topology: Topology, stream: str
    ) -> None:
        """One message, confirmed once, and each has its own headers."""
        exchange = topology.exchange(client, "fanout")
        queue, other = topology.bound_queue(client, exchange, ""), make_stream(client, topology)
        publisher.publish_all(other, b"before")
        bind(client, stream, exchange, "")
        bind(client, other, exchange, "")
        assert publisher.publish("", b"all", exchange=exchange, headers={"a": "b"}) == "ack"
        assert client.call(1, "basic.get", queue=queue, no_ack=True).properties == {"headers": {"a": "b"}}
        for name, place in ((stream, 0), (other, 1)):
            (letter,) = read(client, name, 1, "last")
            assert letter.properties == {"headers": {"a": "b", "x-stream-offset": place}}

    def test_bound_twice_is_in_it_once(
        self, client: RawClient, publisher: Publisher, topology: Topology, stream: str
    ) -> None:
        exchange = topology.exchange(client, "topic")
        bind(client, stream, exchange, "a.*")
        bind(client, stream, exchange, "*.b")
        assert publisher.publish("a.b", b"both", exchange=exchange) == "ack"
        assert publisher.publish("x.b", b"one", exchange=exchange) == "ack"
        assert read_bodies(client, stream, 2) == [b"both", b"one"]

    def test_alternate_exchange(self, client: RawClient, publisher: Publisher, topology: Topology, stream: str) -> None:
        alternate = topology.exchange(client, "fanout")
        exchange = topology.exchange(client, "direct", arguments={"alternate-exchange": alternate})
        bind(client, stream, alternate, "")
        assert publisher.publish("lost", b"found", exchange=exchange, mandatory=True) == "ack"
        (letter,) = read(client, stream, 1)
        assert (letter.body, letter["exchange"], letter["routing_key"]) == (b"found", exchange, "lost")

    @pytest.mark.parametrize("header", ["CC", "BCC"])
    def test_copies(
        self, client: RawClient, publisher: Publisher, topology: Topology, stream: str, header: str
    ) -> None:
        """RabbitMQ loses the header in the stream, and so nobody asks for it here."""
        other = make_stream(client, topology)
        publisher.publish_all(stream, b"copied", headers={header: [other]})
        for name in (stream, other):
            (letter,) = read(client, name, 1)
            assert (letter.body, letter["exchange"], letter["routing_key"]) == (b"copied", "", stream)


class TestTransactions:
    """A channel in transactions publishes and acknowledges when it commits."""

    def test_publishing(self, client: RawClient, connect: Connect, stream: str) -> None:
        """What is rolled back takes no place."""
        writer, reader = connect(), Reader(client, stream)
        writer.call(1, "tx.select")
        writer.publish(1, "", stream, b"1")
        writer.publish(1, "", stream, b"2")
        reader.expect_quiet()
        writer.call(1, "tx.commit")
        assert offsets_of(reader.take(2)) == [0, 1]
        writer.publish(1, "", stream, b"3")
        writer.call(1, "tx.rollback")
        writer.publish(1, "", stream, b"4")
        writer.call(1, "tx.commit")
        (letter,) = reader.take(1)
        assert (letter.body, offsets_of([letter])) == (b"4", [2])

    def test_acknowledging(self, client: RawClient, publisher: Publisher, stream: str) -> None:
        publisher.publish_all(stream, b"1", b"2")
        client.call(1, "tx.select")
        reader = Reader(client, stream, prefetch=1)
        assert reader.bodies(1) == [b"1"]
        reader.ack(1)
        reader.expect_quiet()
        client.call(1, "tx.rollback")
        reader.ack(1)
        client.send(1, "tx.commit")
        # RabbitMQ delivers before it says that it has committed.
        answers = [client.expect(1, "tx.commit-ok", "basic.deliver") for _ in range(2)]
        assert sorted(answer.name for answer in answers) == ["basic.deliver", "tx.commit-ok"]
        assert b"2" in [answer.body for answer in answers]

    def test_rejecting(self, client: RawClient, publisher: Publisher, stream: str) -> None:
        """Refused when it is committed."""
        publisher.publish_all(stream, b"1")
        client.call(1, "tx.select")
        Reader(client, stream).take(1)
        client.send(1, "basic.nack", delivery_tag=1)
        client.expect_quiet()
        assert refusal_of(client, "tx.commit") == no_settling(stream, 90, 20)


def test_nothing_expires(client: RawClient, publisher: Publisher, stream: str) -> None:
    publisher.publish_all(stream, b"a", expiration="0")
    publisher.publish_all(stream, b"b", expiration="1")
    publisher.publish_all(stream, b"c")
    assert read_bodies(client, stream, 3) == [b"a", b"b", b"c"]


def test_without_confirms(client: RawClient, connect: Connect, stream: str) -> None:
    reader, writer = Reader(client, stream), connect()
    for number in range(200):
        writer.publish(1, "", stream, b"%d" % number)
    letters = reader.take(100)
    assert offsets_of(letters) == list(range(100))
    reader.ack(0, multiple=True)
    letters += reader.take(100)
    assert [letter.body for letter in letters] == [b"%d" % number for number in range(200)]


def test_many_at_once_are_each_told_once(client: RawClient, publisher: Publisher, stream: str) -> None:
    """Their confirms cover them all, and their places are in the order in which they were published."""
    writer, confirmed = publisher.client, 0
    for number in range(200):
        writer.publish(1, "", stream, b"%d" % number)
    while confirmed < 200:
        told = writer.expect(1, "basic.ack")
        assert told["delivery_tag"] > confirmed if told["multiple"] else told["delivery_tag"] == confirmed + 1
        confirmed = told["delivery_tag"]
    reader = Reader(client, stream, prefetch=10)
    letters = reader.read_to(b"199")
    assert [letter.body for letter in letters] == [b"%d" % number for number in range(200)]
    assert offsets_of(letters) == list(range(200))


def test_messages_of_a_queue_moved_into_a_stream(
    client: RawClient, publisher: Publisher, topology: Topology, stream: str
) -> None:
    """A stream's header in a message that lands in a queue is a header like any other."""
    queue = topology.queue(client)
    publisher.publish_all(stream, b"a")
    (letter,) = read(client, stream, 1)
    publisher.publish(queue, letter.body, properties_raw=letter.properties_raw)
    assert client.call(1, "basic.get", queue=queue).properties == {"headers": {"x-stream-offset": 0}}
    assert drain(client, queue) == []
