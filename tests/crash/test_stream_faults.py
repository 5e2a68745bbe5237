"""Streams on a disk that fails, is full or has flipped bits: nothing is confirmed that is not safe, a reader passes
over what cannot be read and gets all the rest, and the broker says what is wrong."""

from pathlib import Path
from typing import Final

import pytest

from tests.conformance.amqp_codec import Value
from tests.crash.broker_process import BrokerProcess
from tests.crash.client import Address, Closed, Confirm, CrashClient, Delivery, connected
from tests.crash.fault_scenarios import await_confirms, expect_close_that_names_the_disk
from tests.crash.faults import FaultyDisk, wait_for
from tests.crash.stream_load import offset_of, query

STREAM: Final = "faulty"
BATCH: Final = 60
_ARGUMENTS: Final[dict[str, Value]] = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 8192}
_END_S_MAX: Final = 15.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def publisher_on(port: int) -> CrashClient:
    client = connected(port)
    client.call(1, "queue.declare", queue=STREAM, durable=True, arguments=_ARGUMENTS)
    client.call(1, "confirm.select")
    return client


def publish(client: CrashClient, name: str, first: int = 0) -> None:
    """Messages that say their number."""
    bodies = [f"{name}-{number}-".encode().ljust(400, b"z") for number in range(first, first + BATCH)]
    client.publish_burst(Address("", STREAM), bodies)


def read_from(port: int, offset: int, last: int) -> dict[int, bytes]:
    """What a new reader gets from here up to the last, which it must get."""
    got: dict[int, bytes] = {}
    with connected(port) as client:
        client.call(1, "basic.qos", prefetch_count=7)
        arguments: dict[str, Value] = {"x-stream-offset": offset}
        client.send(1, "basic.consume", queue=STREAM, consumer_tag="reader", arguments=arguments)

        def has_last() -> bool:
            for item in client.incoming(0.1):
                assert not isinstance(item, Closed), item
                if isinstance(item, Delivery):
                    assert offset_of(item) not in got
                    got[offset_of(item)] = item.body.partition(b"-z")[0]
                    client.ack(item.tag)
            return last in got

        wait_for(f"offset {last}", has_last, 20.0)
    assert list(got) == sorted(got)
    return got


def segments_of(broker: BrokerProcess) -> list[Path]:
    (directory,) = (broker.data_directory / "streams").iterdir()
    return sorted(directory.glob("*.segment"))


def flip_in(path: Path, needle: bytes) -> None:
    data = path.read_bytes()
    at = data.index(needle)
    with path.open("r+b") as file:
        file.seek(at)
        file.write(bytes([data[at] ^ 0x20]))


@pytest.mark.parametrize(("word", "value"), [("sync_fails_at", 1), ("write_room_bytes", 9000)])
def test_a_failed_batch_is_never_confirmed(
    broker_on_faulty_disk: BrokerProcess, disk: FaultyDisk, word: str, value: int
) -> None:
    broker = broker_on_faulty_disk
    broker.start()
    with publisher_on(broker.port) as client, connected(broker.port) as reader:
        publish(client, "safe")
        await_confirms(client, BATCH)
        reader.call(1, "basic.qos", prefetch_count=1000)
        arguments: dict[str, Value] = {"x-stream-offset": "next"}
        reader.send(1, "basic.consume", queue=STREAM, consumer_tag="tail", arguments=arguments)
        disk[word] = value
        publish(client, "failed")
        expect_close_that_names_the_disk(client)
        came = reader.incoming(5.0)
        assert not any(isinstance(item, Delivery) for item in came), "read before it was safe"
    assert broker.exit_status(_END_S_MAX) == 1, broker.log_tail()
    assert disk["sync_failed_count"] + disk["write_failed_count"] > 0
    disk.mend()
    broker.start()
    with connected(broker.port) as client:
        first, committed = query(client, STREAM)
    assert first == 0 and BATCH <= committed <= 2 * BATCH
    got = read_from(broker.port, 0, committed - 1)
    expected = [b"safe-%d" % number for number in range(BATCH)] + [b"failed-%d" % number for number in range(BATCH)]
    assert list(got.values()) == expected[:committed]


def test_a_full_disk_is_waited_for_where_a_file_must_be_made(
    broker_on_faulty_disk: BrokerProcess, disk: FaultyDisk
) -> None:
    """The next segments find no room: nothing is confirmed, nothing stops, and all goes on once there is some."""
    broker = broker_on_faulty_disk
    broker.start()
    with publisher_on(broker.port) as client:
        publish(client, "safe")
        await_confirms(client, BATCH)
        disk["write_room_bytes"] = 0
        publish(client, "late", BATCH)
        wait_for("a shortage", lambda: "waits for it" in broker.log.read_text())
        assert client.incoming(0.5) == [] and disk["write_failed_count"] > 0
        with connected(broker.port) as other:
            other.leave()
        disk.mend()
        wait_for("confirms", lambda: any(isinstance(item, Confirm) for item in client.incoming(0.1)))
    wait_for("the end of the shortage", lambda: "has what it lacked" in broker.log.read_text())
    broker.kill()
    broker.start()
    assert list(read_from(broker.port, 0, 2 * BATCH - 1)) == list(range(2 * BATCH))


@pytest.mark.parametrize("lives", [1, 2])
def test_a_flipped_bit_costs_one_message(broker: BrokerProcess, lives: int) -> None:
    """While it runs, or found by a start: it is told, everything else is there, and the stream goes on."""
    broker.start()
    with publisher_on(broker.port) as client:
        publish(client, "old")
        await_confirms(client, BATCH)
    assert len(segments_of(broker)) > 2
    if lives > 1:
        broker.stop()
    flip_in(segments_of(broker)[1], b"old-25-")
    if lives > 1:
        broker.start()
    got = read_from(broker.port, 0, BATCH - 1)
    assert list(got) == [number for number in range(BATCH) if number != 25]
    assert "passed over" in broker.log.read_text()
    # Another one, at another place, and one who wants the damaged message itself.
    assert list(read_from(broker.port, 20, BATCH - 1)) == [number for number in range(20, BATCH) if number != 25]
    assert list(read_from(broker.port, 25, BATCH - 1)) == list(range(26, BATCH))
    with publisher_on(broker.port) as client:
        publish(client, "new", BATCH)
        await_confirms(client, BATCH)
    assert read_from(broker.port, BATCH, 2 * BATCH - 1)[BATCH] == b"new-60"
    broker.stop()


def test_damage_in_the_last_segment_after_a_kill(broker: BrokerProcess) -> None:
    """The log says that it was synced, so it is no torn end: it is told, and its offset is not given again."""
    broker.start()
    with publisher_on(broker.port) as client:
        publish(client, "old")
        await_confirms(client, BATCH)
        client.publish_burst(Address("", STREAM), [b"first-", b"second-", b"third-"])
        await_confirms(client, 3)
        # The log says so by itself, a moment later.
        wait_for("evidence", lambda: segments_of(broker)[-1].read_bytes().rstrip(b"\0")[-1:] == bytes([BATCH + 3]))
        broker.kill()
    flip_in(segments_of(broker)[-1], b"second-")
    broker.start()
    assert "damage in the store" in broker.log.read_text()
    with publisher_on(broker.port) as client:
        client.publish_burst(Address("", STREAM), [b"fourth-"])
        assert client.incoming(20.0) == [Confirm(1, False, positive=True)]
    got = read_from(broker.port, BATCH, BATCH + 3)
    assert got == {BATCH: b"first-", BATCH + 2: b"third-", BATCH + 3: b"fourth-"}


def test_an_index_that_is_gone_is_only_slow(broker: BrokerProcess) -> None:
    broker.start()
    with publisher_on(broker.port) as client:
        publish(client, "old")
        await_confirms(client, BATCH)
    broker.stop()
    for path in segments_of(broker):
        path.with_suffix(".index").unlink(missing_ok=True)
    broker.start()
    assert list(read_from(broker.port, 0, BATCH - 1)) == list(range(BATCH))
    # And one that goes while it runs.
    for path in segments_of(broker):
        path.with_suffix(".index").unlink(missing_ok=True)
    assert list(read_from(broker.port, 30, BATCH - 1)) == list(range(30, BATCH))
