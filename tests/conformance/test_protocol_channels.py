"""A channel's life: opened, used, closed by either side, opened again."""

import pytest

from tests.conformance.amqp_methods import METHODS
from tests.conformance.conftest import Connect
from tests.conformance.raw_client import RawClient, Refusal
from tests.conformance.topology import Topology, counts, drain, publish_all, refusal_of, wait_for, wait_for_counts


@pytest.mark.parametrize("name", ["queue.declare", "basic.publish", "channel.close", "channel.close-ok", "tx.select"])
def test_methods_on_an_unopened_channel(client: RawClient, name: str) -> None:
    client.send(5, name)
    if name == "basic.publish":
        # A method is looked at when its content is whole.
        client.send_content(5, b"", b"\0\0")
    assert client.refusal() == Refusal("connection", 504, "CHANNEL_ERROR - expected 'channel.open'", *METHODS[name][:2])
    client.expect_eof()


def test_opening_an_open_channel(client: RawClient) -> None:
    client.send(1, "channel.open")
    assert client.refusal() == Refusal("connection", 504, "CHANNEL_ERROR - second 'channel.open' seen", 20, 10)
    client.expect_eof()


@pytest.mark.parametrize("name", ["channel.open", "queue.declare", "basic.ack"])
def test_channel_methods_on_channel_zero(client: RawClient, name: str) -> None:
    client.send(0, name)
    text = "CHANNEL_ERROR - unexpected method in connection state running"
    assert client.refusal() == Refusal("connection", 504, text, *METHODS[name][:2])
    client.expect_eof()


@pytest.mark.parametrize(
    "name", ["connection.open", "connection.close", "queue.declare-ok", "channel.close-ok", "basic.get-empty"]
)
def test_methods_a_client_cannot_send_on_a_channel(client: RawClient, name: str) -> None:
    client.send(1, name)
    text = "COMMAND_INVALID - unimplemented method"
    assert client.refusal() == Refusal("connection", 503, text, *METHODS[name][:2])
    client.expect_eof()


def test_a_channel_closed_by_the_client_can_be_opened_again(client: RawClient) -> None:
    for _ in range(3):
        client.call(1, "channel.close", reply_code=200)
        client.open_channel(1)
    client.call(1, "queue.declare", exclusive=True)


def test_a_closed_channel_is_unopened(client: RawClient) -> None:
    client.call(1, "channel.close")
    client.send(1, "queue.declare")
    assert client.refusal() == Refusal("connection", 504, "CHANNEL_ERROR - expected 'channel.open'", 50, 10)


def test_a_channel_error_leaves_the_other_channels_alone(client: RawClient, topology: Topology) -> None:
    client.open_channel(2)
    queue = topology.queue(client, channel=2)
    assert refusal_of(client, "basic.ack", delivery_tag=9).scope == "channel"
    assert counts(client, queue, channel=2) == (0, 0)


def test_a_channel_closed_by_the_broker_can_be_opened_again_after_close_ok(client: RawClient) -> None:
    for _ in range(3):
        assert refusal_of(client, "basic.ack", delivery_tag=9).code == 406
        client.open_channel(1)


def test_what_comes_between_close_and_close_ok_is_ignored(client: RawClient, topology: Topology) -> None:
    client.open_channel(2)
    queue = topology.queue(client, channel=2)
    client.send(1, "basic.ack", delivery_tag=9)
    client.expect(1, "channel.close")
    client.send(1, "queue.declare", queue="amq.not-even-looked-at")
    client.publish(1, "", queue, b"ignored")
    client.send(1, "basic.consume", queue=queue)
    client.expect_quiet()
    client.send(1, "channel.close-ok")
    client.open_channel(1)
    assert counts(client, queue, channel=2) == (0, 0)


def test_closes_that_cross_are_both_answered(client: RawClient) -> None:
    client.send(1, "basic.ack", delivery_tag=9)
    client.expect(1, "channel.close")
    client.call(1, "channel.close", reply_code=200)
    client.send(1, "channel.close-ok")
    client.open_channel(1)


def test_a_channel_cannot_be_opened_before_close_ok(client: RawClient) -> None:
    client.send(1, "basic.ack", delivery_tag=9)
    client.expect(1, "channel.close")
    client.send(1, "channel.open")
    assert client.refusal() == Refusal("connection", 504, "CHANNEL_ERROR - second 'channel.open' seen", 20, 10)


def test_channel_max_bounds_the_number_of_open_channels(connect: Connect) -> None:
    client = connect(channel_max=2)
    client.open_channel(2)
    client.send(3, "channel.open")
    assert client.refusal() == Refusal(
        "connection",
        530,
        "NOT_ALLOWED - number of channels opened (2) has reached the negotiated channel_max (2)",
        0,
        0,
    )
    client.expect_eof()


def test_a_closed_channel_makes_room_for_another(connect: Connect) -> None:
    client = connect(channel_max=2)
    client.open_channel(2)
    client.call(1, "channel.close")
    client.open_channel(1)
    client.call(2, "channel.close")
    client.open_channel(2)


def test_many_channels(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    for number in range(2, 102):
        client.open_channel(number)
        client.publish(number, "", queue, b"%d" % number)
    wait_for("every channel's message", lambda: counts(client, queue)[0] == 100)
    assert sorted(drain(client, queue), key=int) == [b"%d" % number for number in range(2, 102)]


def test_closing_a_channel_returns_its_messages_and_consumers(client: RawClient, topology: Topology) -> None:
    client.open_channel(2)
    queue = topology.queue(client)
    publish_all(client, queue, [b"a", b"b"])
    client.call(2, "basic.get", queue=queue)
    client.call(2, "basic.consume", queue=queue)
    client.expect(2, "basic.deliver")
    wait_for_counts(client, queue, 0, 1)
    client.call(2, "channel.close")
    wait_for_counts(client, queue, 2, 0)


def test_flow_can_be_asked_to_go_on(client: RawClient) -> None:
    assert client.call(1, "channel.flow", active=True)["active"] is True
