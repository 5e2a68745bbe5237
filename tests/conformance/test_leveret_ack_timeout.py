"""Acknowledgement timeouts: only the late message goes back and the channel lives on. RabbitMQ has one timeout for the
whole node, looks once a minute, and closes the channel, which Leveret does if it is told to."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from leveret.testing import Broker
from tests.conformance.raw_client import RawClient, Refusal
from tests.conformance.topology import Topology, deliveries, publish_all, refusal_of

TIMEOUT_MS = 200
# One interval of the watch, and what a busy machine may add.
LATE_MS_MAX = 25 + 200
TIMEOUT = {"x-consumer-timeout": TIMEOUT_MS}


@contextmanager
def connected(settings: dict[str, object]) -> Iterator[tuple[Broker, RawClient]]:
    with Broker(settings) as broker, ExitStack() as stack:
        client = stack.enter_context(RawClient(broker.host, broker.port)).log_in()
        client.open_channel(1)
        yield broker, client


def core_channel(broker: Broker, read: Callable[[Any], Any], number: int = 1) -> Any:
    """Reads something of a compiled channel of the broker's only connection, on the broker's thread."""

    def find(node: Any) -> Any:
        (session,) = node.broker.connections.values()
        return read(session.channel_sessions[number].core)

    return broker.call(find)


# ---- one consumer's timeout


def test_a_late_message_comes_again_and_not_early(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    publish_all(client, queue, [b"slow"])
    client.send(1, "basic.consume", queue=queue, arguments=TIMEOUT)
    client.expect(1, "basic.consume-ok")
    first = client.expect(1, "basic.deliver")
    started = time.monotonic()
    again = client.expect(1, "basic.deliver")
    waited_ms = (time.monotonic() - started) * 1000
    assert (first["redelivered"], again["redelivered"], again.body) == (False, True, b"slow")
    assert again["delivery_tag"] == 2
    # The client's watch began a little after the broker's.
    assert TIMEOUT_MS - 20 <= waited_ms <= TIMEOUT_MS + LATE_MS_MAX


def test_what_was_acknowledged_in_time_does_not(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    publish_all(client, queue, [b"1", b"2", b"3"])
    client.call(1, "basic.consume", queue=queue, arguments=TIMEOUT)
    deliveries(client, 3)
    for tag in (1, 3):
        client.send(1, "basic.ack", delivery_tag=tag)
    again = client.expect(1, "basic.deliver")
    assert (again.body, again["redelivered"]) == (b"2", True)
    client.send(1, "basic.ack", delivery_tag=again["delivery_tag"])
    client.expect_quiet(2 * TIMEOUT_MS / 1000)


def test_only_the_late_consumers_message_returns_and_another_gets_it(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    client.open_channel(2)
    for channel, arguments in ((1, TIMEOUT), (2, {})):
        client.call(channel, "basic.qos", prefetch_count=1)
        client.call(channel, "basic.consume", queue=queue, arguments=arguments)
    client.open_channel(3)
    for body in (b"1", b"2"):
        client.publish(3, "", queue, body)
    held = {method.channel: method for method in (client.read(), client.read())}
    assert set(held) == {1, 2}
    client.send(2, "basic.qos", prefetch_count=2)
    client.expect(2, "basic.qos-ok")
    client.send(1, "channel.flow", active=False)
    client.expect(1, "channel.flow-ok")
    client.expect_quiet(2 * TIMEOUT_MS / 1000)
    client.send(2, "basic.ack", delivery_tag=held[2]["delivery_tag"])
    again = client.expect(2, "basic.deliver")
    assert (again.body, again["redelivered"]) == (held[1].body, True)


def test_the_channel_stays_usable_and_a_late_ack_is_ignored(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    publish_all(client, queue, [b"slow"])
    client.call(1, "basic.consume", queue=queue, arguments=TIMEOUT)
    deliveries(client, 2)
    client.send(1, "basic.ack", delivery_tag=1)
    client.call(1, "basic.cancel", consumer_tag="nobody")
    client.send(1, "basic.ack", delivery_tag=2)
    client.expect_quiet()
    # Once: then the tag is as unknown as any.
    client.send(1, "basic.ack", delivery_tag=1)
    text = "PRECONDITION_FAILED - unknown delivery tag 1"
    assert client.refusal() == Refusal("channel", 406, text, 60, 80)


@pytest.mark.parametrize("method", ["basic.nack", "basic.reject"])
def test_a_late_rejection_is_ignored(client: RawClient, topology: Topology, method: str) -> None:
    queue = topology.queue(client)
    publish_all(client, queue, [b"slow"])
    client.call(1, "basic.consume", queue=queue, arguments=TIMEOUT)
    deliveries(client, 2)
    client.send(1, method, delivery_tag=1)
    assert client.expect(1, "basic.deliver").body == b"slow"


def test_a_late_ack_of_many_settles_the_rest(client: RawClient, topology: Topology) -> None:
    patient, hasty = topology.queue(client), topology.queue(client)
    publish_all(client, patient, [b"patient"])
    publish_all(client, hasty, [b"hasty"])
    client.call(1, "basic.consume", queue=patient)
    client.expect(1, "basic.deliver")
    client.call(1, "basic.consume", queue=hasty, arguments=TIMEOUT)
    client.expect(1, "basic.deliver")
    assert client.expect(1, "basic.deliver")["delivery_tag"] == 3
    client.send(1, "basic.ack", delivery_tag=2, multiple=True)
    client.call(1, "basic.recover", requeue=True)
    assert client.expect(1, "basic.deliver").body == b"hasty"
    client.send(1, "basic.ack", delivery_tag=0, multiple=True)
    client.expect_quiet()


def test_a_timeout_makes_room_in_the_prefetch(client: RawClient, topology: Topology) -> None:
    """Another consumer takes the late message, and the late consumer the next one."""
    queue = topology.queue(client)
    client.call(1, "basic.qos", prefetch_count=1)
    client.call(1, "basic.consume", queue=queue, consumer_tag="late", arguments=TIMEOUT)
    client.publish(1, "", queue, b"slow")
    client.expect(1, "basic.deliver")
    client.open_channel(2)
    client.call(2, "basic.consume", queue=queue, no_ack=True, arguments={"x-priority": 5})
    assert client.expect(2, "basic.deliver").body == b"slow"
    client.call(2, "basic.cancel", consumer_tag="nobody")
    client.send(2, "channel.flow", active=False)
    client.expect(2, "channel.flow-ok")
    client.publish(1, "", queue, b"next")
    assert client.expect(1, "basic.deliver").body == b"next"


def test_consumers_of_one_channel_have_their_own_timeouts(client: RawClient, topology: Topology) -> None:
    names = {}
    client.call(1, "basic.qos", prefetch_count=1)
    for timeout_ms in (0, 600, 150):
        names[timeout_ms] = queue = topology.queue(client)
        publish_all(client, queue, [b"%d" % timeout_ms])
        client.send(1, "basic.consume", queue=queue, arguments={"x-consumer-timeout": timeout_ms}, nowait=True)
        client.expect(1, "basic.deliver")
    seen = []
    deadline = time.monotonic() + 1.0
    while (left := deadline - time.monotonic()) > 0:
        client.socket.settimeout(left)
        try:
            method = client.read()
        except TimeoutError:
            break
        seen.append(method.body)
    client.socket.settimeout(20)
    assert b"0" not in seen
    assert seen.count(b"600") == 1
    assert 3 <= seen.count(b"150") <= 6


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (-1, "{value_negative,-1}"),
        ("soon", '"expected integer, got longstr"'),
        (True, '"expected integer, got bool"'),
        (315360000001, "{value_too_large,315360000001}"),
    ],
)
def test_an_argument_that_is_no_timeout_is_refused(
    client: RawClient, topology: Topology, value: Any, reason: str
) -> None:
    queue = topology.queue(client)
    refusal = refusal_of(client, "basic.consume", queue=queue, arguments={"x-consumer-timeout": value})
    text = f"PRECONDITION_FAILED - invalid arg 'x-consumer-timeout' for queue '{queue}' in vhost '/': {reason}"
    assert refusal == Refusal("channel", 406, text, 60, 20)


# ---- the node's timeout


def test_the_nodes_timeout_is_for_consumers_and_gets_that_have_no_other() -> None:
    with connected({"limits.ack_timeout_ms": TIMEOUT_MS}) as (broker, client):
        for name in ("consumed", "got", "exempt"):
            client.call(1, "queue.declare", queue=name)
            client.publish(1, "", name, name.encode())
        assert client.call(1, "basic.get", queue="got").body == b"got"
        client.call(1, "basic.consume", queue="exempt", arguments={"x-consumer-timeout": 0})
        assert client.expect(1, "basic.deliver").body == b"exempt"
        client.call(1, "basic.consume", queue="consumed")
        assert client.expect(1, "basic.deliver")["redelivered"] is False
        again = client.expect(1, "basic.deliver")
        assert (again.body, again["redelivered"]) == (b"consumed", True)
        client.send(1, "basic.ack", delivery_tag=again["delivery_tag"])
        client.expect_quiet(2 * TIMEOUT_MS / 1000)
        got = client.call(1, "basic.get", queue="got")
        assert (got.body, got["redelivered"]) == (b"got", True)
        assert core_channel(broker, lambda channel: (channel.timed_out_total, channel.late_acks_total)) == (2, 0)
        client.send(1, "basic.ack", delivery_tag=1)
        client.call(1, "basic.qos", prefetch_count=1)
        assert core_channel(broker, lambda channel: channel.late_acks_total) == 1


def test_a_get_without_acks_and_a_get_acknowledged_in_time_are_left_alone() -> None:
    with connected({"limits.ack_timeout_ms": TIMEOUT_MS}) as (broker, client):
        client.call(1, "queue.declare", queue="q")
        client.publish(1, "", "q", b"1")
        client.publish(1, "", "q", b"2")
        client.call(1, "basic.get", queue="q", no_ack=True)
        client.send(1, "basic.ack", delivery_tag=client.call(1, "basic.get", queue="q")["delivery_tag"])
        client.expect_quiet(2 * TIMEOUT_MS / 1000)
        assert client.call(1, "basic.get", queue="q").name == "basic.get-empty"
        assert core_channel(broker, lambda channel: channel.timed_out_total) == 0


def test_acks_of_an_open_transaction_are_in_time_until_it_is_rolled_back() -> None:
    with connected({"limits.ack_timeout_ms": TIMEOUT_MS}) as (broker, client):
        client.call(1, "queue.declare", queue="q")
        client.publish(1, "", "q", b"1")
        client.publish(1, "", "q", b"2")
        client.call(1, "tx.select")
        client.call(1, "basic.consume", queue="q")
        deliveries(client, 2)
        client.send(1, "basic.ack", delivery_tag=2, multiple=True)
        client.expect_quiet(2 * TIMEOUT_MS / 1000)
        client.call(1, "tx.rollback")
        assert [method.body for method in deliveries(client, 2)] == [b"1", b"2"]
        # Too late for the first deliveries, in time for the second ones, which it covers as well.
        client.send(1, "basic.ack", delivery_tag=4, multiple=True)
        client.call(1, "tx.commit")
        client.expect_quiet(2 * TIMEOUT_MS / 1000)
        assert core_channel(broker, lambda channel: (channel.timed_out_total, channel.late_acks_total)) == (2, 2)


def test_a_queues_timeout_goes_over_the_nodes_and_may_come_while_messages_are_held() -> None:
    with connected({}) as (broker, client):
        client.call(1, "queue.declare", queue="q")
        client.publish(1, "", "q", b"held")
        client.call(1, "basic.consume", queue="q")
        client.expect(1, "basic.deliver")
        client.expect_quiet(2 * TIMEOUT_MS / 1000)

        def set_timeout(node: Any, timeout_ms: int) -> None:
            node.broker.vhosts["/"].queues[b"q"].ack_timeout_ms = timeout_ms
            for session in node.broker.connections.values():
                session.ack_timeouts_changed()

        broker.call(lambda node: set_timeout(node, TIMEOUT_MS))
        assert client.expect(1, "basic.deliver")["redelivered"] is True
        broker.call(lambda node: set_timeout(node, 0))
        client.expect_quiet(2 * TIMEOUT_MS / 1000)


# ---- RabbitMQ's way


def test_the_channel_is_closed_and_everything_goes_back_if_the_node_says_so() -> None:
    settings = {"limits.ack_timeout_ms": TIMEOUT_MS, "limits.ack_timeout_action": "close"}
    with connected(settings) as (_broker, client):
        client.call(1, "queue.declare", queue="q")
        for body in (b"1", b"2"):
            client.publish(1, "", "q", body)
        client.open_channel(7)
        client.call(7, "basic.consume", queue="q")
        deliveries(client, 2, channel=7)
        closed = client.expect(7, "channel.close")
        assert closed.fields == {
            "reply_code": 406,
            "reply_text": "PRECONDITION_FAILED - delivery acknowledgement on channel 7 timed out. Timeout value used: "
            "200 ms. This timeout value can be configured, see consumers doc guide to learn more",
            "class_id": 0,
            "method_id": 0,
        }
        client.send(7, "channel.close-ok")
        for body in (b"1", b"2"):
            got = client.call(1, "basic.get", queue="q")
            assert (got.body, got["redelivered"]) == (body, True)
            client.send(1, "basic.ack", delivery_tag=got["delivery_tag"])
        client.open_channel(7)
