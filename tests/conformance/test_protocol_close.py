"""The end of a connection, asked for by either side, also while data flows."""

import threading

import pytest

from tests.conformance.conftest import Connect
from tests.conformance.raw_client import RawClient, ServerClosed
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


def test_close_is_answered(client: RawClient) -> None:
    client.call(0, "connection.close", reply_code=200, reply_text="bye")


def test_close_is_answered_whatever_the_reason_given(client: RawClient) -> None:
    client.call(0, "connection.close", reply_code=541, reply_text="I am broken", class_id=60, method_id=40)


def test_close_is_answered_while_messages_are_delivered(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    publish_all(client, queue, [b"x" * 10_000] * 500)
    client.send(1, "basic.consume", queue=queue, no_ack=True)
    client.send(0, "connection.close", reply_code=200)
    names = {client.read().name for _ in range(1)}
    while "connection.close-ok" not in names:
        names.add(client.read().name)
    assert names <= {"basic.consume-ok", "basic.deliver", "connection.close-ok"}


def test_a_message_published_before_close_is_kept(connect: Connect, client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client, exclusive=False)
    publisher = connect()
    publisher.publish(1, "", queue, b"last words")
    publisher.log_out()
    assert drain(client, queue) == [b"last words"]


def test_a_connection_error_ends_every_channel(client: RawClient) -> None:
    client.open_channel(2)
    assert refusal_of(client, "exchange.declare", exchange=unique_name("exchange"), type="nonsense").code == 503
    client.expect_eof()


def test_after_a_connection_error_only_close_and_close_ok_count(
    connect: Connect, client: RawClient, topology: Topology
) -> None:
    queue = topology.queue(client, exclusive=False)
    broken = connect()
    broken.send(1, "channel.open")
    broken.expect(0, "connection.close")
    broken.publish(1, "", queue, b"ignored")
    broken.send(7, "channel.open")
    broken.expect_quiet()
    broken.call(0, "connection.close")
    broken.send(0, "connection.close-ok")
    broken.expect_eof()
    assert counts(client, queue) == (0, 0)


@pytest.mark.parametrize("manner", ["closed", "error", "cut"])
def test_the_end_returns_messages_and_deletes_exclusive_queues(
    connect: Connect, client: RawClient, topology: Topology, manner: str
) -> None:
    shared = topology.queue(client, exclusive=False)
    publish_all(client, shared, [b"a", b"b"])
    leaving = connect()
    exclusive = topology.queue(leaving)
    leaving.call(1, "basic.get", queue=shared)
    leaving.call(1, "basic.consume", queue=shared)
    leaving.expect(1, "basic.deliver")
    wait_for_counts(client, shared, 0, 1)
    if manner == "closed":
        leaving.log_out()
    elif manner == "error":
        assert refusal_of(leaving, "channel.open").scope == "connection"
        leaving.expect_eof()
    else:
        leaving.socket.close()
    wait_for_counts(client, shared, 2, 0)
    wait_for("the exclusive queue to go", lambda: queue_is_gone(connect, exclusive))
    first = client.call(1, "basic.get", queue=shared, no_ack=True)
    assert (first.body, first["redelivered"]) == (b"a", True)


def queue_is_gone(connect: Connect, queue: str) -> bool:
    """404 when it is gone; 405 while it is still its owner's."""
    return refusal_of(connect(), "queue.declare", queue=queue, passive=True).code == 404


def test_what_close_ok_promises_is_done(connect: Connect, client: RawClient, topology: Topology) -> None:
    """When close-ok is there, the exclusive queue is gone and its messages with it: no waiting."""
    leaving = connect()
    queue = topology.queue(leaving)
    leaving.call(0, "connection.close", reply_code=200)
    assert refusal_of(client, "queue.declare", queue=queue, passive=True).code == 404


def test_close_while_publishing_at_full_speed(connect: Connect, topology: Topology, client: RawClient) -> None:
    """The broker's close reaches a client that keeps sending; the client sees it and not a reset."""
    queue = topology.queue(client, exclusive=False)
    publisher = connect()
    stop = threading.Event()

    def publish_until_stopped() -> None:
        try:
            while not stop.is_set():
                publisher.publish(1, "", queue, b"x" * 1000)
        except OSError:
            # The broker closed the socket after close-ok.
            return

    sender = threading.Thread(target=publish_until_stopped)
    sender.start()
    try:
        wait_for("messages to flow", lambda: counts(client, queue)[0] > 100)
        # On another channel, so that it may also fall between a method and its content.
        publisher.send(9, "queue.declare")
        close = publisher.expect(0, "connection.close")
        assert (close["reply_code"], close["class_id"], close["method_id"]) == (504, 50, 10)
    finally:
        stop.set()
        sender.join()
    publisher.send(0, "connection.close-ok")
    with pytest.raises(ServerClosed):
        publisher.read()
