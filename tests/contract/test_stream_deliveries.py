"""What a stream delivers, how acknowledgements ask for more, and what else a reader may not do."""

import pytest

from tests.conformance.amqp_codec import Typed, Value, encode_properties, encode_shortstr, encode_value
from tests.conformance.conftest import Connect
from tests.conformance.raw_client import RawClient, Refusal
from tests.conformance.topology import Topology, refusal_of
from tests.contract.letters import Publisher, Table
from tests.contract.streams import (
    STREAM,
    Reader,
    at,
    make_stream,
    no_settling,
    not_implemented,
    offsets_of,
    read,
)


def numbers(*values: int) -> list[bytes]:
    return [b"%d" % value for value in values]


@pytest.fixture
def stream(client: RawClient, publisher: Publisher, topology: Topology) -> str:
    """A stream with messages 0 to 7, each named for its offset."""
    made = make_stream(client, topology)
    publisher.publish_all(made, *numbers(*range(8)))
    return made


class TestWhatComes:
    """The message as it was published, and where it stands."""

    def test_a_message_without_properties(self, client: RawClient, publisher: Publisher, topology: Topology) -> None:
        stream = make_stream(client, topology)
        publisher.publish_all(stream, b"plain", b"")
        for place, letter in enumerate(read(client, stream, 2)):
            expected = {"consumer_tag": "reader", "redelivered": False, "exchange": "", "routing_key": stream}
            assert {**letter.fields, "delivery_tag": None} == {**expected, "delivery_tag": None}
            assert letter.body == (b"plain", b"")[place]
            assert letter.properties_raw == encode_properties({"headers": {"x-stream-offset": at(place)}})

    def test_properties(self, client: RawClient, publisher: Publisher, topology: Topology) -> None:
        """RabbitMQ loses the cluster id."""
        properties: Table = {
            "content_type": "text/plain",
            "content_encoding": "gzip",
            "delivery_mode": 2,
            "priority": 5,
            "correlation_id": "c",
            "reply_to": "r",
            "expiration": "60000",
            "message_id": "",
            "timestamp": 1234567890,
            "type": "t",
            "user_id": "guest",
            "app_id": "a",
        }
        stream = make_stream(client, topology)
        publisher.publish_all(stream, b"all", **properties)
        publisher.publish_all(stream, b"transient", delivery_mode=1, headers={})
        full, transient = read(client, stream, 2)
        assert full.properties_raw == encode_properties({**properties, "headers": {"x-stream-offset": at(0)}})
        assert transient.properties_raw == encode_properties(
            {"delivery_mode": 1, "headers": {"x-stream-offset": at(1)}}
        )

    def test_headers(self, client: RawClient, publisher: Publisher, topology: Topology) -> None:
        """Each in every octet. RabbitMQ puts them in order, and loses or chokes on those left out here."""
        headers: Table = {
            "text": "äö",
            "nothing": "",
            "octets": b"\x00\xff",
            "yes": True,
            "no": False,
            "void": None,
            "float": Typed(b"f", 1.5),
            "double": 1.25,
            "moment": Typed(b"T", 1234567890),
            "x-stream-filter-value": "some",
            **{f"number {tag!r}": Typed(tag, 100) for tag in (b"b", b"B", b"s", b"u", b"I", b"i", b"l")},
        }
        stream = make_stream(client, topology)
        publisher.publish_all(stream, b"", headers=headers)
        (letter,) = read(client, stream, 1)
        for name, value in {**headers, "x-stream-offset": at(0)}.items():
            assert encode_shortstr(name) + encode_value(value) in letter.properties_raw
        assert set(letter.properties["headers"]) == {*headers, "x-stream-offset"}

    @pytest.mark.parametrize("own", ["mine", 77, None])
    def test_a_place_that_the_message_brought(
        self, client: RawClient, publisher: Publisher, topology: Topology, own: Value
    ) -> None:
        """It came out of another stream, say: here it has a place of its own."""
        stream = make_stream(client, topology)
        publisher.publish_all(stream, b"", headers={"a": Typed(b"u", 5), "x-stream-offset": own})
        (letter,) = read(client, stream, 1)
        expected = encode_properties({"headers": {"a": Typed(b"u", 5), "x-stream-offset": at(0)}})
        assert letter.properties_raw == expected

    def test_a_large_body(self, client: RawClient, publisher: Publisher, topology: Topology) -> None:
        """In several frames, which makes no difference to what stands before them."""
        stream = make_stream(client, topology)
        body = bytes(range(256)) * 2000
        headers: Table = {"a": Typed(b"s", 5), "b": Typed(b"f", 1.5), "c": Typed(b"l", 5), "d": b"octets"}
        publisher.publish_all(stream, b"before")
        publisher.publish_all(stream, body, headers=headers)
        letter = read(client, stream, 2)[1]
        assert letter.body == body
        assert letter.properties_raw == encode_properties({"headers": {**headers, "x-stream-offset": at(1)}})


class TestCredit:
    """Each message that is acknowledged makes room for another."""

    def test_one_at_a_time(self, client: RawClient, stream: str) -> None:
        reader = Reader(client, stream, prefetch=1)
        assert reader.bodies(1) == [b"0"]
        reader.expect_quiet()
        for number in range(1, 8):
            reader.ack(reader.last_tag)
            assert reader.bodies(1) == numbers(number)

    def test_in_any_order(self, client: RawClient, stream: str) -> None:
        reader = Reader(client, stream, prefetch=3)
        assert reader.bodies(3) == numbers(0, 1, 2)
        reader.ack(2)
        assert reader.bodies(1) == numbers(3)
        reader.expect_quiet()
        reader.ack(3, multiple=True)
        assert reader.bodies(2) == numbers(4, 5)
        reader.expect_quiet()
        reader.ack(0, multiple=True)
        assert reader.bodies(2) == numbers(6, 7)

    def test_new_messages_wait_for_it(self, client: RawClient, publisher: Publisher, stream: str) -> None:
        reader = Reader(client, stream, "next", prefetch=2)
        publisher.publish_all(stream, *numbers(8, 9, 10))
        assert reader.bodies(2) == numbers(8, 9)
        reader.expect_quiet()
        reader.ack(1)
        assert reader.bodies(1) == numbers(10)

    def test_set_when_it_began(self, client: RawClient, stream: str) -> None:
        reader = Reader(client, stream, prefetch=1)
        assert reader.bodies(1) == [b"0"]
        client.call(1, "basic.qos", prefetch_count=5)
        client.expect_quiet()
        reader.ack(1)
        assert reader.bodies(1) == [b"1"]
        reader.expect_quiet()

    def test_of_each_its_own(self, client: RawClient, stream: str) -> None:
        """Two readers on one channel, acknowledged together."""
        client.call(1, "basic.qos", prefetch_count=1)
        for tag, place in (("a", 0), ("b", 4)):
            client.send(1, "basic.consume", queue=stream, consumer_tag=tag, arguments={"x-stream-offset": place})
        for _ in range(4):
            client.expect(1, "basic.consume-ok", "basic.deliver")
        client.send(1, "basic.ack", delivery_tag=2, multiple=True)
        letters = [client.expect(1, "basic.deliver") for _ in range(2)]
        assert sorted(offsets_of(letters)) == [1, 5]
        (mine,) = [letter for letter in letters if letter["consumer_tag"] == "b"]
        client.send(1, "basic.ack", delivery_tag=mine["delivery_tag"])
        assert offsets_of([client.expect(1, "basic.deliver")]) == [6]
        client.expect_quiet()

    def test_together_with_another_queue(
        self, client: RawClient, publisher: Publisher, topology: Topology, stream: str
    ) -> None:
        queue = topology.queue(client)
        publisher.publish_all(queue, b"a", b"b")
        reader = Reader(client, stream, prefetch=1)
        assert reader.bodies(1) == [b"0"]
        assert client.call(1, "basic.get", queue=queue).body == b"a"
        reader.ack(2, multiple=True)
        assert reader.bodies(1) == [b"1"]
        client.call(1, "basic.cancel", consumer_tag="reader")
        client.send(1, "basic.ack", delivery_tag=reader.last_tag)
        assert client.call(1, "basic.get", queue=queue, no_ack=True).body == b"b"
        assert client.call(1, "basic.get", queue=queue, no_ack=True).name == "basic.get-empty"

    @pytest.mark.parametrize("acknowledged", [False, True])
    def test_unknown_tags(self, client: RawClient, stream: str, acknowledged: bool) -> None:
        reader = Reader(client, stream, prefetch=1)
        reader.take(1)
        tag = 1 if acknowledged else 77
        if acknowledged:
            reader.ack(1)
        refusal = refusal_of(client, "basic.ack", delivery_tag=tag)
        assert refusal == Refusal("channel", 406, f"PRECONDITION_FAILED - unknown delivery tag {tag}", 60, 80)


class TestTheEnd:
    """Of a reader, its channel and its stream."""

    def test_cancelled(self, client: RawClient, publisher: Publisher, stream: str) -> None:
        """What it held can still be acknowledged, and brings nothing."""
        reader = Reader(client, stream, prefetch=2)
        reader.take(2)
        client.call(1, "basic.cancel", consumer_tag="reader")
        reader.ack(1)
        publisher.publish_all(stream, b"8")
        client.expect_quiet()
        other = Reader(client, stream, prefetch=1, tag="other")
        assert other.bodies(1) == [b"0"]
        reader.ack(2)
        other.expect_quiet()

    def test_channel_closed(self, client: RawClient, stream: str) -> None:
        Reader(client, stream, prefetch=2).take(2)
        client.call(1, "channel.close")
        client.open_channel(1)
        letters = Reader(client, stream, prefetch=2).take(2)
        assert offsets_of(letters) == [0, 1]
        assert not any(letter["redelivered"] for letter in letters)

    def test_stream_deleted(self, client: RawClient, connect: Connect, publisher: Publisher, stream: str) -> None:
        """Its readers are told, and may say what they like about what they held. A new one begins at nought."""
        other = connect()
        reader = Reader(other, stream, prefetch=2)
        reader.take(2)
        client.call(1, "queue.delete", queue=stream)
        assert other.expect(1, "basic.cancel").fields == {"consumer_tag": "reader", "nowait": True}
        reader.ack(1)
        other.send(1, "basic.nack", delivery_tag=2)
        other.expect_quiet()
        assert publisher.publish(stream, mandatory=True) == "return ack"
        client.call(1, "queue.declare", queue=stream, durable=True, arguments=STREAM)
        publisher.publish_all(stream, b"new")
        assert offsets_of(read(client, stream, 1)) == [0]

    def test_stream_deleted_under_a_client_that_is_not_told(
        self, client: RawClient, connect: Connect, stream: str
    ) -> None:
        other = connect(capabilities={})
        Reader(other, stream, "next")
        client.call(1, "queue.delete", queue=stream)
        other.expect_quiet()


class TestWhatStreamsHaveNot:
    """Each of these costs the connection."""

    @pytest.mark.parametrize("requeue", [False, True])
    @pytest.mark.parametrize(("method", "number"), [("basic.reject", 90), ("basic.nack", 120)])
    def test_rejecting(self, client: RawClient, stream: str, method: str, number: int, requeue: bool) -> None:
        Reader(client, stream, prefetch=2).take(2)
        refusal = refusal_of(client, method, delivery_tag=2, requeue=requeue)
        assert refusal == no_settling(stream, 60, number)

    def test_rejecting_all(self, client: RawClient, stream: str) -> None:
        Reader(client, stream, prefetch=2).take(2)
        refusal = refusal_of(client, "basic.nack", delivery_tag=0, multiple=True, requeue=True)
        assert refusal == no_settling(stream, 60, 120)

    def test_rejecting_what_never_came(self, client: RawClient, stream: str) -> None:
        Reader(client, stream, prefetch=2).take(2)
        refusal = refusal_of(client, "basic.nack", delivery_tag=77)
        assert refusal == Refusal("channel", 406, "PRECONDITION_FAILED - unknown delivery tag 77", 60, 120)

    def test_recovering(self, client: RawClient, stream: str) -> None:
        """With nothing to recover there is nothing to refuse."""
        reader = Reader(client, stream, 7)
        reader.take(1)
        reader.ack(1)
        client.call(1, "basic.recover", requeue=True)

    @pytest.mark.parametrize("no_ack", [False, True])
    def test_getting(self, client: RawClient, stream: str, no_ack: bool) -> None:
        text = f"basic.get not supported by stream queues queue '{stream}' in vhost '/'"
        assert refusal_of(client, "basic.get", queue=stream, no_ack=no_ack) == not_implemented(text, 60, 70)

    @pytest.mark.parametrize("nowait", [False, True])
    def test_purging(self, client: RawClient, stream: str, nowait: bool) -> None:
        text = f"queue.purge not supported by stream queues queue '{stream}' in vhost '/'"
        assert refusal_of(client, "queue.purge", queue=stream, nowait=nowait) == not_implemented(text, 50, 30)
