"""`channel.flow`: RabbitMQ refuses to pause (540); Leveret pauses the channel's deliveries as the protocol says."""

from tests.conformance.raw_client import RawClient
from tests.conformance.topology import Topology, bodies_of, deliveries, publish_all


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_a_paused_channel_gets_no_deliveries(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    client.call(1, "basic.consume", queue=queue)
    assert client.call(1, "channel.flow", active=False)["active"] is False
    publish_all(client, queue, numbered(5))
    client.expect_quiet()
    assert client.call(1, "channel.flow", active=True)["active"] is True
    assert bodies_of(deliveries(client, 5)) == numbered(5)


def test_other_channels_go_on(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    client.open_channel(2)
    for channel in (1, 2):
        client.call(channel, "basic.consume", queue=queue)
    client.call(1, "channel.flow", active=False)
    for body in numbered(4):
        client.publish(2, "", queue, body)
    assert bodies_of(deliveries(client, 4, channel=2)) == numbered(4)


def test_a_paused_channel_may_still_get_publish_and_acknowledge(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    client.call(1, "channel.flow", active=False)
    client.publish(1, "", queue, b"kept")
    got = client.call(1, "basic.get", queue=queue)
    assert got.body == b"kept"
    client.send(1, "basic.ack", delivery_tag=got["delivery_tag"])
    assert client.call(1, "basic.get", queue=queue).name == "basic.get-empty"


def test_pausing_twice_is_pausing_once(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    client.call(1, "basic.consume", queue=queue)
    for _ in range(2):
        client.call(1, "channel.flow", active=False)
    client.call(1, "channel.flow", active=True)
    client.publish(1, "", queue, b"through")
    assert client.expect(1, "basic.deliver").body == b"through"


def test_messages_wait_for_others_and_not_for_the_paused_channel(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    client.open_channel(2)
    client.call(1, "basic.consume", queue=queue)
    client.call(1, "channel.flow", active=False)
    publish_all(client, queue, numbered(1))
    assert client.call(2, "basic.get", queue=queue).body == b"0"
