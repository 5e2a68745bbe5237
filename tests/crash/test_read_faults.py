"""What cannot be read is not lost: no descriptor left, a sector that the disk cannot read, a disk that gives nothing.

Where something is short, readers wait and everything comes; one bad record costs that record, and is written down; and
only a disk that gives nothing at all stops the broker, which has everything again when the disk is mended."""

import errno
import os
import re
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from leveret.storage.quarantine import UNREADABLE, GivenUp, read_list
from tests.conformance.amqp_codec import Value
from tests.crash.broker_process import BrokerProcess
from tests.crash.client import Address, Closed, CrashClient, Delivery, connected
from tests.crash.fault_scenarios import await_confirms
from tests.crash.faults import FaultyDisk, wait_for

QUEUE: Final = "backlog"
COUNT: Final = 3000
BODY_BYTES: Final = 2000
# So many descriptors are left: none for a file.
LEFT: Final = 0
_SETTINGS: Final = {"storage": {"segment_bytes": 262144}}
_STREAM: Final[dict[str, Value]] = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 262144}
_END_S_MAX: Final = 20.0
SECTOR_BYTES: Final = 4096
# More than a record has beside its body.
RECORD_BYTES: Final = BODY_BYTES + 100

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def body(number: int) -> bytes:
    return b"%06d-" % number + b"z" * BODY_BYTES


def fill(broker: BrokerProcess, arguments: dict[str, Value]) -> None:
    """Confirmed messages that the next start has on disk alone."""
    broker.configure(_SETTINGS)
    broker.start()
    with connected(broker.port) as client:
        client.call(1, "queue.declare", queue=QUEUE, durable=True, arguments=arguments)
        client.call(1, "confirm.select")
        client.publish_burst(Address("", QUEUE), [body(number) for number in range(COUNT)])
        await_confirms(client, COUNT)
    broker.stop()
    # The next start reads the log for the last time, and writes its indexes.
    broker.start()
    broker.stop()


def near(path: Path, at: int) -> set[int]:
    """The messages that have something in the sector that is at this place."""
    sector = at // SECTOR_BYTES * SECTOR_BYTES
    data = path.read_bytes()
    starts = [found.start() for found in re.finditer(rb"\d{6}-z", data)]
    return {
        int(data[at : at + 6])
        for at in starts
        if at - RECORD_BYTES < sector + SECTOR_BYTES and sector < at + RECORD_BYTES
    }


class Consumer:
    """Takes and acks whatever comes, in order."""

    def __init__(self, client: CrashClient, arguments: dict[str, Value]) -> None:
        self._client = client
        self.got: list[int] = []
        client.call(1, "basic.qos", prefetch_count=200)
        client.send(1, "basic.consume", queue=QUEUE, consumer_tag="c", arguments=arguments)

    def take(self, wait_s: float) -> None:
        for item in self._client.incoming(wait_s):
            assert not isinstance(item, Closed), item
            if isinstance(item, Delivery):
                self.got.append(int(item.body[:6]))
                self._client.ack(item.tag)

    def take_until(self, done: Callable[[list[int]], bool], wait_s: float = 60.0) -> None:
        deadline = time.monotonic() + wait_s
        while not done(self.got):
            assert time.monotonic() < deadline, f"{len(self.got)} came within {wait_s} s"
            self.take(0.2)


def kinds() -> pytest.MarkDecorator:
    arguments = [({}, {}), (_STREAM, {"x-stream-offset": "first"})]
    return pytest.mark.parametrize(("queue_arguments", "consume_arguments"), arguments, ids=["queue", "stream"])


def limit_descriptors(broker: BrokerProcess, count: int) -> None:
    """From now on the broker may have so many more than it has."""
    assert broker.process is not None
    used = max(int(name) for name in os.listdir(f"/proc/{broker.process.pid}/fd")) + 1
    _, hard = resource.prlimit(broker.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(broker.process.pid, resource.RLIMIT_NOFILE, (used + count, hard))


def free_descriptors(broker: BrokerProcess) -> None:
    assert broker.process is not None
    _, hard = resource.prlimit(broker.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(broker.process.pid, resource.RLIMIT_NOFILE, (min(hard, 4096), hard))


def segment_with(broker: BrokerProcess, number: int) -> tuple[Path, int]:
    """The file that has this message, and where its body is."""
    for path in sorted(broker.data_directory.rglob("*.segment")):
        at = path.read_bytes().find(body(number)[:8])
        if at >= 0:
            return path, at
    raise AssertionError(f"message {number} is in no segment")


def given_up(broker: BrokerProcess) -> list[GivenUp]:
    return read_list(broker.data_directory / "quarantine" / "given-up.jsonl")


@kinds()
def test_no_descriptor_left_loses_nothing(
    broker: BrokerProcess, queue_arguments: dict[str, Value], consume_arguments: dict[str, Value]
) -> None:
    """A backlog is read while not one file can be opened; when there are descriptors again, all of it comes."""
    fill(broker, queue_arguments)
    broker.start()
    with connected(broker.port) as client:
        limit_descriptors(broker, LEFT)
        consumer = Consumer(client, consume_arguments)
        wait_for("a reader that waits", lambda: "it is tried again" in broker.log.read_text(), 20.0)
        consumer.take(1.0)
        assert broker.is_alive and len(consumer.got) < COUNT
        free_descriptors(broker)
        consumer.take_until(lambda got: len(got) >= COUNT)
    assert consumer.got == list(range(COUNT))
    assert given_up(broker) == [] and "given up" not in broker.log.read_text()
    broker.stop()


@kinds()
@pytest.mark.parametrize("number", [errno.EMFILE, errno.EACCES, errno.EIO])
def test_a_file_that_cannot_be_opened_for_a_while_loses_nothing(
    broker_on_faulty_disk: BrokerProcess,
    disk: FaultyDisk,
    queue_arguments: dict[str, Value],
    consume_arguments: dict[str, Value],
    number: int,
) -> None:
    broker = broker_on_faulty_disk
    fill(broker, queue_arguments)
    broker.start()
    with connected(broker.port) as client:
        disk["open_error"] = number
        consumer = Consumer(client, consume_arguments)
        wait_for("a file that could not be opened", lambda: disk["open_failed_count"] >= 2)
        consumer.take(0.2)
        disk["open_error"] = 0
        consumer.take_until(lambda got: len(got) >= COUNT)
    assert consumer.got == list(range(COUNT)) and given_up(broker) == []
    broker.stop()


@kinds()
def test_a_bad_sector_costs_one_record(
    broker_on_faulty_disk: BrokerProcess,
    disk: FaultyDisk,
    queue_arguments: dict[str, Value],
    consume_arguments: dict[str, Value],
) -> None:
    """The broker goes on, and says which record that was; the file that has it is kept."""
    broker = broker_on_faulty_disk
    fill(broker, queue_arguments)
    path, at = segment_with(broker, 700)
    disk.spoil(path, at + 500, at + 600)
    broker.start()
    with connected(broker.port) as client:
        consumer = Consumer(client, consume_arguments)
        consumer.take_until(lambda got: COUNT - 1 in got)
        missing = sorted(set(range(COUNT)) - set(consumer.got))
        # A stream is read by sectors, and a sector has a part of the next record as well.
        assert 700 in missing and set(missing) <= (near(path, at + 500) if queue_arguments else {700})
        assert consumer.got == [number for number in range(COUNT) if number not in missing]
        assert disk["read_failed_count"] > 0
        lines = given_up(broker)
        assert [line.reason for line in lines] == [UNREADABLE] * len(lines) and len(lines) >= 1
        assert str(path).endswith(lines[0].file) and lines[0].offset < at + 500 < lines[-1].offset + lines[-1].length
        assert lines[0].position == missing[0] + (0 if queue_arguments else 1)
        # The others go on: what is published now comes.
        client.publish_burst(Address("", QUEUE), [body(COUNT)])
        consumer.take_until(lambda got: COUNT in got)
    # A start with the same disk, and a second one: nothing stops.
    broker.stop()
    broker.start()
    broker.stop()
    found = [*broker.data_directory.rglob(path.name), *broker.data_directory.rglob(f"quarantine/*{path.name}*")]
    disk.mend()
    assert any(body(700) in one.read_bytes() for one in found), "the record stays where it is, or in quarantine"


@kinds()
def test_a_start_reads_around_a_bad_sector(
    broker_on_faulty_disk: BrokerProcess,
    disk: FaultyDisk,
    queue_arguments: dict[str, Value],
    consume_arguments: dict[str, Value],
) -> None:
    """In what no index covers, near the end: nothing is taken for a torn end, and all but what it hits is there."""
    broker = broker_on_faulty_disk
    broker.start()
    with connected(broker.port) as client:
        client.call(1, "queue.declare", queue=QUEUE, durable=True, arguments=queue_arguments)
        client.call(1, "confirm.select")
        for number in range(100):
            client.publish_burst(Address("", QUEUE), [body(number)])
        await_confirms(client, 100)
        broker.kill()
    path, at = segment_with(broker, 90)
    disk.spoil(path, at, at + 10)
    broker.start()
    with connected(broker.port) as client:
        consumer = Consumer(client, consume_arguments)
        consumer.take_until(lambda got: 99 in got)
        assert {*range(100)} - {*consumer.got} <= near(path, at) and 90 not in consumer.got
        client.publish_burst(Address("", QUEUE), [body(100)])
        consumer.take_until(lambda got: 100 in got)
    assert any(str(path).endswith(line.file) for line in given_up(broker))
    assert "damage in the store" in broker.log.read_text()
    broker.stop()
    # What could be read stays so, and the file is kept.
    broker.start()
    broker.stop()
    disk.mend()
    kept = [*broker.data_directory.rglob("*.segment"), *broker.data_directory.rglob("quarantine/*segment*")]
    assert any(body(90) in one.read_bytes() for one in kept)


def test_a_catalog_that_cannot_be_read_stops_the_start(broker_on_faulty_disk: BrokerProcess, disk: FaultyDisk) -> None:
    """Which queues exist is not guessed; the error names the file, and a mended disk has everything."""
    broker = broker_on_faulty_disk
    fill(broker, {})
    (path,) = (broker.data_directory / "catalog").glob("*.log")
    disk.spoil(path, 70, 80)
    broker.spawn()
    assert broker.exit_status(_END_S_MAX) == 1
    assert path.name in broker.log.read_text() and "Input/output error" in broker.log.read_text()
    disk.mend()
    broker.start()
    with connected(broker.port) as client:
        consumer = Consumer(client, {})
        consumer.take_until(lambda got: len(got) >= COUNT)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EACCES])
def test_a_start_that_cannot_open_a_file_changes_nothing(
    broker_on_faulty_disk: BrokerProcess, disk: FaultyDisk, number: int
) -> None:
    broker = broker_on_faulty_disk
    fill(broker, {})
    before = {path: path.read_bytes() for path in (broker.data_directory / "log").iterdir()}
    disk["open_error"] = number
    broker.spawn()
    assert broker.exit_status(_END_S_MAX) == 1
    assert os.strerror(number) in broker.log.read_text()
    disk.mend()
    assert {path: path.read_bytes() for path in (broker.data_directory / "log").iterdir()} == before


@kinds()
def test_a_bad_sector_that_can_be_read_again_costs_nothing(
    broker_on_faulty_disk: BrokerProcess,
    disk: FaultyDisk,
    queue_arguments: dict[str, Value],
    consume_arguments: dict[str, Value],
) -> None:
    broker = broker_on_faulty_disk
    fill(broker, queue_arguments)
    path, at = segment_with(broker, 10)
    broker.start()
    disk.spoil(path, at, at + 10)
    with connected(broker.port) as client:
        consumer = Consumer(client, consume_arguments)
        wait_for("a read that failed", lambda: disk["read_failed_count"] > 0)
        disk.mend()
        consumer.take_until(lambda got: len(got) >= COUNT)
    assert consumer.got == list(range(COUNT)) and given_up(broker) == []


@kinds()
def test_a_disk_that_gives_nothing_stops_the_broker_and_loses_nothing(
    broker_on_faulty_disk: BrokerProcess,
    disk: FaultyDisk,
    queue_arguments: dict[str, Value],
    consume_arguments: dict[str, Value],
) -> None:
    broker = broker_on_faulty_disk
    fill(broker, queue_arguments)
    broker.start()
    with connected(broker.port) as client:
        disk.spoil(None, 0, 1 << 40)
        Consumer(client, consume_arguments)
        assert broker.exit_status(_END_S_MAX) == 1
    assert "the disk cannot be read" in broker.log.read_text() and given_up(broker) == []
    disk.mend()
    broker.start()
    with connected(broker.port) as client:
        consumer = Consumer(client, consume_arguments)
        consumer.take_until(lambda got: len(got) >= COUNT)
    assert consumer.got == list(range(COUNT))
    broker.stop()
