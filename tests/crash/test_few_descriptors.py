"""A broker with few file descriptors and many streams: what it confirms is there after a kill, and nothing stops it."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.conformance.amqp_codec import Value
from tests.crash.broker_process import BrokerProcess
from tests.crash.client import Address, connected
from tests.crash.fault_scenarios import await_confirms
from tests.crash.stream_load import query

STREAMS: Final = 300
MESSAGES: Final = 40
FANOUT: Final = "few.fanout"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture
def broker_with_few(tmp_path: Path) -> Iterator[BrokerProcess]:
    if not shutil.which("prlimit"):
        pytest.skip("prlimit is missing, which limits descriptors; install with: apt-get install util-linux")
    running = BrokerProcess(tmp_path, prefix=("prlimit", "--nofile=64:64"))
    try:
        yield running
    finally:
        running.close()


def names() -> list[str]:
    return [f"few.stream.{number}" for number in range(STREAMS)]


def test_every_stream_has_what_was_confirmed(broker_with_few: BrokerProcess) -> None:
    broker = broker_with_few
    broker.start()
    with connected(broker.port) as client:
        client.call(1, "exchange.declare", exchange=FANOUT, type="fanout", durable=True)
        stream: dict[str, Value] = {"x-queue-type": "stream"}
        for name in names():
            client.call(1, "queue.declare", queue=name, durable=True, arguments=stream)
            client.call(1, "queue.bind", queue=name, exchange=FANOUT)
        client.call(1, "confirm.select")
        for number in range(MESSAGES):
            client.publish_burst(Address(FANOUT, ""), [b"%d" % number])
        await_confirms(client, MESSAGES, 60.0)
        broker.kill()
    assert "the store stops" not in broker.log.read_text()
    broker.prefix = ()
    broker.start()
    with connected(broker.port) as client:
        found = {name: query(client, name) for name in names()}
    assert found == dict.fromkeys(names(), (0, MESSAGES))


TINY: Final[dict[str, Value]] = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 1}


def fill_tiny(broker: BrokerProcess, streams: list[str], count: int) -> None:
    with connected(broker.port) as client:
        client.call(1, "exchange.declare", exchange=FANOUT, type="fanout", durable=True)
        for name in streams:
            client.call(1, "queue.declare", queue=name, durable=True, arguments=TINY)
            client.call(1, "queue.bind", queue=name, exchange=FANOUT)
        client.call(1, "confirm.select")
        client.publish_burst(Address(FANOUT, ""), [b"%d" % number for number in range(count)])
        await_confirms(client, count, 60.0)


def segments_of(broker: BrokerProcess) -> int:
    return sum(1 for _ in broker.data_directory.glob("streams/*/*.segment"))


def test_a_file_for_each_message_is_waited_for(broker_with_few: BrokerProcess) -> None:
    """Where the node allows it: many times more files than descriptors, and it confirms, serves and recovers."""
    broker, streams = broker_with_few, names()[:20]
    broker.start()
    fill_tiny(broker, streams, MESSAGES)
    assert segments_of(broker) >= MESSAGES * len(streams)
    broker.kill()
    broker.start()
    with connected(broker.port) as client:
        assert {name: query(client, name) for name in streams} == dict.fromkeys(streams, (0, MESSAGES))
    fill_tiny(broker, streams, 1)
    assert "the store stops" not in broker.log.read_text()


def test_a_stream_cannot_ask_for_a_file_for_each_message(broker_with_few: BrokerProcess) -> None:
    broker, streams = broker_with_few, names()[:3]
    broker.configure({"streams": {"segment_bytes_min": 1024 * 1024}})
    broker.start()
    fill_tiny(broker, streams, 500)
    assert segments_of(broker) == len(streams)
    broker.kill()
    broker.start()
    with connected(broker.port) as client:
        assert {name: query(client, name) for name in streams} == dict.fromkeys(streams, (0, 500))
