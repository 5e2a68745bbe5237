"""What a disk with faults is put through: one batch that fails, and the whole load on a disk that gets worse.

Shared by the tests of the faults and by the controls that break a rule to see these scenarios fail."""

import random
import time
from contextlib import suppress
from typing import Final

from tests.crash import checkers
from tests.crash.broker_process import BrokerProcess
from tests.crash.client import Address, Closed, Confirm, ConnectionLost, CrashClient, Delivery, Incoming, connected
from tests.crash.faults import FaultyDisk
from tests.crash.history import History
from tests.crash.load import Load, abandon_quietly, declare, drain

BATCH: Final = 50
_QUEUE: Final = "faulty"
_END_S_MAX: Final = 15.0


def publisher_on(port: int) -> CrashClient:
    """A connection with confirms and a durable queue."""
    client = connected(port)
    client.call(1, "queue.declare", queue=_QUEUE, durable=True)
    client.call(1, "confirm.select")
    return client


def publish_batch(client: CrashClient, name: str) -> None:
    client.publish_burst(Address("", _QUEUE), [f"{name}-{place}".encode() for place in range(BATCH)])


def await_confirms(client: CrashClient, last_tag: int, wait_s: float = 20.0) -> None:
    """Returns when everything up to this tag is confirmed."""
    deadline = time.monotonic() + wait_s
    waiting = set(range(1, last_tag + 1))
    while waiting:
        assert time.monotonic() < deadline, f"{len(waiting)} confirms did not come within {wait_s} s"
        for item in client.incoming(0.1):
            assert isinstance(item, Confirm) and item.positive, item
            waiting -= set(range(1, item.tag + 1)) if item.multiple else {item.tag}


def everything_until_the_end(client: CrashClient) -> list[Incoming]:
    """What comes until the broker has closed the connection. Nothing of it may be a confirm."""
    came: list[Incoming] = []
    deadline = time.monotonic() + _END_S_MAX
    with suppress(*ConnectionLost):
        while not any(isinstance(item, Closed) for item in came):
            assert time.monotonic() < deadline, f"the connection is still open after {_END_S_MAX} s"
            came += client.incoming(0.1)
            confirms = [item for item in came if isinstance(item, Confirm) and item.positive]
            assert not confirms, f"a confirm for a failed batch: {confirms}"
    return came


def expect_close_that_names_the_disk(client: CrashClient) -> None:
    """No confirm any more, and a connection.close that says why."""
    came = everything_until_the_end(client)
    closes = [item.reason for item in came if isinstance(item, Closed)]
    assert len(closes) == 1 and closes[0].startswith("connection.close"), f"no connection.close but {came}"
    assert names_the_disk(closes[0]), closes[0]


def names_the_disk(reason: str) -> bool:
    """Whether a client, or who looks after it, learns from this what is wrong."""
    return any(word in reason.lower() for word in ("storage", "disk"))


def bodies_in_queue(port: int) -> list[bytes]:
    bodies = []
    with connected(port) as client:
        while (got := client.call(1, "basic.get", queue=_QUEUE, no_ack=True)).name == "basic.get-ok":
            bodies.append(got.body)
    return bodies


def fail_a_batch(broker: BrokerProcess, disk: FaultyDisk, word: str, value: int) -> None:
    """The next sync or write fails, once or for good; a retry would seem to succeed and must not be trusted."""
    broker.start()
    port = broker.port
    with publisher_on(port) as client, connected(port) as bystander:
        publish_batch(client, "safe")
        await_confirms(client, BATCH)
        disk[word] = value
        publish_batch(client, "failed")
        expect_close_that_names_the_disk(client)
        expect_close_that_names_the_disk(bystander)
    assert broker.exit_status(_END_S_MAX) == 1, broker.log_tail()
    assert disk["sync_failed_count"] + disk["write_failed_count"] > 0
    disk.mend()
    broker.start()
    bodies = bodies_in_queue(port)
    assert bodies[:BATCH] == [f"safe-{place}".encode() for place in range(BATCH)]
    assert set(bodies[BATCH:]) <= {f"failed-{place}".encode() for place in range(BATCH)}


def run_load(broker: BrokerProcess, disk: FaultyDisk, faults: dict[str, int], fatal: bool) -> History:
    """Brings the faults on under load and judges what is there after a crash and a restart on a good disk."""
    history = History()
    broker.start()
    declare(broker.port)
    load = Load(broker.port, history, seed=random.randrange(1 << 30))
    try:
        load.start()
        load.wait_until_under_way()
        for word, value in faults.items():
            disk[word] = value
        if fatal:
            assert broker.exit_status(_END_S_MAX) == 1, broker.log_tail()
        else:
            load.wait_until_under_way()
            time.sleep(1.5)
            broker.kill()
        history.life += 1
        disk.mend()
        broker.start()
        load.wait_until_under_way()
        load.stop()
        drain(broker.port, history)
    finally:
        abandon_quietly(load)
    checkers.check(history, power_loss=fatal)
    return history


def comes_marked_after_a_kill(broker: BrokerProcess, queue: str) -> bool:
    """Kills the broker the moment a consumer has read a message: whether the next one to get it knows that."""
    with connected(broker.port) as client:
        client.call(1, "queue.declare", queue=queue, durable=True)
        client.call(1, "confirm.select")
        client.publish_burst(Address("", queue), [b"message"])
        assert client.incoming(20.0) == [Confirm(1, False, positive=True)]
        client.send(1, "basic.consume", queue=queue)
        while not any(isinstance(item, Delivery) for item in client.incoming(20.0)):
            pass
        broker.kill()
    broker.start()
    with connected(broker.port) as client:
        return bool(client.call(1, "basic.get", queue=queue)["redelivered"])
