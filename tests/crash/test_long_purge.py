"""A purge of a long queue, let go in several turns: what was answered, or stopped in good order, stays purged."""

import time
from typing import Any, Final

import pytest

from tests.conformance.raw_client import RawClient
from tests.crash.broker_process import BrokerProcess
from tests.unit.queues.dataplane import publish_frames

# Several steps of core.queue.release.
MESSAGES: Final = 70_000
QUEUE: Final = "long"
PERSISTENT: Final = {"delivery_mode": 2}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


def connected(broker: BrokerProcess) -> RawClient:
    client = RawClient("127.0.0.1", broker.port).log_in()
    client.open_channel(1)
    return client


def count(client: RawClient, queue: str = QUEUE) -> int:
    found: int = client.call(1, "queue.declare", queue=queue, durable=True, passive=True)["message_count"]
    return found


def fill(client: Any) -> None:
    client.call(1, "queue.declare", queue=QUEUE, durable=True)
    client.socket.sendall(publish_frames(1, "", QUEUE, b"x", PERSISTENT) * MESSAGES)
    assert count(client) == MESSAGES


def test_a_kill_behind_a_confirm_brings_nothing_back(broker: BrokerProcess) -> None:
    broker.start()
    with connected(broker) as client:
        fill(client)
        client.open_channel(2)
        client.call(2, "confirm.select")
        client.send(1, "queue.purge", queue=QUEUE)
        client.publish(2, "", QUEUE, b"behind it", PERSISTENT)
        assert client.expect(1, "queue.purge-ok")["message_count"] == MESSAGES
        client.expect(2, "basic.ack")
    broker.kill()
    broker.start()
    with connected(broker) as client:
        assert count(client) == 1


def test_an_orderly_stop_finishes_a_purge_that_nobody_waits_for(broker: BrokerProcess) -> None:
    broker.start()
    with connected(broker) as client:
        fill(client)
        client.send(1, "queue.purge", queue=QUEUE, nowait=True)
        # Another client is answered while the purge goes on, or behind it.
        with connected(broker) as other:
            deadline = time.monotonic() + 30.0
            while count(other):
                assert time.monotonic() < deadline
        broker.stop()
    broker.start()
    with connected(broker) as client:
        assert count(client) == 0
