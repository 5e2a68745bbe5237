"""One connection's life: what goes when it goes, errors that reach no further, turns, and clients that do not read."""

from __future__ import annotations

import gc
import time
from typing import Any

import pytest

from leveret.session import session as session_module
from leveret.session.session import Session
from leveret.wire.queue_methods import QueuePurge
from tests.conformance.amqp_codec import encode_frame, encode_method
from tests.conformance.raw_client import RawClient
from tests.unit.queues.dataplane import publish_frames
from tests.unit.session.clients import Scene, eventually

# Where the broker stops reading one who does not read, and what a chunk may add to it.
FLOODED_BYTES = 16_777_216 + 2_000_000
DECLARE_OK = b"\x00\x32\x00\x0b"
LEAVINGS = ["close", "vanish", "channel", "error"]


def leave(client: RawClient, how: str) -> None:
    """Ends channel 1: with its connection in good order, without a word, by itself, or by an error."""
    if how == "close":
        client.log_out()
    elif how == "vanish":
        client.socket.close()
    elif how == "channel":
        client.call(1, "channel.close")
    else:
        client.send(1, "basic.ack", delivery_tag=999)
        assert client.refusal().code == 406


# ---- what goes with a channel or a connection


@pytest.mark.parametrize("how", LEAVINGS)
def test_unacked_messages_return_in_order_marked_as_redelivered(scene: Scene, how: str) -> None:
    client, other = scene.connect(), scene.connect()
    client.call(1, "queue.declare", queue="q")
    for body in (b"1", b"2", b"3"):
        client.publish(1, "", "q", body)
    client.call(1, "basic.get", queue="q")
    client.call(1, "basic.get", queue="q")
    leave(client, how)
    eventually(lambda: scene.ready_count("q") == 3)
    again = [other.call(1, "basic.get", queue="q", no_ack=True) for _ in range(3)]
    assert [(got.body, got["redelivered"]) for got in again] == [(b"1", True), (b"2", True), (b"3", False)]


@pytest.mark.parametrize("how", LEAVINGS)
def test_consumers_leave_and_an_auto_delete_queue_goes_with_its_last(scene: Scene, how: str) -> None:
    client, other = scene.connect(), scene.connect()
    client.call(1, "queue.declare", queue="auto", auto_delete=True)
    client.call(1, "queue.declare", queue="unused", auto_delete=True)
    client.call(1, "basic.consume", queue="auto")
    other.call(1, "basic.consume", queue="auto")
    leave(client, how)
    eventually(lambda: other.call(1, "queue.declare", queue="auto", passive=True)["consumer_count"] == 1)
    assert scene.queue_names() == {"auto", "unused"}
    leave(other, how)
    eventually(lambda: scene.queue_names() == {"unused"})


def test_an_auto_delete_queue_goes_when_its_last_consumer_is_cancelled(scene: Scene) -> None:
    client = scene.connect()
    client.call(1, "queue.declare", queue="auto", auto_delete=True)
    client.call(1, "basic.consume", queue="auto", consumer_tag="c")
    client.call(1, "basic.cancel", consumer_tag="c")
    assert scene.queue_names() == set()


@pytest.mark.parametrize("how", ["close", "vanish"])
def test_exclusive_queues_go_with_their_connection(scene: Scene, how: str) -> None:
    client = scene.connect()
    client.call(1, "queue.declare", queue="mine", exclusive=True, durable=True)
    client.call(1, "queue.declare", queue="shared")
    client.call(1, "queue.bind", queue="mine", exchange="amq.fanout")
    leave(client, how)
    eventually(lambda: scene.queue_names() == {"shared"})
    bindings = scene.broker.call(lambda node: dict(node.broker.catalog.topologies["/"].bindings_from))
    assert bindings == {}
    assert scene.broker.call(lambda node: node.broker.vhosts["/"].owned) == {}


def test_exclusive_queues_stay_when_only_their_channel_goes(scene: Scene) -> None:
    client = scene.connect()
    client.call(1, "queue.declare", queue="mine", exclusive=True)
    client.call(1, "channel.close")
    assert scene.queue_names() == {"mine"}


def test_exclusive_queues_are_gone_when_close_is_answered(scene: Scene) -> None:
    client = scene.connect()
    client.call(1, "queue.declare", queue="mine", exclusive=True)
    client.call(0, "connection.close", reply_code=200)
    assert scene.queue_names() == set()


@pytest.mark.parametrize("how", LEAVINGS)
def test_what_a_transaction_did_not_commit_never_was(scene: Scene, how: str) -> None:
    client = scene.connect()
    client.call(1, "queue.declare", queue="q")
    client.publish(1, "", "q", b"old")
    client.call(1, "tx.select")
    client.publish(1, "", "q", b"uncommitted")
    client.call(1, "basic.get", queue="q")
    client.send(1, "basic.ack", delivery_tag=1)
    leave(client, how)
    eventually(lambda: scene.ready_count("q") == 1)
    other = scene.connect()
    assert other.call(1, "basic.get", queue="q").body == b"old"


def test_half_a_message_never_was(scene: Scene) -> None:
    client = scene.connect()
    client.call(1, "queue.declare", queue="q")
    client.send_bytes(publish_frames(1, "", "q", b"whole") + publish_frames(1, "", "q", b"half")[:-3])
    client.socket.close()
    eventually(lambda: scene.connection_count() == 0)
    assert scene.ready_count("q") == 1


def test_everything_a_connection_had_is_forgotten(scene: Scene) -> None:
    for number in range(5):
        client = scene.connect()
        client.call(1, "queue.declare", queue=f"q{number}", exclusive=True)
        client.call(1, "basic.consume", queue=f"q{number}")
        client.publish(1, "", f"q{number}", b"x")
        client.expect(1, "basic.deliver")
        leave(client, "close" if number % 2 else "vanish")
    eventually(lambda: scene.broker.call(lambda node: len(node._sessions)) == 0)

    def living(node: Any) -> int:
        gc.collect()
        return sum(isinstance(thing, Session) and thing.broker is node.broker for thing in gc.get_objects())

    assert scene.broker.call(living) == 0
    assert scene.broker.call(lambda node: node.broker.connections_opened_total) == 5
    assert scene.broker.call(lambda node: node.broker.connections_closed_total) == 5


# ---- errors reach no further


def test_a_mistake_of_ours_ends_the_one_connection_with_541(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(channel_session: Any, method: Any) -> None:
        raise ZeroDivisionError("a mistake")

    monkeypatch.setitem(session_module.CHANNEL_HANDLERS, QueuePurge.METHOD, stumble)
    client, other = scene.connect(), scene.connect()
    client.call(1, "queue.declare", queue="mine", exclusive=True)
    client.send(1, "queue.purge", queue="mine")
    refusal = client.refusal()
    assert (refusal.scope, refusal.code) == ("connection", 541)
    assert "ZeroDivision" not in refusal.text
    other.call(1, "queue.declare", queue="q")
    assert scene.queue_names() == {"q"}


def test_an_error_of_one_channel_leaves_the_others_alone(scene: Scene) -> None:
    client = scene.connect()
    client.open_channel(2)
    client.send(1, "queue.declare", queue="missing", passive=True)
    assert client.refusal().scope == "channel"
    client.call(2, "queue.declare", queue="q")
    client.open_channel(1)
    client.call(1, "queue.declare", queue="q")


def test_after_channel_close_everything_of_that_channel_is_ignored_until_it_is_answered(scene: Scene) -> None:
    client = scene.connect()
    client.call(1, "queue.declare", queue="q")
    client.send(1, "queue.declare", queue="missing", passive=True)
    client.publish(1, "", "q", b"ignored")
    client.send(1, "queue.delete", queue="q")
    assert client.refusal().code == 404
    client.open_channel(1)
    assert client.call(1, "queue.declare", queue="q", passive=True)["message_count"] == 0


def test_a_client_that_does_not_answer_connection_close_is_cut_off(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Session, "close_deadline_s", 0.1)
    client = scene.connect()
    client.send_frame(1, 0, b"\x00\x0a\x00\x63")
    assert client.expect(0, "connection.close")["reply_code"] in (503, 504, 540)
    client.expect_eof()


def test_a_wrong_protocol_header_is_answered_with_the_right_one(scene: Scene) -> None:
    for header in (b"AMQP\x00\x00\x09\x02", b"AMQP\x00\x01\x00\x00", b"GET / HTTP/1.1\r\n", b"HELO"):
        client = scene.stranger()
        client.send_bytes(header)
        assert client.read_bytes(8) == b"AMQP\x00\x00\x09\x01"
        client.expect_eof()


# ---- turns


def test_many_control_methods_in_one_chunk_are_answered_in_order(scene: Scene) -> None:
    """More than a turn's worth: the rest goes on by itself, publishes in between keep their place."""
    client = scene.connect()
    client.call(1, "queue.declare", queue="q")
    octets = b""
    for number in range(1500):
        octets += publish_frames(1, "", "q", b"%d" % number)
        octets += encode_frame(1, 1, encode_method("basic.get", {"queue": "q", "no_ack": True}))
    client.send_bytes(octets)
    bodies = [client.expect(1, "basic.get-ok").body for _ in range(1500)]
    assert bodies == [b"%d" % number for number in range(1500)]


def test_one_who_asks_much_gives_others_their_turn(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    handled = []

    def purge(channel_session: Any, method: QueuePurge) -> None:
        handled.append(method.queue)

    monkeypatch.setitem(session_module.CHANNEL_HANDLERS, QueuePurge.METHOD, purge)
    greedy, other = scene.connect(), scene.connect()

    def ask_at_once(node: Any) -> None:
        """While the broker's thread is here, both can ask; each gets its answers when the loop turns again."""
        for client, name in ((greedy, "greedy"), (other, "other")):
            client.send_bytes(encode_frame(1, 1, encode_method("queue.purge", {"queue": name})) * 2000)
        time.sleep(0.1)

    scene.broker.call(ask_at_once)
    eventually(lambda: len(handled) == 4000)
    first, second = handled[0], "other" if handled[0] == "greedy" else "greedy"
    assert handled.index(second) < 1000
    assert first in handled[handled.index(second) :]


# ---- clients that do not read


def pending_max(scene: Scene) -> int:
    return scene.broker.call(lambda node: max(session.write_buffer.pending() for session in node._sessions.values()))


def flood(client: RawClient, chunk: bytes, octets: int) -> int:
    """Sends until that much is sent or nobody takes more; how much it was."""
    client.socket.settimeout(0.5)
    sent = 0
    try:
        while sent < octets:
            client.send_bytes(chunk)
            sent += len(chunk)
    except TimeoutError:
        pass
    client.socket.settimeout(20)
    return sent


def test_deliveries_to_one_who_does_not_read_stop_and_others_get_them(scene: Scene) -> None:
    timer, producer = scene.connect(), scene.connect()
    producer.call(1, "queue.declare", queue="q")
    timer.call(1, "basic.consume", queue="q", no_ack=True)
    for _ in range(100):
        producer.publish(1, "", "q", bytes(100_000))
    producer.call(1, "basic.qos", prefetch_count=0)
    assert pending_max(scene) < 1_000_000
    assert scene.ready_count("q") > 0
    producer.call(1, "basic.consume", queue="q", no_ack=True)
    producer.expect(1, "basic.deliver")


@pytest.mark.parametrize(("size", "octets"), [(100, 25_000_000), (60_000, 60_000_000)], ids=["small", "large"])
def test_returns_to_one_who_does_not_read_hold_no_memory_without_end(scene: Scene, size: int, octets: int) -> None:
    client = scene.connect()
    flood(client, publish_frames(1, "", "nowhere", bytes(size), mandatory=True) * (600_000 // size), octets)
    assert pending_max(scene) < FLOODED_BYTES


def test_answers_to_one_who_does_not_read_hold_no_memory_without_end_and_all_come_at_last(scene: Scene) -> None:
    client = scene.connect()
    name = "q" * 250
    client.call(1, "queue.declare", queue=name)
    method = encode_frame(1, 1, encode_method("queue.declare", {"queue": name, "passive": True}))
    chunk = method * 1000
    sent = flood(client, chunk, 27_000_000)
    assert pending_max(scene) < FLOODED_BYTES
    # Nobody knows how much of the last chunk went; the answers to all others must come.
    for _ in range(sent // len(method)):
        assert client.read_frame().payload.startswith(DECLARE_OK)
