"""A disk that fails, is full, slow, or hangs: the broker never confirms what is not safe, and says what is wrong.

A failed write or sync is the end of the store: every connection is closed with the reason, the process ends, and the
next one finds everything that was confirmed."""

import time
from contextlib import suppress
from typing import Self

import pytest

from tests.conformance.server_process import speaks_amqp
from tests.crash.broker_process import BrokerProcess
from tests.crash.client import Address, CrashClient, connected
from tests.crash.fault_scenarios import (
    BATCH,
    await_confirms,
    bodies_in_queue,
    everything_until_the_end,
    fail_a_batch,
    names_the_disk,
    publish_batch,
    publisher_on,
    run_load,
)
from tests.crash.faults import FaultyDisk, wait_for
from tests.crash.rounds import SMALL_SEGMENTS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.mark.parametrize(("word", "value"), [("sync_fails_at", 1), ("write_room_bytes", 0)])
def test_a_failed_batch_is_never_confirmed(
    broker_on_faulty_disk: BrokerProcess, disk: FaultyDisk, word: str, value: int
) -> None:
    fail_a_batch(broker_on_faulty_disk, disk, word, value)


@pytest.mark.parametrize("countdown", [1, 2, 20])
def test_sync_error_under_load(broker_on_faulty_disk: BrokerProcess, disk: FaultyDisk, countdown: int) -> None:
    # With small segments some of the syncs are those of new files and of their directory.
    broker_on_faulty_disk.configure(SMALL_SEGMENTS)
    history = run_load(broker_on_faulty_disk, disk, {"sync_fails_at": countdown}, fatal=True)
    assert disk["sync_failed_count"] == 1
    assert all(map(names_the_disk, history.refusals)), history.refusals[:5]


def test_no_space_under_load(broker_on_faulty_disk: BrokerProcess, disk: FaultyDisk) -> None:
    history = run_load(broker_on_faulty_disk, disk, {"write_room_bytes": 300_000}, fatal=True)
    assert disk["write_failed_count"] > 0
    assert all(map(names_the_disk, history.refusals)), history.refusals[:5]


@pytest.mark.parametrize(("word", "value"), [("sync_fails_at", 1), ("sync_fails_at", 2), ("write_room_bytes", 0)])
def test_a_disk_that_fails_at_boot(
    broker_on_faulty_disk: BrokerProcess, disk: FaultyDisk, word: str, value: int
) -> None:
    """The boot may fail, or come to serve if it needs to write nothing; either way nothing is harmed."""
    broker = broker_on_faulty_disk
    broker.start()
    with publisher_on(broker.port) as client:
        publish_batch(client, "safe")
        await_confirms(client, BATCH)
    broker.kill()
    disk[word] = value
    broker.spawn()
    wait_for("the end of the boot", lambda: not broker.is_alive or speaks_amqp(broker.port), 20.0)
    assert broker.is_alive or broker.exit_status(1.0) == 1, broker.log_tail()
    broker.kill()
    disk.mend()
    broker.start()
    assert bodies_in_queue(broker.port) == [f"safe-{place}".encode() for place in range(BATCH)]


def test_short_writes_are_harmless(broker_on_faulty_disk: BrokerProcess, disk: FaultyDisk) -> None:
    history = run_load(broker_on_faulty_disk, disk, {"short_every": 3}, fatal=False)
    assert disk["write_short_count"] > 0
    assert not history.refusals


def test_a_slow_disk_is_only_slow(broker_on_faulty_disk: BrokerProcess, disk: FaultyDisk) -> None:
    history = run_load(broker_on_faulty_disk, disk, {"sync_delay_ms": 50}, fatal=False)
    assert not history.refusals


def test_a_slow_disk_commits_in_groups(broker_on_faulty_disk: BrokerProcess, disk: FaultyDisk) -> None:
    """Ten batches on a disk that takes 50 ms for a sync: some syncs, not one for each message."""
    broker_on_faulty_disk.start()
    with publisher_on(broker_on_faulty_disk.port) as client:
        disk["sync_delay_ms"] = 50
        syncs = disk["sync_count"]
        for number in range(10):
            publish_batch(client, str(number))
        await_confirms(client, 10 * BATCH)
        assert disk["sync_count"] - syncs < 100


class Neighbour:
    """A client who has nothing to do with the disk: transient messages through a transient queue."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.client = connected(port)
        self.client.call(1, "queue.declare", queue="neighbour", exclusive=True)
        self.client.call(1, "basic.consume", queue="neighbour", no_ack=True)
        self.address = Address("", "neighbour", persistent=False)
        self.worst_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.socket.close()

    def round_trip(self) -> None:
        begun = time.monotonic()
        self.client.publish_burst(self.address, [b"ping"])
        assert self.client.incoming(20.0), "nothing came back"
        self.worst_s = max(self.worst_s, time.monotonic() - begun)

    def log_in(self) -> None:
        """A new connection, as a newcomer or a health check makes it."""
        begun = time.monotonic()
        with connected(self.port) as newcomer:
            newcomer.leave()
        self.worst_s = max(self.worst_s, time.monotonic() - begun)


def heartbeats_within(client: CrashClient) -> int:
    """How many heartbeats have come; answers as a decent client does."""
    client.send_frame(8, 0, b"")
    count = 0
    client.socket.settimeout(0.01)
    with suppress(TimeoutError):
        while chunk := client.socket.recv(1 << 16):
            client.received += chunk
        raise AssertionError("the broker closed a connection whose heartbeats were answered")
    while client.received:
        count += client.read_frame().kind == 8
    return count


def test_a_hung_disk_holds_up_nobody_else(broker_on_faulty_disk: BrokerProcess, disk: FaultyDisk) -> None:
    broker_on_faulty_disk.start()
    port = broker_on_faulty_disk.port
    with publisher_on(port) as client, connected(port, heartbeat=1) as beating, Neighbour(port) as neighbour:
        neighbour.round_trip()
        disk["sync_hangs"] = 1
        publish_batch(client, "held up")
        wait_for("the sync to hang", lambda: disk["sync_hung_count"] > 0)
        hung_until = time.monotonic() + 3.0
        beats = 0
        while time.monotonic() < hung_until:
            neighbour.round_trip()
            neighbour.log_in()
            beats += heartbeats_within(beating)
            assert client.incoming(0.02) == [], "a confirm although the disk hangs"
        assert neighbour.worst_s < 0.5, f"a neighbour waited {neighbour.worst_s:.3f} s"
        assert beats >= 2, f"{beats} heartbeats in 3 s"
        disk.mend()
        await_confirms(client, BATCH)


def test_a_kill_while_the_disk_hangs(broker_on_faulty_disk: BrokerProcess, disk: FaultyDisk) -> None:
    """Nothing of what waits is confirmed; what was confirmed before is there."""
    broker_on_faulty_disk.start()
    with publisher_on(broker_on_faulty_disk.port) as client:
        publish_batch(client, "safe")
        await_confirms(client, BATCH)
        disk["sync_hangs"] = 1
        publish_batch(client, "held up")
        wait_for("the sync to hang", lambda: disk["sync_hung_count"] > 0)
        broker_on_faulty_disk.kill()
        everything_until_the_end(client)
    disk.mend()
    broker_on_faulty_disk.start()
    assert bodies_in_queue(broker_on_faulty_disk.port)[:BATCH] == [f"safe-{place}".encode() for place in range(BATCH)]
