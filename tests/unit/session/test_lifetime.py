"""A closed connection is freed at once: nothing of it waits for the garbage collector."""

from __future__ import annotations

import gc
import time
import weakref

import pytest

from leveret.node.node import Node
from leveret.testing import Broker
from tests.conformance.raw_client import RawClient


def watch(node: Node) -> list[weakref.ref[object]]:
    sessions = list(node._sessions.values())
    channel_sessions = [
        channel_session for session in sessions for channel_session in session.channel_sessions.values()
    ]
    return [weakref.ref(thing) for thing in (*sessions, *channel_sessions)]


def count_alive(broker: Broker, watched: list[weakref.ref[object]]) -> int:
    return broker.call(lambda node: sum(reference() is not None for reference in watched))


@pytest.mark.parametrize("ending", ["close", "cut", "by broker", "error"])
def test_a_connection_leaves_nothing_behind(ending: str) -> None:
    gc.collect()
    gc.disable()
    try:
        with Broker() as broker, RawClient(broker.host, broker.port) as client:
            client.log_in()
            client.open_channel(1)
            queue = client.call(1, "queue.declare", exclusive=True)["queue"]
            client.call(1, "basic.consume", queue=queue)
            client.publish(1, "", str(queue), b"kept unacked")
            client.expect(1, "basic.deliver")
            watched = broker.call(watch)
            assert count_alive(broker, watched) == 2
            if ending == "close":
                client.call(0, "connection.close")
            elif ending == "by broker":
                broker.close_connections()
                client.expect(0, "connection.close")
                client.send(0, "connection.close-ok")
            elif ending == "error":
                client.send_bytes(b"\x09\x00\x00garbage" * 100)
                client.expect(0, "connection.close")
            client.socket.close()
            deadline = time.monotonic() + 5
            while count_alive(broker, watched) and time.monotonic() < deadline:
                time.sleep(0.01)
            assert count_alive(broker, watched) == 0
    finally:
        gc.enable()
