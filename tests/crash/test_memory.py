"""More messages than memory: they go to disk, resident memory stays near the watermark, and nothing is lost. Whether
they wait, are with a consumer that does not acknowledge them, or have large headers and no body."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.conformance.amqp_codec import encode_properties
from tests.crash.broker_process import BrokerProcess
from tests.crash.client import Address, CrashClient, Delivery, connected
from tests.crash.volume import MIB

_WATERMARK_BYTES: Final = 128 * MIB
# What the issue allows beside the watermark.
_OVERSHOOT: Final = 1.15
_BODY_BYTES: Final = 32 * 1024
_MESSAGES: Final = 12_000
_BURST: Final = 50

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture
def small_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    running = BrokerProcess(tmp_path, {"alarms": {"memory_watermark": _WATERMARK_BYTES}})
    try:
        running.start()
        yield running
    finally:
        running.close()


def peak_bytes(broker: BrokerProcess) -> int:
    assert broker.process is not None
    status = Path(f"/proc/{broker.process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1]) * 1024


def body_of(number: int) -> bytes:
    return b"%08d" % number + bytes(_BODY_BYTES - 8)


def pass_through(broker: BrokerProcess, durable: bool, lazy: bool) -> None:
    """Three times the watermark goes into a queue and out again, in order."""
    arguments = {"x-queue-mode": "lazy"} if lazy else {}
    with connected(broker.port) as publisher:
        publisher.call(1, "queue.declare", queue="deep", durable=durable, arguments=arguments)
        address = Address("", "deep", persistent=durable)
        for start in range(0, _MESSAGES, _BURST):
            publisher.publish_burst(address, [body_of(number) for number in range(start, start + _BURST)])
        # The answer comes when all of it was taken.
        publisher.send(1, "queue.declare", queue="deep", passive=True)
        while (answer := publisher.read()).name != "queue.declare-ok":
            assert answer.name in ("connection.blocked", "connection.unblocked")
        assert answer["message_count"] == _MESSAGES
    with connected(broker.port) as consumer:
        consumer.send(1, "basic.consume", queue="deep", no_ack=True, nowait=True)
        came: list[bytes] = []
        while len(came) < _MESSAGES:
            came += [item.body[:8] for item in consumer.incoming(20.0) if isinstance(item, Delivery)]
        assert came == [b"%08d" % number for number in range(_MESSAGES)]


@pytest.mark.parametrize(("durable", "lazy"), [(False, False), (False, True), (True, False)])
def test_memory_stays_near_the_watermark(small_broker: BrokerProcess, durable: bool, lazy: bool) -> None:
    pass_through(small_broker, durable, lazy)
    assert peak_bytes(small_broker) < _WATERMARK_BYTES * _OVERSHOOT


def test_without_a_watermark_it_does_not(small_broker: BrokerProcess) -> None:
    """The control: this load is too much for a broker that is not told to save memory."""
    small_broker.stop()
    small_broker.configure({"alarms": {"memory_watermark": 1.0}})
    small_broker.start()
    pass_through(small_broker, durable=False, lazy=False)
    assert peak_bytes(small_broker) > 2 * _WATERMARK_BYTES


def taken(consumer: CrashClient, wait_s: float) -> int:
    """How many deliveries come until none does for a while."""
    count = 0
    while items := consumer.incoming(wait_s):
        count += sum(isinstance(item, Delivery) for item in items)
    return count


def test_what_is_not_acknowledged_goes_to_disk_and_comes_back(small_broker: BrokerProcess) -> None:
    """Three times the watermark is with a consumer that acknowledges nothing."""
    address = Address("", "held", persistent=False)
    with connected(small_broker.port) as consumer:
        with connected(small_broker.port) as publisher:
            consumer.call(1, "queue.declare", queue="held")
            consumer.send(1, "basic.consume", queue="held", nowait=True)
            came = 0
            for start in range(0, _MESSAGES, _BURST):
                publisher.publish_burst(address, [body_of(number) for number in range(start, start + _BURST)])
                while came < start:
                    came += taken(consumer, 0.02)
            while came < _MESSAGES:
                came += taken(consumer, 0.02)
        assert peak_bytes(small_broker) < _WATERMARK_BYTES * _OVERSHOOT
    with connected(small_broker.port) as consumer:
        consumer.send(1, "basic.consume", queue="held", no_ack=True, nowait=True)
        again: list[bytes] = []
        while len(again) < _MESSAGES:
            again += [item.body[:8] for item in consumer.incoming(20.0) if isinstance(item, Delivery)]
        assert again == [b"%08d" % number for number in range(_MESSAGES)]


def test_messages_with_nothing_but_headers_go_to_disk(small_broker: BrokerProcess) -> None:
    headed = encode_properties({"headers": {"big": "h" * 16_000}})
    with connected(small_broker.port) as publisher:
        publisher.call(1, "queue.declare", queue="headed")
        address = Address("", "headed", persistent=False)
        for _ in range(0, _MESSAGES, _BURST):
            publisher.publish_burst(address, [b""] * 2 * _BURST, [headed] * 2 * _BURST)
        publisher.send(1, "queue.declare", queue="headed", passive=True)
        while (answer := publisher.read()).name != "queue.declare-ok":
            assert answer.name in ("connection.blocked", "connection.unblocked")
        assert answer["message_count"] == 2 * _MESSAGES
    assert peak_bytes(small_broker) < _WATERMARK_BYTES * _OVERSHOOT


def resident_bytes(broker: BrokerProcess) -> int:
    assert broker.process is not None
    pages = Path(f"/proc/{broker.process.pid}/statm").read_text().split()[1]
    return int(pages) * 4096


def test_a_backlog_that_has_gone_gives_its_memory_back(small_broker: BrokerProcess) -> None:
    """Without any shortage, and although some messages stay in between."""
    small_broker.stop()
    small_broker.configure({"alarms": {"memory_watermark": 1.0}})
    small_broker.start()
    with connected(small_broker.port) as client:
        for queue in ("deep", "kept"):
            client.call(1, "queue.declare", queue=queue)
        for start in range(0, _MESSAGES, _BURST):
            bodies = [body_of(number)[:8192] for number in range(start, start + 4 * _BURST)]
            client.publish_burst(Address("", "deep", persistent=False), bodies)
            client.publish_burst(Address("", "kept", persistent=False), [b"x" * 600])
        assert client.call(1, "queue.declare", queue="deep", passive=True)["message_count"] == 4 * _MESSAGES
        full = resident_bytes(small_broker)
        assert full > 350 * MIB
        client.call(1, "queue.purge", queue="deep")
        deadline = time.monotonic() + 20
        while resident_bytes(small_broker) > full - 300 * MIB:
            assert time.monotonic() < deadline, (
                f"{resident_bytes(small_broker) // MIB} of {full // MIB} MiB are still held"
            )
            time.sleep(0.1)
