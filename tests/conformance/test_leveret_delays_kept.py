"""Delayed messages over time: a restart in the middle, how punctual they are, and what a hundred thousand cost."""

import statistics
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.amqp_codec import FRAME_BODY, FRAME_HEADER, encode_frame, encode_method, encode_properties
from tests.conformance.own_broker import PERSISTENT, connected, delayed_count, held_count, running
from tests.conformance.raw_client import RawClient
from tests.conformance.target import LeveretProcess, RestartableTarget
from tests.conformance.topology import Topology, deliveries
from tests.contract.letters import Publisher, collect, collect_bodies, ready, stays_empty

SAMPLES = 50
MANY = 100_000
BODY_BYTES = 1024
# All that one message costs while it waits: its place in the index, and what the log keeps in memory.
RSS_BYTES_EACH_MAX = 1536


def after(delay_ms: int, **more: Any) -> dict[str, Any]:
    return {"headers": {"x-delay": delay_ms}, **more}


def declare(client: RawClient) -> None:
    """A durable queue q, and a durable delayed exchange x that leads to it."""
    client.call(1, "queue.declare", queue="q", durable=True)
    arguments = {"x-delayed-type": "direct"}
    client.call(1, "exchange.declare", exchange="x", type="x-delayed-message", durable=True, arguments=arguments)
    client.call(1, "queue.bind", queue="q", exchange="x", routing_key="q")


@pytest.mark.parametrize("exchange", ["", "x"])
def test_a_restart_in_the_middle(tmp_path: Path, exchange: str) -> None:
    """What became due meanwhile comes at once, the rest at its time; what is not persistent is gone."""
    with running(tmp_path) as broker, connected(broker) as client:
        declare(client)
        publisher = Publisher(client)
        began = time.monotonic()
        for body, delay_ms in ((b"last", 9000), (b"first", 300), (b"second", 300), (b"third", 8500)):
            assert publisher.publish("q", body, exchange=exchange, **after(delay_ms, **PERSISTENT)) == "ack"
        assert publisher.publish("q", b"transient", exchange=exchange, **after(300)) == "ack"
    time.sleep(max(0.0, began + 0.4 - time.monotonic()))
    with running(tmp_path) as broker, connected(broker) as client:
        letters = collect(client, "q", 2)
        assert [letter.body for letter in letters] == [b"first", b"second"]
        assert [letter["redelivered"] for letter in letters] == [False, False]
        assert letters[0].properties["headers"] == {"x-delay": -300}
        waiting = delayed_count(broker, "q") if exchange == "" else held_count(broker, exchange)
        # Unless the restart took so long that they were due as well.
        assert waiting == 2 or time.monotonic() - began >= 8.5
        assert collect_bodies(client, "q", 2) == [b"third", b"last"]
        assert time.monotonic() - began >= 8.99
        stays_empty(client, "q")


@pytest.mark.parametrize("exchange", ["", "x"])
def test_what_was_delivered_or_cancelled_does_not_come_again(tmp_path: Path, exchange: str) -> None:
    place = {"queue": "q"} if exchange == "" else {"exchange": exchange}
    with running(tmp_path) as broker, connected(broker) as client:
        declare(client)
        publisher = Publisher(client)
        for body, delay_ms in ((b"delivered", 100), (b"cancelled", 1000), (b"kept", 1500)):
            assert publisher.publish("q", body, exchange=exchange, **after(delay_ms, **PERSISTENT)) == "ack"
        letter = collect(client, "q", 1, no_ack=False)[0]
        client.send(1, "basic.ack", delivery_tag=letter["delivery_tag"])
        first = broker.call(lambda node: node.delayed.list("/", **place, limit=1))[0]
        assert broker.call(lambda node: node.delayed.cancel("/", first.id, **place))
        client.log_out()
    with running(tmp_path) as broker, connected(broker) as client:
        assert collect_bodies(client, "q", 1) == [b"kept"]
        stays_empty(client, "q")


@pytest.mark.parametrize("exchange", ["", "x"])
def test_what_was_deleted_does_not_come_again(tmp_path: Path, exchange: str) -> None:
    """Not even to a queue or exchange of the same name."""
    with running(tmp_path) as broker, connected(broker) as client:
        declare(client)
        publisher = Publisher(client)
        assert publisher.publish("q", b"gone", exchange=exchange, **after(200, **PERSISTENT)) == "ack"
        client.call(1, "queue.delete", queue="q")
        client.call(1, "exchange.delete", exchange="x")
    with running(tmp_path) as broker, connected(broker) as client:
        declare(client)
        assert (delayed_count(broker, "q"), held_count(broker, "x")) == (0, 0)
        stays_empty(client, "q")


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("exchange", ["", "x"])
def test_a_kill_in_the_middle(server_process: RestartableTarget, exchange: str) -> None:
    with connected(server_process) as client:
        declare(client)
        publisher = Publisher(client)
        began = time.monotonic()
        for body, delay_ms in ((b"soon", 200), (b"later", 6000)):
            assert publisher.publish("q", body, exchange=exchange, **after(delay_ms, **PERSISTENT)) == "ack"
        assert collect(client, "q", 1, no_ack=False)[0].body == b"soon"
    server_process.kill()
    server_process.start()
    started_in_time = time.monotonic() - began < 5.0
    with connected(server_process) as client:
        bodies = collect_bodies(client, "q", 2)
        assert sorted(bodies) == [b"later", b"soon"]
        if started_in_time:
            assert bodies == [b"soon", b"later"]
        assert time.monotonic() - began >= 5.9


@pytest.mark.parametrize("kind", ["direct", "x-delayed-message"])
def test_how_punctual_they_are(client: RawClient, connect: Any, topology: Topology, kind: str) -> None:
    arguments = {"x-delayed-type": "direct"} if kind == "x-delayed-message" else {}
    exchange = topology.exchange(client, kind, arguments=arguments)
    queue = topology.bound_queue(client, exchange, "key")
    client.call(1, "basic.consume", queue=queue, no_ack=True)
    other = connect()
    due = {}
    for number in range(SAMPLES):
        delay_ms = 500 + 37 * number % 1000
        due[number] = time.monotonic() * 1000 + delay_ms
        other.publish(1, exchange, "key", b"%d" % number, after(delay_ms))
    late = []
    for _ in range(SAMPLES):
        body = client.expect(1, "basic.deliver").body
        late.append(time.monotonic() * 1000 - due[int(body)])
    late.sort()
    # At light load on a free machine the median is about a millisecond; this one may be busy.
    print(f"late by (ms): least {late[0]:.1f}, median {statistics.median(late):.1f}, most {late[-1]:.1f}")  # noqa: T201
    assert late[0] > -5
    assert statistics.median(late) < 50


def rss_bytes(process: LeveretProcess) -> int:
    assert process.process is not None
    for line in Path(f"/proc/{process.process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def publish_many(client: RawClient, queue: str, count: int, properties: dict[str, Any]) -> None:
    """Publishes numbered bodies as fast as it can, with confirms."""
    client.call(1, "confirm.select")
    method = encode_frame(1, 1, encode_method("basic.publish", {"exchange": "", "routing_key": queue}))
    header = struct.pack(">HHQ", 60, 0, BODY_BYTES) + encode_properties(properties)
    head = method + encode_frame(FRAME_HEADER, 1, header)
    step = 1000
    for start in range(0, count, step):
        bodies = ((b"%d" % number).ljust(BODY_BYTES) for number in range(start, min(count, start + step)))
        client.send_bytes(b"".join(head + encode_frame(FRAME_BODY, 1, body) for body in bodies))
    confirmed = 0
    while confirmed < count:
        confirmed = client.expect(1, "basic.ack")["delivery_tag"]


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.timeout(240)
def test_a_hundred_thousand_cost_little(tmp_path: Path) -> None:
    server = LeveretProcess(tmp_path / "data")
    try:
        server.start()
        with connected(server) as client, connected(server) as consumer:
            client.call(1, "queue.declare", queue="q", durable=True)
            before = rss_bytes(server)
            began = time.monotonic()
            publish_many(client, "q", MANY, after(20_000, **PERSISTENT))
            took = time.monotonic() - began
            assert took < 20, "this machine is too slow for this test: the first were due before the last was sent"
            each = (rss_bytes(server) - before) / MANY
            print(f"published in {took:.1f} s; {each:.0f} octets of memory for each message of {BODY_BYTES}")  # noqa: T201
            assert each < RSS_BYTES_EACH_MAX
            assert ready(client, "q") == 0
            consumer.call(1, "basic.consume", queue="q", no_ack=True)
            seen = [int(method.body) for method in deliveries(consumer, MANY)]
            print(f"all delivered {time.monotonic() - began:.1f} s after the first was published")  # noqa: T201
            assert seen == list(range(MANY))
            consumer.expect_quiet()
    finally:
        server.stop()
