"""What jobs need of a stream that read it in ranges and keep their place elsewhere: when each message came, and how far
they are, told to the broker for people to see."""

import time

import pytest

from tests.conformance.amqp_codec import Typed
from tests.conformance.raw_client import RawClient, Refusal
from tests.conformance.target import RestartableTarget
from tests.conformance.topology import Topology, refusal_of, unique_name
from tests.contract.letters import Publisher, Table
from tests.contract.streams import STREAM, make_stream


def ask(client: RawClient, stream: str, arguments: Table) -> Table:
    client.call(1, "basic.consume", queue=stream, consumer_tag="ask", arguments={"x-stream-query": True, **arguments})
    answer = client.expect(1, "basic.deliver")
    assert client.expect(1, "basic.cancel")["consumer_tag"] == "ask"
    return dict(answer.properties["headers"])


def read(client: RawClient, stream: str, count: int, arguments: Table) -> list[Table]:
    """The headers of the next messages."""
    client.call(1, "basic.qos", prefetch_count=count)
    arguments = {"x-stream-offset": "first", **arguments}
    client.call(1, "basic.consume", queue=stream, consumer_tag="r", arguments=arguments)
    found = [dict(client.expect(1, "basic.deliver").properties["headers"]) for _ in range(count)]
    client.call(1, "basic.cancel", consumer_tag="r")
    return found


def test_messages_say_when_they_came(client: RawClient, topology: Topology) -> None:
    stream = make_stream(client, topology)
    publisher = Publisher(client)
    before = 1000 * int(time.time())
    publisher.publish(stream, b"plain")
    publisher.publish(stream, b"with headers", headers={"a": 1}, message_id="m")
    publisher.publish(stream, b"long" * 50_000, headers={"a": 1})
    publisher.publish(stream, b"a liar", headers={"x-stream-timestamp": Typed(b"l", 5), "x-stream-offset": 77})
    after = 1000 * int(time.time() + 1)
    found = read(client, stream, 4, {"x-stream-timestamps": True})
    assert [headers["x-stream-offset"] for headers in found] == [0, 1, 2, 3]
    stamps = [headers.pop("x-stream-timestamp") for headers in found]
    assert stamps == sorted(stamps)
    assert all(before <= stamp <= after for stamp in stamps)
    assert [headers.get("a") for headers in found] == [None, 1, 1, None]
    # Nobody gets it who has not asked for it; what a publisher wrote there is his own then.
    plain = read(client, stream, 4, {})
    assert [headers.get("x-stream-timestamp") for headers in plain] == [None, None, None, 5]
    assert read(client, stream, 1, {"x-stream-timestamps": False}) == [{"x-stream-offset": 0}]


def test_how_far_a_reader_is_can_be_told_and_asked(client: RawClient, topology: Topology) -> None:
    stream = make_stream(client, topology)
    publisher = Publisher(client)
    for number in range(10):
        publisher.publish(stream, b"%d" % number)
    job: Table = {"x-stream-consumer-name": "job"}
    assert "x-stream-stored-offset" not in ask(client, stream, job)
    told = ask(client, stream, {**job, "x-stream-store-offset": 6})
    assert (told["x-stream-stored-offset"], told["x-stream-last-offset"]) == (6, 9)
    assert ask(client, stream, job)["x-stream-stored-offset"] == 6
    assert "x-stream-stored-offset" not in ask(client, stream, {})
    assert "x-stream-stored-offset" not in ask(client, stream, {"x-stream-consumer-name": "another"})
    # It may go back, as a job does that begins anew.
    assert ask(client, stream, {**job, "x-stream-store-offset": 3})["x-stream-stored-offset"] == 3
    # A consumer of that name goes on behind it, as after acks.
    assert [headers["x-stream-offset"] for headers in read(client, stream, 2, job)] == [4, 5]


def test_what_was_told_survives_a_kill(server_process: RestartableTarget) -> None:
    stream = unique_name("stream")
    with RawClient(server_process.host, server_process.port) as client:
        client.log_in().open_channel(1)
        client.call(1, "queue.declare", queue=stream, durable=True, arguments=STREAM)
        publisher = Publisher(client)
        publisher.publish(stream, b"0")
        ask(client, stream, {"x-stream-consumer-name": "job", "x-stream-store-offset": 0})
        # It is written soon, not at once: something that is confirmed later shows that it is.
        time.sleep(0.05)
        publisher.publish(stream, b"1")
    server_process.kill()
    server_process.start()
    with RawClient(server_process.host, server_process.port) as client:
        client.log_in().open_channel(1)
        assert ask(client, stream, {"x-stream-consumer-name": "job"})["x-stream-stored-offset"] == 0


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"x-stream-timestamps": "yes"}, "x-stream-timestamps"),
        ({"x-stream-timestamps": 1}, "x-stream-timestamps"),
        ({"x-stream-store-offset": -1}, "x-stream-store-offset"),
        ({"x-stream-store-offset": "5"}, "x-stream-store-offset"),
        ({"x-stream-store-offset": Typed(b"l", (1 << 63) - 1)}, "x-stream-store-offset"),
        # It belongs to a question, and somebody must have asked it.
        ({"x-stream-store-offset": 5, "x-stream-consumer-name": "job"}, "x-stream-store-offset"),
        ({"x-stream-store-offset": 5, "x-stream-query": True}, "x-stream-store-offset"),
    ],
)
def test_bad_arguments(client: RawClient, topology: Topology, arguments: Table, name: str) -> None:
    stream = make_stream(client, topology)
    client.call(1, "basic.qos", prefetch_count=1)
    refusal = refusal_of(client, "basic.consume", queue=stream, arguments=arguments)
    assert isinstance(refusal, Refusal)
    assert (refusal.scope, refusal.code) == ("channel", 406)
    assert refusal.text.startswith(f"PRECONDITION_FAILED - invalid arg '{name}' for queue '{stream}' in vhost '/'")
