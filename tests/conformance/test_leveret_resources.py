"""What one client may take of a live broker: consumers, arguments, topology, and messages that it does not finish."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.amqp_codec import FRAME_BODY, FRAME_HEADER
from tests.conformance.own_broker import connected, running
from tests.conformance.raw_client import RawClient

DEADLINE_S = 60.0
KIB = 1024
MIB = KIB * KIB


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Any]:
    with running(
        tmp_path,
        listen__stream_port=0,
        limits__consumers_per_channel_max=3,
        limits__consumers_per_connection_max=4,
        limits__consumers_per_user_max=5,
        limits__arguments_bytes_max=4 * KIB,
        limits__consumer_arguments_bytes_max=8 * KIB,
        limits__exchanges_per_vhost_max=10,
        limits__bindings_per_vhost_max=2,
        limits__body_bytes_max=MIB,
        limits__unfinished_per_connection_bytes_max=2 * MIB,
        limits__unfinished_bytes_max=4 * MIB,
        limits__transaction_work_max=100,
    ) as made:
        yield made


def wait_until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def consumers(broker: Any) -> int:
    count: int = broker.call(lambda node: node.broker.limits.consumers.of_user("guest"))
    return count


def consume(client: RawClient, channel: int, tag: str, **arguments: Any) -> None:
    client.call(channel, "basic.consume", queue="q", consumer_tag=tag, arguments=arguments)


# ---- consumers


def test_a_channel_has_no_more_consumers_than_it_may(broker: Any) -> None:
    with connected(broker) as client:
        client.call(1, "queue.declare", queue="q")
        for tag in "abc":
            consume(client, 1, tag)
        client.send(1, "basic.consume", queue="q", consumer_tag="d")
        refusal = client.refusal()
        assert (refusal.scope, refusal.code) == ("connection", 530)
        assert refusal.text == "NOT_ALLOWED - reached maximum (3) of consumers per channel"


def test_consumers_of_a_connection_and_of_a_user(broker: Any) -> None:
    with connected(broker) as client, connected(broker) as other:
        client.call(1, "queue.declare", queue="q")
        client.open_channel(2)
        for channel, tag in ((1, "a"), (1, "b"), (2, "c"), (2, "d")):
            consume(client, channel, tag)
        client.send(2, "basic.consume", queue="q", consumer_tag="e")
        refusal = client.refusal()
        assert (refusal.scope, refusal.code) == ("channel", 406)
        assert "(4) of consumers per connection" in refusal.text
        wait_until(lambda: consumers(broker) == 2)
        for tag in "fgh":
            consume(other, 1, tag)
        other.open_channel(2)
        other.send(2, "basic.consume", queue="q", consumer_tag="i")
        assert "(5) of consumers of user 'guest'" in other.refusal().text
        other.call(1, "basic.cancel", consumer_tag="f")
        assert consumers(broker) == 4
    wait_until(lambda: consumers(broker) == 0)
    assert broker.call(lambda node: node.broker.limits.consumers.argument_bytes_of_user("guest")) == 0


def test_a_queue_that_is_deleted_gives_the_places_of_its_consumers_back(broker: Any) -> None:
    with connected(broker) as client:
        client.call(1, "queue.declare", queue="q")
        consume(client, 1, "a")
        client.call(1, "queue.delete", queue="q")
        assert consumers(broker) == 0


def test_arguments_of_consumers_are_bounded_one_by_one_and_together(broker: Any) -> None:
    with connected(broker) as client:
        client.call(1, "queue.declare", queue="q")
        for tag in "ab":
            consume(client, 1, tag, note="n" * 3900)
        client.send(1, "basic.consume", queue="q", consumer_tag="c", arguments={"note": "n" * 3900})
        assert "of bytes in arguments of consumers of user 'guest'" in client.refusal().text
        client.open_channel(2)
        client.send(2, "basic.consume", queue="q", consumer_tag="d", arguments={"note": "n" * 5000})
        refusal = client.refusal()
        assert (refusal.scope, refusal.code) == ("channel", 406)
        assert "larger than configured max size 4096" in refusal.text


def test_what_operators_see_has_the_arguments(broker: Any) -> None:
    with connected(broker) as client:
        client.call(1, "queue.declare", queue="q")
        consume(client, 1, "a", **{"x-priority": 7, "note": "n"})
        seen = broker.call(
            lambda node: [one for held in node.broker.connections.values() for one in list(held.consumers())]
        )
        assert [one.arguments for one in seen] == [{"x-priority": 7, "note": "n"}]


def test_a_subscription_to_a_stream_is_a_consumer_like_any_other(broker: Any) -> None:
    from leveret.wire import stream_commands as commands
    from leveret.wire.stream_codes import Code, OffsetType
    from leveret.wire.stream_commands import OffsetSpec
    from tests.conformance.raw_stream_client import RawStreamClient

    with RawStreamClient(broker.host, broker.stream_port) as client:
        client.log_in()
        assert client.code(commands.Create, "s", {}) == Code.OK
        first = OffsetSpec(OffsetType.FIRST, 0)
        for number in range(4):
            assert client.code(commands.Subscribe, number, "s", first, 1, {}) == Code.OK
        assert client.code(commands.Subscribe, 4, "s", first, 1, {}) == Code.PRECONDITION_FAILED
        assert client.code(commands.Unsubscribe, 0) == Code.OK
        assert client.code(commands.Subscribe, 4, "s", first, 1, {"note": "n" * 5000}) == Code.PRECONDITION_FAILED
        assert client.code(commands.Subscribe, 4, "s", first, 1, {"note": "n"}) == Code.OK
        assert consumers(broker) == 4
    wait_until(lambda: consumers(broker) == 0)


# ---- topology


def test_exchanges_and_bindings_of_a_virtual_host(broker: Any) -> None:
    with connected(broker) as client:
        there = broker.call(lambda node: len(node.broker.vhosts["/"].exchanges))
        for number in range(10 - there):
            client.call(1, "exchange.declare", exchange=f"e{number}", type="fanout")
        client.call(1, "exchange.declare", exchange="e0", type="fanout")
        client.send(1, "exchange.declare", exchange="more", type="fanout")
        assert "exchange limit in vhost '/' (10) is reached" in client.refusal().text
        client.open_channel(1)
        client.call(1, "queue.declare", queue="q")
        for key in ("a", "b", "b"):
            client.call(1, "queue.bind", queue="q", exchange="e0", routing_key=key)
        client.send(1, "queue.bind", queue="q", exchange="e0", routing_key="c")
        assert "binding limit in vhost '/' (2) is reached" in client.refusal().text


@pytest.mark.parametrize(
    ("method", "fields"),
    [
        ("queue.declare", {"queue": "odd"}),
        ("exchange.declare", {"exchange": "odd", "type": "fanout"}),
        ("queue.bind", {"queue": "q", "exchange": "amq.fanout"}),
        ("basic.consume", {"queue": "q"}),
    ],
)
def test_arguments_of_anything_are_bounded(broker: Any, method: str, fields: dict[str, str]) -> None:
    """At once if it is far too much; and if it is what Python would need for it that is."""
    with connected(broker) as client:
        client.call(1, "queue.declare", queue="q")
        for number, arguments in enumerate(({"note": "n" * 100_000}, {"note": "n" * 4096}), 2):
            client.open_channel(number)
            client.send(number, method, **fields, arguments=arguments)
            refusal = client.refusal()
            assert (refusal.scope, refusal.code) == ("channel", 406)
            assert "larger than configured max size 4096" in refusal.text


# ---- messages that are not finished


def begin(client: RawClient, channel: int, size: int = MIB) -> None:
    client.send(channel, "basic.publish", routing_key="q")
    client.send_frame(FRAME_HEADER, channel, struct.pack(">HHQ", 60, 0, size) + b"\0\0")


def unfinished(broker: Any) -> int:
    held: int = broker.call(lambda node: node.broker.limits.unfinished.held_bytes)
    return held


def test_many_bodies_on_one_connection_have_one_budget_and_one_always_completes(broker: Any) -> None:
    piece = bytes(64 * KIB)
    with connected(broker) as client:
        client.call(1, "queue.declare", queue="q")
        for channel in (2, 3):
            client.open_channel(channel)
        for channel in (1, 2, 3):
            begin(client, channel)
        assert unfinished(broker) == 0, "nothing is set aside for what was only announced"
        for _ in range(15):
            client.send_frame(FRAME_BODY, 2, piece)
            client.send_frame(FRAME_BODY, 3, piece)
        for _ in range(2):
            client.send_frame(FRAME_BODY, 1, piece)
        # 32 pieces fit, and are there. The channel that goes on first is closed and gives back what it had.
        client.send_frame(FRAME_BODY, 3, piece)
        refusal = client.refusal()
        assert (refusal.scope, refusal.code) == ("channel", 406)
        assert "unfinished messages of this connection are larger than 2097152 bytes" in refusal.text
        for _ in range(14):
            client.send_frame(FRAME_BODY, 1, piece)
        client.call(1, "queue.declare", queue="q", passive=True)
        wait_until(lambda: broker.call(lambda node: node.broker.vhosts["/"].queues[b"q"].ready_count()) == 1)
        assert unfinished(broker) == 15 * len(piece)
    wait_until(lambda: unfinished(broker) == 0)


def test_beyond_the_budget_of_the_node_the_greediest_goes_and_others_complete(broker: Any) -> None:
    piece = bytes(64 * KIB)
    clients: list[RawClient] = []
    try:
        with connected(broker) as decent:
            decent.call(1, "queue.declare", queue="q")
            begin(decent, 1)
            decent.send_frame(FRAME_BODY, 1, piece)
            for number in range(6):
                client = RawClient(broker.host, broker.port)
                clients.append(client)
                client.log_in()
                for channel in (1, 2):
                    client.open_channel(channel)
                    begin(client, channel)
                for _ in range(15 if number < 5 else 1):
                    for channel in (1, 2):
                        client.send_frame(FRAME_BODY, channel, piece)
            wait_until(lambda: broker.call(lambda node: node.broker.limits.unfinished.closed_total) > 0)
            for _ in range(15):
                decent.send_frame(FRAME_BODY, 1, piece)
            wait_until(lambda: broker.call(lambda node: node.broker.vhosts["/"].queues[b"q"].ready_count()) == 1)
            assert unfinished(broker) <= 4 * MIB
            assert broker.call(lambda node: len(node.broker.connections)) >= 2
    finally:
        for client in clients:
            client.socket.close()
    wait_until(lambda: unfinished(broker) == 0)


def test_a_transaction_that_grows_without_end_is_refused(broker: Any) -> None:
    with connected(broker) as client:
        client.call(1, "queue.declare", queue="q")
        client.call(1, "tx.select")
        for _ in range(40):
            client.publish(1, "", "q", bytes(64 * KIB))
        refusal = client.refusal()
        assert (refusal.scope, refusal.code) == ("channel", 406)
        assert unfinished(broker) == 0


def test_a_transaction_of_more_than_its_commit_may_do_is_refused_as_a_whole(broker: Any) -> None:
    with connected(broker) as client:
        client.call(1, "queue.declare", queue="q")
        client.call(1, "tx.select")
        for _ in range(50):
            client.publish(1, "", "q", b"x")
        client.call(1, "tx.commit")
        for _ in range(51):
            client.publish(1, "", "q", b"x")
        refusal = client.refusal()
        assert (refusal.scope, refusal.code) == ("channel", 406)
        assert "limits.transaction_work_max (100)" in refusal.text
        client.open_channel(2)
        assert client.call(2, "queue.declare", queue="q", passive=True)["message_count"] == 50
