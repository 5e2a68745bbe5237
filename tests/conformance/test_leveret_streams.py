"""What streams do beyond RabbitMQ 3.10 over AMQP: ranges, questions, filters, names, groups, and each message
of a producer once."""

import json
import time
from typing import Any

import pytest

from tests.conformance.conftest import Connect
from tests.conformance.raw_client import Method, RawClient, Refusal
from tests.conformance.target import RestartableTarget
from tests.conformance.topology import Topology, refusal_of, unique_name
from tests.contract.letters import Publisher, Table
from tests.contract.streams import STREAM, make_stream, offsets_of


class Reader:
    """A consumer of a stream with any arguments, on a channel of its own."""

    def __init__(
        self, client: RawClient, stream: str, arguments: Table, *, prefetch: int = 10, channel: int = 1, tag: str = "r"
    ) -> None:
        self.client = client
        self.channel = channel
        client.call(channel, "basic.qos", prefetch_count=prefetch)
        client.call(channel, "basic.consume", queue=stream, consumer_tag=tag, arguments=arguments)

    def take(self, count: int) -> list[Method]:
        return [self.client.expect(self.channel, "basic.deliver") for _ in range(count)]

    def bodies(self, count: int) -> list[bytes]:
        """The next messages, acknowledged as they come."""
        found = []
        for letter in (self.client.expect(self.channel, "basic.deliver") for _ in range(count)):
            self.ack(letter)
            found.append(letter.body)
        return found

    def ack(self, letter: Method, *, multiple: bool = False) -> None:
        self.client.send(self.channel, "basic.ack", delivery_tag=letter["delivery_tag"], multiple=multiple)

    def expect_end(self) -> None:
        assert self.client.expect(self.channel, "basic.cancel")["consumer_tag"] == "r"


def fill(client: RawClient, stream: str, count: int) -> None:
    publisher = Publisher(client)
    for i in range(count):
        assert publisher.publish(stream, str(i).encode()) == "ack"


# ---- ranges


def test_a_range_ends_by_itself(client: RawClient, topology: Topology) -> None:
    stream = make_stream(client, topology)
    fill(client, stream, 30)
    reader = Reader(client, stream, {"x-stream-offset": 5, "x-stream-stop-offset": 25})
    assert reader.bodies(20) == [str(i).encode() for i in range(5, 25)]
    reader.expect_end()
    # The name is free again, and the channel works on.
    assert Reader(client, stream, {"x-stream-offset": 29}).bodies(1) == [b"29"]


def test_an_empty_range_ends_at_once(client: RawClient, topology: Topology) -> None:
    stream = make_stream(client, topology)
    fill(client, stream, 3)
    Reader(client, stream, {"x-stream-offset": 3, "x-stream-stop-offset": 3}).expect_end()
    Reader(client, stream, {"x-stream-offset": "first", "x-stream-stop-offset": 0}).expect_end()


def test_a_range_that_reaches_beyond_the_end_waits_for_it(client: RawClient, topology: Topology) -> None:
    stream = make_stream(client, topology)
    fill(client, stream, 2)
    reader = Reader(client, stream, {"x-stream-offset": "first", "x-stream-stop-offset": 3})
    assert reader.bodies(2) == [b"0", b"1"]
    client.expect_quiet()
    client.open_channel(2)
    client.publish(2, "", stream, b"2")
    assert reader.bodies(1) == [b"2"]
    reader.expect_end()


# ---- questions


def ask(client: RawClient, stream: str, arguments: Table) -> dict[str, Any]:
    client.call(1, "basic.consume", queue=stream, consumer_tag="ask", arguments={"x-stream-query": True, **arguments})
    answer = client.expect(1, "basic.deliver")
    assert answer.body == b""
    assert client.expect(1, "basic.cancel")["consumer_tag"] == "ask"
    return dict(answer.properties["headers"])


def test_offsets_can_be_asked_for(client: RawClient, topology: Topology) -> None:
    stream = make_stream(client, topology)
    empty = ask(client, stream, {"x-stream-offset": "first"})
    assert empty.pop("x-stream-id")
    assert empty == {
        "x-stream-offset": 0,
        "x-stream-first-offset": 0,
        "x-stream-committed-offset": 0,
        "x-stream-last-offset": -1,
    }
    fill(client, stream, 4)
    later = ask(client, stream, {"x-stream-offset": "next"})
    assert (later["x-stream-offset"], later["x-stream-last-offset"]) == (4, 3)
    assert ask(client, stream, {"x-stream-offset": "last"})["x-stream-offset"] == 3
    assert ask(client, stream, {"x-stream-offset": "1h"})["x-stream-offset"] == 0


def test_producers_can_be_asked_for(client: RawClient, topology: Topology) -> None:
    """By how their names begin; with the last id of each, all of which are on disk."""
    stream = make_stream(client, topology)
    client.call(1, "confirm.select")
    for name, number in (("load/1", 5), ("load/2", 0), ("load/1", 7), ("other", 9)):
        headers = {"x-producer-name": name, "x-publishing-id": number}
        client.publish(1, "", stream, b"x", {"headers": headers})

    def producers(prefix: str) -> dict[str, int]:
        arguments: Table = {"x-stream-query": True, "x-stream-producers": prefix}
        client.send(1, "basic.consume", queue=stream, consumer_tag="ask", arguments=arguments)
        while (answer := client.expect(1, "basic.ack", "basic.consume-ok", "basic.deliver")).name != "basic.deliver":
            pass
        assert answer.properties["headers"]["x-stream-committed-offset"] == 4
        client.expect(1, "basic.cancel")
        return dict(json.loads(answer.body))

    assert producers("load/") == {"load/1": 7, "load/2": 0}
    assert producers("nobody") == {}


def test_producers_of_a_queue_cannot_be_asked_for(client: RawClient, topology: Topology) -> None:
    """And nothing is delivered instead."""
    queue = topology.queue(client)
    client.publish(1, "", queue, b"stays")
    arguments: Table = {"x-stream-query": True, "x-stream-producers": "a", "x-stream-offset": "first"}
    refusal = refusal_of(client, "basic.consume", queue=queue, arguments=arguments)
    assert isinstance(refusal, Refusal)
    assert (refusal.scope, refusal.code) == ("channel", 406)


def test_a_question_that_is_cancelled_takes_no_other_consumer_along(client: RawClient, topology: Topology) -> None:
    """Where a moment is must be looked up, and the client has other plans by then."""
    stream = make_stream(client, topology)
    fill(client, stream, 3)
    client.call(1, "basic.qos", prefetch_count=5)
    asking = {"x-stream-query": True, "x-stream-offset": "1h"}
    client.send(1, "basic.consume", queue=stream, consumer_tag="r", arguments=asking)
    client.send(1, "basic.cancel", consumer_tag="r")
    client.send(1, "basic.consume", queue=stream, consumer_tag="r", arguments={"x-stream-offset": "first"})
    # On a slow machine the answer may be quicker than the cancel.
    expected = ["basic.consume-ok", "basic.cancel-ok", "basic.cancel", "basic.deliver"]
    while client.expect(1, *expected).name != "basic.cancel-ok":
        pass
    client.expect(1, "basic.consume-ok")
    assert [client.expect(1, "basic.deliver").body for _ in range(3)] == [b"0", b"1", b"2"]
    client.expect_quiet()


def test_a_consumer_that_is_cancelled_while_its_place_is_looked_up_gets_nothing(
    client: RawClient, topology: Topology
) -> None:
    stream = make_stream(client, topology)
    fill(client, stream, 3)
    client.call(1, "basic.qos", prefetch_count=5)
    client.send(1, "basic.consume", queue=stream, consumer_tag="r", arguments={"x-stream-offset": "1h"})
    client.send(1, "basic.cancel", consumer_tag="r")
    while client.expect(1, "basic.consume-ok", "basic.deliver", "basic.cancel-ok").name != "basic.cancel-ok":
        pass
    client.expect_quiet()


# ---- filters


def publish_with(client: RawClient, stream: str, values: list[str | None]) -> None:
    publisher = Publisher(client)
    for i, value in enumerate(values):
        headers: Table = {} if value is None else {"x-stream-filter-value": value}
        assert publisher.publish(stream, str(i).encode(), headers=headers) == "ack"


@pytest.mark.parametrize(
    ("wanted", "unfiltered", "expected"),
    [
        ("emea", False, [b"0", b"3"]),
        (["emea", "apac"], False, [b"0", b"1", b"3"]),
        ("emea", True, [b"0", b"2", b"3"]),
        ("nobody", False, []),
    ],
)
def test_filters(client: RawClient, topology: Topology, wanted: Any, unfiltered: bool, expected: list[bytes]) -> None:
    stream = make_stream(client, topology)
    publish_with(client, stream, ["emea", "apac", None, "emea", "amer"])
    arguments = {"x-stream-offset": "first", "x-stream-filter": wanted, "x-stream-match-unfiltered": unfiltered}
    reader = Reader(client, stream, arguments)
    assert reader.bodies(len(expected)) == expected
    client.expect_quiet()


def test_a_filter_goes_on_at_the_tail(connect: Connect, topology: Topology) -> None:
    reading, publishing = connect(), connect()
    stream = make_stream(reading, topology)
    reader = Reader(reading, stream, {"x-stream-filter": "a"})
    publish_with(publishing, stream, ["b", "a", "b", "a"])
    assert reader.bodies(2) == [b"1", b"3"]


# ---- names


def test_a_consumer_with_a_name_goes_on_where_it_was(client: RawClient, topology: Topology) -> None:
    stream = make_stream(client, topology)
    fill(client, stream, 10)
    named = {"x-stream-consumer-name": "billing", "x-stream-offset": "first"}
    reader = Reader(client, stream, named)
    letters = reader.take(10)
    reader.ack(letters[3], multiple=True)
    # Out of order: what is before it is not done with.
    reader.ack(letters[6])
    client.call(1, "basic.cancel", consumer_tag="r")
    client.call(1, "channel.close", reply_code=200, reply_text="", class_id=0, method_id=0)
    client.open_channel(1)
    assert offsets_of(Reader(client, stream, named).take(6)) == [4, 5, 6, 7, 8, 9]


def test_names_survive_a_kill(server_process: RestartableTarget) -> None:
    stream = unique_name("stream")
    named = {"x-stream-consumer-name": "billing", "x-stream-offset": "first"}
    with RawClient(server_process.host, server_process.port) as client:
        client.log_in().open_channel(1)
        client.call(1, "queue.declare", queue=stream, durable=True, arguments=STREAM)
        fill(client, stream, 6)
        client.open_channel(2)
        assert Reader(client, stream, named, channel=2).bodies(4) == [b"0", b"1", b"2", b"3"]
        # Acks are written soon, not at once: something that is confirmed later shows that they are.
        time.sleep(0.05)
        client.publish(1, "", stream, b"6")
        while client.read().name != "basic.ack":
            pass
    server_process.kill()
    server_process.start()
    with RawClient(server_process.host, server_process.port) as client:
        client.log_in().open_channel(1)
        assert Reader(client, stream, named).bodies(3) == [b"4", b"5", b"6"]


# ---- each message once


def test_a_producer_with_a_name_publishes_each_id_once(server_process: RestartableTarget) -> None:
    stream = unique_name("stream")

    def publish(client: RawClient, ids: range) -> None:
        publisher = Publisher(client)
        for i in ids:
            headers = {"x-producer-name": "shop", "x-publishing-id": i}
            assert publisher.publish(stream, str(i).encode(), headers=headers) == "ack"

    with RawClient(server_process.host, server_process.port) as client:
        client.log_in().open_channel(1)
        client.call(1, "queue.declare", queue=stream, durable=True, arguments=STREAM)
        publish(client, range(5))
        publish(client, range(3, 7))
    server_process.kill()
    server_process.start()
    with RawClient(server_process.host, server_process.port) as client:
        client.log_in().open_channel(1)
        publish(client, range(9))
        client.open_channel(2)
        reader = Reader(client, stream, {"x-stream-offset": "first"}, channel=2)
        assert reader.bodies(9) == [str(i).encode() for i in range(9)]
        client.expect_quiet()


def test_ids_of_different_producers_and_messages_without_one(client: RawClient, topology: Topology) -> None:
    stream = make_stream(client, topology)
    publisher = Publisher(client)
    for name, number in (("a", 1), ("b", 1), ("a", 1), ("a", 2), ("b", 0)):
        publisher.publish(
            stream, f"{name}{number}".encode(), headers={"x-producer-name": name, "x-publishing-id": number}
        )
    publisher.publish(stream, b"plain", headers={"x-publishing-id": 1})
    publisher.publish(stream, b"text", headers={"x-producer-name": "a", "x-publishing-id": "1"})
    client.open_channel(2)
    reader = Reader(client, stream, {"x-stream-offset": "first"}, channel=2)
    assert reader.bodies(5) == [b"a1", b"b1", b"a2", b"plain", b"text"]


# ---- groups


def test_one_of_a_group_reads_and_the_next_follows(connect: Connect, topology: Topology) -> None:
    first, second, publishing = connect(), connect(), connect()
    stream = make_stream(first, topology)
    member = {"x-stream-consumer-name": "group", "x-single-active-consumer": True, "x-stream-offset": "first"}
    fill(publishing, stream, 4)
    reader = Reader(first, stream, member)
    letters = reader.take(4)
    standby = Reader(second, stream, member)
    second.expect_quiet()
    reader.ack(letters[1], multiple=True)
    first.call(1, "basic.cancel", consumer_tag="r")
    # From what was done with on, so nothing is lost.
    assert standby.bodies(2) == [b"2", b"3"]


def test_members_share_the_partitions_of_a_super_stream(connect: Connect, topology: Topology) -> None:
    first, second, publishing = connect(), connect(), connect()
    exchange = topology.exchange(publishing, "x-super-stream", durable=True, arguments={"x-super-stream": True})
    partitions = [make_stream(publishing, topology) for _ in range(2)]
    for i, partition in enumerate(partitions):
        order = {"x-stream-partition-order": i}
        publishing.call(1, "queue.bind", queue=partition, exchange=exchange, routing_key=str(i), arguments=order)
    member = {"x-stream-consumer-name": "group", "x-single-active-consumer": True, "x-stream-offset": "first"}
    for client in (first, second):
        client.open_channel(2)
    readers = [
        [Reader(client, partition, member, channel=i + 1) for i, partition in enumerate(partitions)]
        for client in (first, second)
    ]
    for i, partition in enumerate(partitions):
        assert Publisher(publishing).publish(partition, str(i).encode()) == "ack"
    assert readers[0][0].bodies(1) == [b"0"]
    assert readers[1][1].bodies(1) == [b"1"]
    first.expect_quiet()
    # The first leaves: the other has both from now on, behind what the first was done with.
    first.log_out()
    assert Publisher(publishing).publish(partitions[0], b"more") == "ack"
    assert readers[1][0].bodies(1) == [b"more"]


# ---- what is refused


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"x-stream-stop-offset": -1}, "x-stream-stop-offset"),
        ({"x-stream-stop-offset": "5"}, "x-stream-stop-offset"),
        ({"x-stream-filter": 5}, "x-stream-filter"),
        ({"x-stream-filter": []}, "x-stream-filter"),
        ({"x-stream-filter": "x" * 256}, "x-stream-filter"),
        ({"x-stream-filter": ["a"] * 65}, "x-stream-filter"),
        ({"x-stream-match-unfiltered": 1}, "x-stream-match-unfiltered"),
        ({"x-stream-consumer-name": ""}, "x-stream-consumer-name"),
        ({"x-stream-consumer-name": "x" * 256}, "x-stream-consumer-name"),
        ({"x-single-active-consumer": True}, "x-single-active-consumer"),
        ({"x-stream-query": "yes"}, "x-stream-query"),
        ({"x-stream-producers": "a"}, "x-stream-producers"),
        ({"x-stream-producers": "", "x-stream-query": True}, "x-stream-producers"),
        ({"x-stream-offset": "First"}, "x-stream-offset"),
        ({"x-stream-offset": True}, "x-stream-offset"),
    ],
)
def test_bad_arguments(client: RawClient, topology: Topology, arguments: Table, name: str) -> None:
    stream = make_stream(client, topology)
    client.call(1, "basic.qos", prefetch_count=1)
    refusal = refusal_of(client, "basic.consume", queue=stream, arguments=arguments)
    assert isinstance(refusal, Refusal)
    assert (refusal.scope, refusal.code) == ("channel", 406)
    assert refusal.text.startswith(f"PRECONDITION_FAILED - invalid arg '{name}' for queue '{stream}' in vhost '/'")


# ---- from queues


def test_dead_letters_go_into_a_stream(client: RawClient, topology: Topology) -> None:
    stream = make_stream(client, topology)
    dying = topology.queue(
        client,
        durable=True,
        exclusive=False,
        arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": stream},
    )
    assert Publisher(client).publish(dying, b"bad", delivery_mode=2) == "ack"
    letter = client.call(1, "basic.get", queue=dying)
    client.send(1, "basic.reject", delivery_tag=letter["delivery_tag"], requeue=False)
    client.open_channel(2)
    (found,) = Reader(client, stream, {"x-stream-offset": "first"}, channel=2).take(1)
    assert found.body == b"bad"
    assert found.properties["headers"]["x-death"][0]["reason"] == "rejected"
