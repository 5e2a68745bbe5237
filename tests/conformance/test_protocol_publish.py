"""Publishing: returns, confirms, and bodies of every size."""

import pytest

from tests.conformance.conftest import Connect
from tests.conformance.raw_client import Method, RawClient
from tests.conformance.topology import Topology, drain, unique_name


def confirmed(client: RawClient, count: int, channel: int = 1) -> list[int]:
    """The numbers that are confirmed one way or the other until `count` of them are."""
    numbers: list[int] = []
    while len(numbers) < count:
        ack = client.expect(channel, "basic.ack")
        tag = ack["delivery_tag"]
        # Multiple means every number up to the tag that was not confirmed alone.
        numbers += [n for n in range(1, tag + 1) if n not in numbers] if ack["multiple"] else [tag]
    return numbers


def test_an_unroutable_message_is_dropped_in_silence(client: RawClient) -> None:
    client.publish(1, "amq.direct", unique_name("nobody"), b"lost")
    client.expect_quiet()


def test_a_mandatory_unroutable_message_is_returned(client: RawClient) -> None:
    key = unique_name("nobody")
    properties = {"message_id": "1", "headers": {"a": [1, {"b": None}]}}
    client.publish(1, "amq.direct", key, b"the body", properties, mandatory=True)
    returned = client.expect(1, "basic.return")
    assert returned.fields == {
        "reply_code": 312,
        "reply_text": "NO_ROUTE",
        "exchange": "amq.direct",
        "routing_key": key,
    }
    assert (returned.body, returned.properties) == (b"the body", properties)


def test_a_mandatory_routable_message_is_not_returned(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    client.publish(1, "", queue, b"fine", mandatory=True)
    client.expect_quiet()
    assert drain(client, queue) == [b"fine"]


def test_the_return_comes_before_the_confirm(client: RawClient) -> None:
    client.call(1, "confirm.select")
    for number in range(1, 6):
        client.publish(1, "", unique_name("nobody"), b"%d" % number, mandatory=True)
    seen: list[Method] = []
    while not any(method.name == "basic.ack" and method["delivery_tag"] == 5 for method in seen):
        seen.append(client.expect(1, "basic.return", "basic.ack"))
    returned = 0
    for method in seen:
        if method.name == "basic.return":
            returned += 1
            assert method.body == b"%d" % returned
        else:
            # Whatever is confirmed must have been returned already.
            assert method["delivery_tag"] <= returned


@pytest.mark.parametrize("durable", [False, True])
def test_confirms_count_from_one(client: RawClient, topology: Topology, durable: bool) -> None:
    queue = topology.queue(client, durable=durable)
    client.publish(1, "", queue, b"before")
    client.call(1, "confirm.select")
    for number in range(20):
        client.publish(1, "", queue, b"%d" % number, {"delivery_mode": 2 if durable else 1})
    assert sorted(confirmed(client, 20)) == list(range(1, 21))
    client.expect_quiet()


def test_confirms_count_per_channel(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    client.open_channel(2)
    for channel in (1, 2):
        client.call(channel, "confirm.select")
        client.publish(channel, "", queue)
        assert confirmed(client, 1, channel) == [1]


def test_many_confirms_all_come(client: RawClient, topology: Topology) -> None:
    """However they are coalesced, each number is confirmed exactly once."""
    queue = topology.queue(client, durable=True)
    client.call(1, "confirm.select")
    for number in range(1000):
        client.publish(1, "", queue, b"%d" % number, {"delivery_mode": 2})
    numbers = confirmed(client, 1000)
    assert sorted(numbers) == list(range(1, 1001))
    client.expect_quiet()


def test_an_unroutable_message_is_confirmed(client: RawClient) -> None:
    client.call(1, "confirm.select")
    client.publish(1, "amq.direct", unique_name("nobody"))
    assert client.expect(1, "basic.ack").fields == {"delivery_tag": 1, "multiple": False}


def test_selecting_confirms_again_does_not_start_anew(client: RawClient) -> None:
    client.call(1, "confirm.select")
    client.publish(1, "amq.direct", unique_name("nobody"))
    assert client.expect(1, "basic.ack")["delivery_tag"] == 1
    client.call(1, "confirm.select")
    client.publish(1, "amq.direct", unique_name("nobody"))
    assert client.expect(1, "basic.ack")["delivery_tag"] == 2


def test_confirm_select_without_an_answer(client: RawClient) -> None:
    client.send(1, "confirm.select", nowait=True)
    client.publish(1, "amq.direct", unique_name("nobody"))
    assert client.expect(1, "basic.ack")["delivery_tag"] == 1


def test_outstanding_confirms_are_settled_before_close_ok(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    client.call(1, "confirm.select")
    for _ in range(100):
        client.publish(1, "", queue)
    client.send(1, "channel.close", reply_code=200)
    numbers: set[int] = set()
    while (method := client.expect(1, "basic.ack", "channel.close-ok")).name == "basic.ack":
        tag = method["delivery_tag"]
        numbers |= set(range(1, tag + 1)) if method["multiple"] else {tag}
    # What was not confirmed may still have arrived, but what was confirmed has.
    client.open_channel(1)
    assert len(drain(client, queue)) >= len(numbers)


def test_a_failed_publish_is_never_confirmed(client: RawClient) -> None:
    client.call(1, "confirm.select")
    client.publish(1, "amq.direct", unique_name("nobody"))
    client.publish(1, unique_name("nowhere"), "key")
    client.publish(1, "amq.direct", unique_name("nobody"))
    names = [client.read() for _ in range(2)]
    assert [(method.name, method.fields.get("delivery_tag")) for method in names] == [
        ("basic.ack", 1),
        ("channel.close", None),
    ]
    client.send(1, "channel.close-ok")
    client.expect_quiet()


def test_an_empty_body(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    client.publish(1, "", queue, b"", {"type": "empty"})
    delivered = client.call(1, "basic.get", queue=queue)
    assert (delivered.body, delivered.body_frame_sizes, delivered.properties) == (b"", (), {"type": "empty"})


@pytest.mark.parametrize("frame_max", [4096, 131072])
@pytest.mark.parametrize("frames", [1, 2, 3])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_bodies_around_the_size_of_a_frame(
    connect: Connect, topology: Topology, frame_max: int, frames: int, more: int
) -> None:
    client = connect(frame_max=frame_max)
    room = frame_max - 8
    body = bytes(n % 251 for n in range(frames * room + more))
    queue = topology.queue(client)
    client.publish(1, "", queue, body)
    delivered = client.call(1, "basic.get", queue=queue)
    assert delivered.body == body
    # Every frame is full but the last.
    full, rest = divmod(len(body), room)
    assert delivered.body_frame_sizes == (room,) * full + ((rest,) if rest else ())


def test_each_connection_has_its_own_frame_size(connect: Connect, topology: Topology) -> None:
    wide, narrow = connect(), connect(frame_max=4096)
    queue = topology.queue(narrow)
    body = b"x" * 100_000
    wide.publish(1, "", queue, body)
    wide.call(1, "channel.close")
    delivered = narrow.call(1, "basic.get", queue=queue)
    assert (delivered.body, max(delivered.body_frame_sizes)) == (body, 4088)


@pytest.mark.parametrize("size", [1 << 20, (5 << 20) + 3])
def test_large_bodies(client: RawClient, topology: Topology, size: int) -> None:
    queue = topology.queue(client)
    body = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    client.call(1, "basic.consume", queue=queue, no_ack=True)
    for _ in range(3):
        client.publish(1, "", queue, body)
        assert client.expect(1, "basic.deliver").body == body


def test_a_body_may_come_in_small_frames(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    client.frame_max = 18
    client.publish(1, "", queue, b"0123456789" * 100)
    delivered = client.call(1, "basic.get", queue=queue)
    assert (delivered.body, delivered.body_frame_sizes) == (b"0123456789" * 100, (1000,))


def test_messages_keep_their_order(connect: Connect, topology: Topology) -> None:
    publisher, consumer = connect(), connect()
    queue = topology.queue(consumer)
    consumer.call(1, "basic.consume", queue=queue, no_ack=True)
    for number in range(500):
        publisher.publish(1, "", queue, b"%d" % number)
    assert [int(consumer.expect(1, "basic.deliver").body) for _ in range(500)] == list(range(500))
