"""Transactions: publishes and acknowledgements of a channel take effect together, at commit, or not at all."""

import pytest

from tests.conformance.conftest import Connect
from tests.conformance.raw_client import RawClient, Refusal
from tests.conformance.topology import (
    Topology,
    counts,
    drain,
    publish_all,
    refusal_of,
    unique_name,
    wait_for,
    wait_for_counts,
)


@pytest.fixture
def tx(connect: Connect) -> RawClient:
    """A connection whose channel 1 is transactional."""
    client = connect()
    client.call(1, "tx.select")
    return client


@pytest.mark.parametrize(
    ("first", "then", "text", "ids"),
    [
        ("tx.select", "confirm.select", "cannot switch from tx to confirm mode", (85, 10)),
        ("confirm.select", "tx.select", "cannot switch from confirm to tx mode", (90, 10)),
        (None, "tx.commit", "channel is not transactional", (90, 20)),
        (None, "tx.rollback", "channel is not transactional", (90, 30)),
        ("confirm.select", "tx.commit", "channel is not transactional", (90, 20)),
    ],
)
def test_a_channel_has_one_mode(
    client: RawClient, first: str | None, then: str, text: str, ids: tuple[int, int]
) -> None:
    if first:
        client.call(1, first)
    assert refusal_of(client, then) == Refusal("channel", 406, f"PRECONDITION_FAILED - {text}", *ids)


def test_selecting_twice_is_fine(tx: RawClient) -> None:
    tx.call(1, "tx.select")
    tx.call(1, "tx.commit")


def test_publishes_are_invisible_until_commit(client: RawClient, tx: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    for number in range(3):
        tx.publish(1, "", queue, b"%d" % number)
    # A second channel of the same connection has been heard only after the publishes.
    tx.open_channel(2)
    assert drain(client, queue) == []
    tx.call(1, "tx.commit")
    assert drain(client, queue) == [b"0", b"1", b"2"]


def test_commit_covers_several_queues(client: RawClient, tx: RawClient, topology: Topology) -> None:
    exchange = topology.exchange(client, "fanout")
    queues = [topology.bound_queue(client, exchange, "") for _ in range(3)]
    tx.publish(1, exchange, "", b"for all")
    tx.call(1, "tx.commit")
    assert [drain(client, queue) for queue in queues] == [[b"for all"]] * 3


def test_rollback_forgets_publishes(client: RawClient, tx: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    tx.publish(1, "", queue, b"forgotten")
    tx.call(1, "tx.rollback")
    tx.publish(1, "", queue, b"remembered")
    tx.call(1, "tx.commit")
    assert drain(client, queue) == [b"remembered"]


@pytest.mark.parametrize("end", ["channel.close", "connection.close", "cut", "channel error"])
def test_the_end_of_the_channel_rolls_back(connect: Connect, client: RawClient, topology: Topology, end: str) -> None:
    queue = topology.queue(client, exclusive=False)
    publish_all(client, queue, [b"given back"])
    leaving = connect()
    leaving.call(1, "tx.select")
    held = leaving.call(1, "basic.get", queue=queue)
    leaving.send(1, "basic.ack", delivery_tag=held["delivery_tag"])
    leaving.publish(1, "", queue, b"forgotten")
    if end == "cut":
        leaving.socket.close()
    elif end == "channel error":
        refusal_of(leaving, "queue.declare", queue=unique_name("gone"), passive=True)
    else:
        leaving.call(0 if end == "connection.close" else 1, end)
    wait_for_counts(client, queue, 1, 0)
    assert drain(client, queue) == [b"given back"]


def test_acks_have_no_effect_until_commit(client: RawClient, tx: RawClient, topology: Topology) -> None:
    queue = topology.queue(tx, exclusive=False)
    publish_all(client, queue, [b"a", b"b"])
    tx.call(1, "basic.qos", prefetch_count=1)
    tx.call(1, "basic.consume", queue=queue)
    first = tx.expect(1, "basic.deliver")
    tx.send(1, "basic.ack", delivery_tag=first["delivery_tag"])
    # The prefetch is still used up.
    tx.expect_quiet()
    tx.send(1, "tx.commit")
    seen = {tx.read().name for _ in range(2)}
    assert seen == {"tx.commit-ok", "basic.deliver"}


def test_rollback_takes_acks_back_but_does_not_redeliver(client: RawClient, tx: RawClient, topology: Topology) -> None:
    queue = topology.queue(tx, exclusive=False)
    publish_all(client, queue, [b"a"])
    held = tx.call(1, "basic.get", queue=queue)
    tx.send(1, "basic.ack", delivery_tag=held["delivery_tag"])
    tx.call(1, "tx.rollback")
    # Neither in the queue again nor forgotten: it is with the channel, and can be acknowledged again.
    assert counts(client, queue) == (0, 0)
    tx.send(1, "basic.ack", delivery_tag=held["delivery_tag"])
    tx.call(1, "tx.commit")
    tx.call(1, "channel.close")
    assert counts(client, queue) == (0, 0)


@pytest.mark.parametrize("manner", ["basic.nack", "basic.reject"])
@pytest.mark.parametrize("requeue", [False, True])
def test_rejections_wait_for_commit_too(
    client: RawClient, tx: RawClient, topology: Topology, manner: str, requeue: bool
) -> None:
    queue = topology.queue(tx, exclusive=False)
    publish_all(client, queue, [b"a"])
    held = tx.call(1, "basic.get", queue=queue)
    tx.send(1, manner, delivery_tag=held["delivery_tag"], requeue=requeue)
    tx.open_channel(2)
    assert counts(client, queue) == (0, 0)
    tx.call(1, "tx.commit")
    if requeue:
        wait_for_counts(client, queue, 1, 0)
    tx.call(1, "channel.close")
    assert drain(client, queue) == ([b"a"] if requeue else [])


def test_an_unknown_tag_is_refused_at_once(tx: RawClient) -> None:
    refusal = refusal_of(tx, "basic.ack", delivery_tag=7)
    assert refusal == Refusal("channel", 406, "PRECONDITION_FAILED - unknown delivery tag 7", 60, 80)


def test_a_missing_exchange_is_refused_at_once(tx: RawClient) -> None:
    tx.publish(1, "nowhere", "key")
    assert tx.refusal() == Refusal("channel", 404, "NOT_FOUND - no exchange 'nowhere' in vhost '/'", 60, 40)


def test_mandatory_messages_return_before_commit_ok(tx: RawClient) -> None:
    tx.publish(1, "", unique_name("nobody"), b"back", mandatory=True)
    tx.expect_quiet()
    tx.send(1, "tx.commit")
    assert tx.expect(1, "basic.return").body == b"back"
    tx.expect(1, "tx.commit-ok")


@pytest.mark.parametrize("exchange_type", ["", "fanout", "headers"], ids=["default", "fanout", "headers"])
def test_mandatory_messages_return_if_their_queue_is_gone_at_commit(
    client: RawClient, tx: RawClient, topology: Topology, exchange_type: str
) -> None:
    queue = topology.queue(client)
    exchange = topology.exchange(client, exchange_type) if exchange_type else ""
    if exchange:
        client.call(1, "queue.bind", queue=queue, exchange=exchange)
    for body, mandatory in ((b"back", True), (b"gone", False), (b"back too", True)):
        tx.publish(1, exchange, queue, body, mandatory=mandatory)
    tx.expect_quiet()
    client.call(1, "queue.delete", queue=queue)
    tx.send(1, "tx.commit")
    returned = [tx.expect(1, "basic.return") for _ in range(2)]
    assert [method.body for method in returned] == [b"back", b"back too"]
    assert (returned[0]["reply_code"], returned[0]["reply_text"]) == (312, "NO_ROUTE")
    tx.expect(1, "tx.commit-ok")


def test_mandatory_messages_do_not_return_if_one_of_their_queues_is_left(
    client: RawClient, tx: RawClient, topology: Topology
) -> None:
    exchange = topology.exchange(client, "fanout")
    gone, left = topology.bound_queue(client, exchange, ""), topology.bound_queue(client, exchange, "")
    tx.publish(1, exchange, "", b"kept", mandatory=True)
    tx.expect_quiet()
    client.call(1, "queue.delete", queue=gone)
    tx.call(1, "tx.commit")
    assert drain(client, left) == [b"kept"]


def test_gets_are_not_part_of_the_transaction(client: RawClient, tx: RawClient, topology: Topology) -> None:
    queue = topology.queue(tx, exclusive=False)
    publish_all(client, queue, [b"a"])
    assert tx.call(1, "basic.get", queue=queue, no_ack=True).body == b"a"
    tx.call(1, "tx.rollback")
    assert drain(client, queue) == []


def test_a_durable_commit(client: RawClient, tx: RawClient, topology: Topology) -> None:
    queue = topology.queue(client, exclusive=False, durable=True)
    for number in range(50):
        tx.publish(1, "", queue, b"%d" % number, {"delivery_mode": 2})
    tx.call(1, "tx.commit")
    assert len(drain(client, queue)) == 50


def test_transactions_of_other_channels_do_not_meet(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    client.open_channel(2)
    for channel in (1, 2):
        client.call(channel, "tx.select")
        client.publish(channel, "", queue, b"%d" % channel)
    client.call(2, "tx.rollback")
    client.call(1, "tx.commit")
    client.open_channel(3)
    wait_for("the committed message", lambda: counts(client, queue, channel=3)[0] == 1)
    assert drain(client, queue, channel=3) == [b"1"]
