"""Files go only when that is on disk which made them superfluous: dead letters elsewhere, or the end of a stream."""

import time
from typing import Final

import pytest

from tests.crash.broker_process import BrokerProcess
from tests.crash.client import Address, CrashClient, Delivery, connected
from tests.crash.fault_scenarios import await_confirms
from tests.crash.faults import FaultyDisk, wait_for
from tests.crash.stream_load import query

_MESSAGES: Final = 60
_BODY_BYTES: Final = 3000

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


def held_by(client: CrashClient, queue: str) -> list[Delivery]:
    """Everything in the queue, delivered and not acknowledged."""
    client.send(1, "basic.consume", queue=queue)
    held: list[Delivery] = []

    def has_all() -> bool:
        held.extend(item for item in client.incoming(0.2) if isinstance(item, Delivery))
        return len(held) == _MESSAGES

    wait_for("all messages", has_all)
    return held


def numbers_in(port: int, *queues: str) -> list[int]:
    found = []
    with connected(port) as client:
        for queue in queues:
            while (got := client.call(1, "basic.get", queue=queue, no_ack=True)).name == "basic.get-ok":
                found.append(int(got.body[:6]))
    return found


def test_dead_letters_that_never_reach_the_disk(broker_on_faulty_disk: BrokerProcess, disk: FaultyDisk) -> None:
    """All messages of full segments are rejected while a batch is being synced, and the next one cannot be written."""
    broker = broker_on_faulty_disk
    broker.configure({"storage": {"segment_bytes": 64 * 1024}})
    broker.start()
    with connected(broker.port) as publisher, connected(broker.port) as consumer:
        buried = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        publisher.call(1, "queue.declare", queue="dead", durable=True)
        publisher.call(1, "queue.declare", queue="work", durable=True, arguments=buried)
        publisher.call(1, "confirm.select")
        bodies = [b"%06d" % number + bytes(_BODY_BYTES) for number in range(_MESSAGES)]
        publisher.publish_burst(Address("", "work"), bodies)
        await_confirms(publisher, _MESSAGES)
        held = held_by(consumer, "work")
        # What was delivered is noted, and the full segments have their indexes.
        time.sleep(0.5)
        disk["sync_delay_ms"] = 500
        written = disk["write_count"]
        publisher.publish_burst(Address("", "dead"), [b"%06d" % _MESSAGES])
        wait_for("a batch that is being synced", lambda: disk["write_count"] > written)
        for delivery in held:
            consumer.reject(delivery.tag)
        time.sleep(0.15)
        disk["write_room_bytes"] = 0
        assert broker.exit_status(15.0) == 1, broker.log_tail()
    disk.mend()
    broker.start()
    found = numbers_in(broker.port, "work", "dead")
    assert sorted(set(found) & set(range(_MESSAGES))) == list(range(_MESSAGES))
    assert len(found) == len(set(found))


def test_a_deletion_that_never_reaches_the_disk(broker_on_faulty_disk: BrokerProcess, disk: FaultyDisk) -> None:
    """The catalog still has the stream after a restart, so it has its messages, too."""
    broker = broker_on_faulty_disk
    broker.start()
    with connected(broker.port) as client:
        client.call(1, "queue.declare", queue="doomed", durable=True, arguments={"x-queue-type": "stream"})
        client.call(1, "confirm.select")
        client.publish_burst(Address("", "doomed"), [b"message"] * _MESSAGES)
        await_confirms(client, _MESSAGES)
        disk["write_room_bytes"] = 0
        client.send(1, "queue.delete", queue="doomed")
        assert broker.exit_status(15.0) == 1, broker.log_tail()
    disk.mend()
    broker.start()
    with connected(broker.port) as client:
        assert query(client, "doomed") == (0, _MESSAGES)
