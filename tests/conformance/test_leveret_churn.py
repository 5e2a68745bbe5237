"""What comes and goes leaves nothing behind: no object, and no cycle of objects that waits for the garbage collector.

The collector is off while things come and go. A full collection is rare in a broker, because it stops everybody while
it looks at everything: whatever waits for one may hold memory for hours, and with it a memory alarm."""

import gc
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from leveret.wire import stream_commands as commands
from leveret.wire.stream_commands import OffsetSpec
from tests.conformance.http_scene import EventStream
from tests.conformance.own_broker import running
from tests.conformance.raw_client import RawClient
from tests.conformance.raw_stream_client import RawStreamClient
from tests.http_client import Api

WARM_UP_ROUNDS = 20
ROUNDS = 90
# What is left may be less than this, however many rounds there are: entries of the timer queue that were overtaken,
# deleted exchanges that a channel remembers.
LEFT_MAX = 80
# Rings of what happened lately keep so much on purpose, and the parts of their entries with it.
HISTORY = ("leveret.broker.events.Event", "leveret.auth.audit.Noted", "array.array", "builtins.tuple")
SETTLED_S = 20.0
EMPTY: dict[str, Any] = {}


class Scene:
    def __init__(self, broker: Any) -> None:
        self.broker = broker
        self.api = Api(broker)
        self.client = RawClient(broker.host, broker.port)
        self.client.log_in().open_channel(1)

    def connect(self, vhost: str = "/", **wishes: int) -> RawClient:
        return RawClient(self.broker.host, self.broker.port).log_in(vhost, **wishes)

    @contextmanager
    def channel(self) -> Iterator[RawClient]:
        self.client.open_channel(2)
        yield self.client
        self.client.call(2, "channel.close")

    def ask(self, method: str, path: str, body: Any = None) -> None:
        status = self.api.ask(method, path, body).status
        assert status in (200, 201, 204), f"{method} {path}: {status}"


# ---- what comes and goes


def channels(scene: Scene, _number: int) -> None:
    with scene.channel() as client:
        client.call(2, "confirm.select")
    with scene.channel() as client:
        client.call(2, "tx.select")
        client.call(2, "queue.declare", queue="in-tx")
        client.publish(2, "", "in-tx", b"x")
        client.call(2, "tx.commit")
        client.call(2, "basic.get", queue="in-tx")
        client.send(2, "basic.ack", delivery_tag=1)
        client.call(2, "tx.rollback")
        client.call(2, "queue.delete", queue="in-tx")


def failed_channels(scene: Scene, _number: int) -> None:
    client = scene.client
    client.open_channel(2)
    client.send(2, "queue.declare", queue="missing", passive=True)
    client.expect(2, "channel.close")
    client.send(2, "channel.close-ok")


def queues_with_consumers(scene: Scene, number: int) -> None:
    client = scene.client
    client.call(1, "queue.declare", queue="consumed", durable=number % 2 == 1)
    for tag in "abc":
        client.call(1, "basic.consume", queue="consumed", consumer_tag=tag)
    client.publish(1, "", "consumed", b"x", {"delivery_mode": 2})
    delivery = client.expect(1, "basic.deliver")
    client.send(1, "basic.ack", delivery_tag=delivery["delivery_tag"])
    client.call(1, "queue.delete", queue="consumed")
    assert {client.expect(1, "basic.cancel")["consumer_tag"] for _ in range(3)} == {"a", "b", "c"}


def queues_with_unacked(scene: Scene, _number: int) -> None:
    """By priority, with a single active consumer, which holds one message when its queue goes."""
    client = scene.client
    arguments = {"x-max-priority": 5, "x-single-active-consumer": True}
    client.call(1, "queue.declare", queue="ranked", arguments=arguments)
    client.open_channel(2)
    client.call(2, "basic.qos", prefetch_count=1)
    client.call(2, "basic.consume", queue="ranked", consumer_tag="a")
    client.call(1, "basic.consume", queue="ranked", consumer_tag="b")
    for _ in range(2):
        client.publish(1, "", "ranked", b"x")
    client.expect(2, "basic.deliver")
    client.call(1, "queue.delete", queue="ranked")
    assert {client.read().name for _ in range(2)} == {"basic.cancel"}
    client.call(2, "channel.close")


def auto_delete_queues(scene: Scene, _number: int) -> None:
    client = scene.client
    client.call(1, "queue.declare", queue="passing", auto_delete=True)
    client.call(1, "basic.consume", queue="passing", consumer_tag="a")
    client.call(1, "basic.cancel", consumer_tag="a")


def connections(scene: Scene, number: int) -> None:
    with scene.connect(heartbeat=number % 2 * 60) as client:
        client.open_channel(1)
        client.call(1, "queue.declare", queue="mine", exclusive=True)
        client.call(1, "basic.consume", queue="mine", consumer_tag="a")
        client.publish(1, "", "mine", b"x")
        client.expect(1, "basic.deliver")
        if number % 2:
            client.log_out()
    wait_until(lambda: scene.broker.call(lambda node: len(node.broker.connections)) == 1)


def refused_logins(scene: Scene, _number: int) -> None:
    with RawClient(scene.broker.host, scene.broker.port) as client:
        client.start()
        client.start_ok(password="wrong")
        client.expect_end()


def blocked_publishers(scene: Scene, _number: int) -> None:
    with scene.connect() as client:
        client.open_channel(1)
        scene.broker.raise_alarm("memory")
        client.publish(1, "", "nowhere", b"x")
        client.expect(0, "connection.blocked")
        scene.broker.clear_alarm("memory")
        client.expect(0, "connection.unblocked")
    wait_until(lambda: scene.broker.call(lambda node: len(node.broker.connections)) == 1)


def exchanges_and_bindings(scene: Scene, number: int) -> None:
    client = scene.client
    for kind in ("direct", "topic", "fanout", "headers", "x-delayed-message", "x-consistent-hash"):
        delayed = kind == "x-delayed-message"
        arguments = {"x-delayed-type": "direct"} if delayed else EMPTY
        client.call(1, "exchange.declare", exchange="x", type=kind, arguments=arguments)
        client.call(1, "exchange.declare", exchange="y", type="fanout")
        client.call(1, "queue.declare", queue="bound")
        client.call(1, "queue.bind", queue="bound", exchange="x", routing_key="1")
        client.call(1, "exchange.bind", destination="y", source="x", routing_key="1")
        client.call(1, "exchange.bind", destination="x", source="y", routing_key="1")
        client.publish(1, "x", "1", b"x", {"headers": {"x-delay": 3_600_000}} if delayed else EMPTY)
        client.call(1, "queue.unbind", queue="bound", exchange="x", routing_key="1")
        client.call(1, "queue.bind", queue="bound", exchange="x", routing_key="2")
        places = [("exchange", "x"), ("queue", "bound"), ("exchange", "y")]
        for what, name in places if number % 2 else reversed(places):
            client.call(1, f"{what}.delete", {what: name})


def queues_with_rules(scene: Scene, _number: int) -> None:
    client = scene.client
    arguments = {
        "x-message-ttl": 3_600_000,
        "x-expires": 3_600_000,
        "x-max-length": 5,
        "x-dead-letter-exchange": "amq.fanout",
        "x-message-deduplication": True,
    }
    client.call(1, "queue.declare", queue="ruled", durable=True, arguments=arguments)
    client.publish(1, "", "ruled", b"x", {"headers": {"x-delay": 3_600_000}})
    for number in range(8):
        key = {"x-deduplication-header": str(number)}
        client.publish(1, "", "ruled", b"x", {"expiration": "100000", "headers": key, "delivery_mode": 2})
    client.call(1, "basic.get", queue="ruled", no_ack=True)
    client.call(1, "queue.delete", queue="ruled")


def replies(scene: Scene, _number: int) -> None:
    with scene.channel() as client:
        client.call(2, "basic.consume", queue="amq.rabbitmq.reply-to", no_ack=True, consumer_tag="r")


def streams(scene: Scene, _number: int) -> None:
    with scene.channel() as client:
        client.call(2, "basic.qos", prefetch_count=10)
        client.call(2, "queue.declare", queue="stream", durable=True, arguments={"x-queue-type": "stream"})
        first = {"x-stream-offset": "first"}
        client.call(2, "basic.consume", queue="stream", consumer_tag="a", arguments=first)
        client.publish(2, "", "stream", b"x")
        client.expect(2, "basic.deliver")
        client.call(2, "queue.delete", queue="stream")
        client.expect(2, "basic.cancel")


def stream_clients(scene: Scene, _number: int) -> None:
    with RawStreamClient(scene.broker.host, scene.broker.stream_port) as client:
        client.log_in()
        client.do(commands.Create, "log", {})
        client.do(commands.DeclarePublisher, 1, "me", "log")
        client.do(commands.Subscribe, 1, "log", OffsetSpec(1), 10, {})
        client.publish(1, (1, b"x"))
    scene.client.call(1, "queue.delete", queue="log")
    wait_until(lambda: scene.broker.call(lambda node: len(node.broker.connections)) == 1)


def requests(scene: Scene, _number: int) -> None:
    for path in ("/overview", "/queues", "/connections", "/nodes", "/channels", "/consumers"):
        scene.ask("GET", path)
    assert scene.api.ask("GET", "/queues/%2F/missing").status == 404
    assert scene.api.ask("PUT", "/queues/%2F/bad", {"durable": "perhaps"}).status == 400


def leases(scene: Scene, number: int) -> None:
    client = scene.client
    client.call(1, "queue.declare", queue="leased")
    for _ in range(3):
        client.publish(1, "", "leased", b"x")
    scene.ask("GET", "/queues/%2F/leased/get?count=2&lease_s=3600")
    if number % 2:
        scene.ask("POST", "/queues/%2F/leased/ack", {"delivery_tag": 0, "multiple": True})
    client.call(1, "queue.delete", queue="leased")


def taps(scene: Scene, _number: int) -> None:
    scene.client.call(1, "queue.declare", queue="tapped")
    with closing(EventStream(scene.broker.management_url, "/tap?vhost=%2F&queue=tapped", scene.api.headers)) as stream:
        assert stream.status == 200
        scene.client.publish(1, "", "tapped", b"x")
    wait_until(lambda: scene.broker.call(lambda node: len(node.management.services.taps)) == 0)
    scene.client.call(1, "queue.delete", queue="tapped")


def policies(scene: Scene, _number: int) -> None:
    client = scene.client
    client.call(1, "queue.declare", queue="governed")
    client.publish(1, "", "governed", b"x")
    definition = {"message-ttl": 3_600_000, "expires": 3_600_000}
    scene.ask("PUT", "/policies/%2F/brief", {"pattern": "^governed", "definition": definition})
    scene.ask("DELETE", "/policies/%2F/brief")
    client.call(1, "queue.delete", queue="governed")


def virtual_hosts(scene: Scene, _number: int) -> None:
    scene.ask("PUT", "/vhosts/brief", {})
    with scene.connect("brief") as client:
        client.open_channel(1)
        client.call(1, "queue.declare", queue="q", durable=True)
        client.call(1, "basic.consume", queue="q", consumer_tag="a")
        scene.ask("DELETE", "/vhosts/brief")
        while client.read().name != "connection.close":
            pass
        client.send(0, "connection.close-ok")
        client.expect_eof()


KINDS: list[Callable[[Scene, int], None]] = [
    channels,
    failed_channels,
    queues_with_consumers,
    queues_with_unacked,
    auto_delete_queues,
    connections,
    refused_logins,
    blocked_publishers,
    exchanges_and_bindings,
    queues_with_rules,
    replies,
    streams,
    stream_clients,
    requests,
    leases,
    taps,
    policies,
    virtual_hosts,
]


# ---- and what is left


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    directory: Path = tmp_path_factory.mktemp("churn")
    with running(directory, listen__stream_port=0, auth__failures_max=1_000_000) as broker:
        scene = Scene(broker)
        # The first looks make objects themselves, which stay.
        left_behind(census())
        requests(scene, 0)
        yield scene
        scene.client.socket.close()


@pytest.fixture
def no_log() -> Iterator[None]:
    """What is logged in a test is kept until its end."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@contextmanager
def collector_off() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def wait_until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SETTLED_S
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def census() -> Counter[str]:
    """How many objects there are of each type."""
    types = Counter(map(type, gc.get_objects()))
    return Counter({f"{kind.__module__}.{kind.__qualname__}": count for kind, count in types.items()})


def left_behind(before: Counter[str]) -> dict[str, int]:
    grown = census() - before
    return {kind: count for kind, count in grown.items() if count >= LEFT_MAX and kind not in HISTORY}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_nothing_is_left(scene: Scene, kind: Callable[[Scene, int], None], no_log: None) -> None:
    for number in range(WARM_UP_ROUNDS):
        kind(scene, number)
    with collector_off():
        before = census()
        for number in range(ROUNDS):
            kind(scene, number)
        # The last ones may still be on their way out.
        deadline = time.monotonic() + 2.0
        while (left := left_behind(before)) and time.monotonic() < deadline:
            time.sleep(0.1)
    assert not left


def test_a_cycle_would_be_noticed(scene: Scene) -> None:
    """The control."""

    class Knot:
        def __init__(self) -> None:
            self.itself = self

    with collector_off():
        before = census()
        for _ in range(ROUNDS):
            Knot()
        assert sum(left_behind(before).values()) >= ROUNDS
