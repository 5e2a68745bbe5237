"""Transactions over a death of the broker: all of one is there or nothing of it, over queues and streams; and who
repeats what is not on disk yet is not told that it is safe."""

import time
from typing import Final

import pytest

from tests.conformance.amqp_codec import Value
from tests.crash.broker_process import BrokerProcess
from tests.crash.client import CrashClient, connected
from tests.crash.faults import FaultyDisk, wait_for
from tests.crash.stream_load import query

WORK: Final = "tx.work"
DONE: Final = "tx.done"
ONCE: Final = "tx.once"
STREAMS: Final = ("tx.stream.a", "tx.stream.b")
PERSISTENT: Final[dict[str, Value]] = {"delivery_mode": 2}
# Longer than it takes until acks that nobody waits for are synced.
_CALM_S: Final = 0.6

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def declare(port: int) -> None:
    with connected(port) as client:
        for queue in (WORK, DONE):
            client.call(1, "queue.declare", queue=queue, durable=True)
        client.call(1, "queue.declare", queue=ONCE, durable=True, arguments={"x-message-deduplication": True})
        for stream in STREAMS:
            client.call(1, "queue.declare", queue=stream, durable=True, arguments={"x-queue-type": "stream"})
        client.call(1, "confirm.select")
        for queue in (WORK, *STREAMS):
            client.publish(1, "", queue, b"before", PERSISTENT)
            client.expect(1, "basic.ack")
        client.leave()


def transact(client: CrashClient, queue: str | None, disk: FaultyDisk | None = None) -> None:
    """Takes a message of work, and says in both streams, and in a queue if there is one, that it is done. A disk, if
    there is one, hangs from then on."""
    client.call(1, "tx.select")
    got = client.call(1, "basic.get", queue=WORK)
    assert got.name == "basic.get-ok" and got.body == b"before"
    time.sleep(_CALM_S)
    if disk is not None:
        disk["sync_hangs"] = 1
    for target in (*STREAMS, *([] if queue is None else [queue])):
        client.publish(1, "", target, b"done", PERSISTENT)
    client.ack(1)
    client.send(1, "tx.commit")


def counts(port: int) -> dict[str, int]:
    with connected(port) as client:
        found = {stream: query(client, stream)[1] for stream in STREAMS}
        for queue in (WORK, DONE):
            found[queue] = client.call(1, "queue.declare", queue=queue, passive=True)["message_count"]
    return found


@pytest.mark.parametrize("queue", [DONE, None], ids=["with a queue", "acks and streams alone"])
def test_a_kill_between_streams_and_log_leaves_nothing_of_it(
    broker_on_faulty_disk: BrokerProcess, disk: FaultyDisk, queue: str | None
) -> None:
    """Streams are written before the log: the kill comes when they are, and it is not."""
    broker = broker_on_faulty_disk
    broker.start()
    declare(broker.port)
    before = counts(broker.port)
    assert before == {STREAMS[0]: 1, STREAMS[1]: 1, WORK: 1, DONE: 0}
    with connected(broker.port) as client:
        disk_hung = disk["sync_hung_count"]
        transact(client, queue, disk)
        wait_for("the sync to hang", lambda: disk["sync_hung_count"] > disk_hung)
        assert client.incoming(0.2) == [], "a commit-ok although the disk hangs"
        broker.kill()
    disk.mend()
    broker.start()
    assert counts(broker.port) == before
    with connected(broker.port) as client:
        transact(client, queue)
        client.expect(1, "tx.commit-ok")
        client.leave()
    after = {STREAMS[0]: 2, STREAMS[1]: 2, WORK: 0, DONE: 1 if queue is not None else 0}
    assert counts(broker.port) == after
    broker.kill()
    broker.start()
    assert counts(broker.port) == after, "what is committed survives"


ORIGINALS: Final[dict[str, tuple[str, dict[str, Value]]]] = {
    "a window": (ONCE, {**PERSISTENT, "message_id": "one"}),
    "a publishing id": (STREAMS[0], {**PERSISTENT, "headers": {"x-producer-name": "p", "x-publishing-id": 1}}),
}


@pytest.mark.parametrize("kind", ORIGINALS)
@pytest.mark.parametrize("mode", ["tx", "confirm"])
def test_a_duplicate_is_safe_when_its_original_is(
    broker_on_faulty_disk: BrokerProcess, disk: FaultyDisk, kind: str, mode: str
) -> None:
    broker = broker_on_faulty_disk
    broker.start()
    declare(broker.port)
    queue, properties = ORIGINALS[kind]
    answer = "tx.commit-ok" if mode == "tx" else "basic.ack"
    with connected(broker.port) as first, connected(broker.port) as second:
        for client in (first, second):
            client.call(1, f"{mode}.select")
        time.sleep(_CALM_S)
        hung = disk["sync_hung_count"]
        disk["sync_hangs"] = 1
        for client in (first, second):
            client.publish(1, "", queue, b"x", properties)
            if mode == "tx":
                client.send(1, "tx.commit")
            # The first is in flight by then: the second is a duplicate of what is in no open batch.
            wait_for("the sync to hang", lambda: disk["sync_hung_count"] > hung)
            assert client.incoming(0.5) == [], "an answer although the disk hangs"
        disk.mend()
        for client in (first, second):
            client.expect(1, answer)
    with connected(broker.port) as client:
        if queue == ONCE:
            assert client.call(1, "queue.declare", queue=ONCE, passive=True)["message_count"] == 1
        else:
            assert query(client, queue)[1] == 2
