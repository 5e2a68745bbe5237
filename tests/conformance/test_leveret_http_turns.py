"""No request holds the broker's loop: every route that shows something is asked on a broker that has thousands of
everything, and what one turn of the loop takes of the processor is measured meanwhile."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator
from typing import Any

import pika
import pytest

from leveret.catalog import commands
from leveret.catalog.records import (
    BindingRecord,
    ExchangeRecord,
    GlobalParameter,
    Parameter,
    Permission,
    Policy,
    QueueRecord,
    TopicPermission,
    User,
    Vhost,
)
from leveret.management.api.table import make_table
from leveret.management.http.route import Route
from leveret.testing import Broker
from tests.http_client import Api

# Interpreted, one message takes as long.
pytestmark = pytest.mark.compiled

MANY = 2000
# Of the processor. A slice is a quarter of a millisecond, what cannot be cut takes some; what is not cut, a hundred.
TURN_S_MAX = 0.04
# Answers that never end.
ENDLESS = ("/api/events", "/api/tap")
NAMES = {
    "vhost": "%2F",
    "queue": "held",
    "exchange": "busy",
    "destination": "q00001",
    "name": "p1",
    "user": "u00001",
    "component": "c",
    "properties_key": "k1",
    "protocol": "amqp",
    "port": "5672",
    "within": "1",
    "unit": "weeks",
}
DEATH = {"count": 1, "reason": "rejected", "queue": "work", "exchange": "e", "routing-keys": ["k"]}


def fill(node: Any) -> None:
    def apply(command: Any) -> None:
        node.broker.apply(command)

    def queue(name: str, **arguments: Any) -> None:
        apply(commands.DeclareQueue(QueueRecord("/", name, "classic", False, False, 0, arguments)))

    def bind(source: str, destination: str, key: str) -> None:
        apply(commands.Bind(BindingRecord("/", source, True, destination, key, {})))

    for name in ("dlx", "busy"):
        apply(commands.DeclareExchange(ExchangeRecord("/", name, "fanout", False, False, False, {})))
    queue("held")
    for number in range(MANY):
        queue(f"q{number:05}", **{"x-dead-letter-exchange": "dlx"})
        apply(commands.DeclareExchange(ExchangeRecord("/", f"e{number:05}", "fanout", False, False, False, {})))
        bind("busy", f"q{number:05}", f"k{number}")
        bind(f"e{number:05}", "held", f"k{number}")
        user = f"u{number:05}"
        apply(commands.PutUser(User(user, "", (), {"max-connections": 5})))
        apply(commands.PutPermission(Permission(user, "/", ".*", ".*", ".*")))
        apply(commands.PutTopicPermission(TopicPermission(user, "/", "amq.topic", ".*", ".*")))
        apply(commands.PutGlobalParameter(GlobalParameter(f"p{number}", 1)))
        apply(commands.PutParameter(Parameter("/", "c", f"p{number}", 1)))
    for number in range(MANY // 4):
        bind("dlx", f"q{number:05}", "")
        apply(commands.PutVhost(Vhost(f"v{number:05}", limits={"max-queues": 5})))
    for number in range(100):
        apply(commands.PutPolicy(Policy("/", f"p{number}", f"^x{number}$", "queues", 0, {"max-length": 5})))


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as made:
        made.call(fill)
        connection = pika.BlockingConnection(pika.URLParameters(made.url))
        channel = connection.channel()
        dead = pika.BasicProperties(headers={"x-death": [DEATH] * 20})
        for number in range(60):
            for _ in range(100):
                channel.basic_publish("", f"q{number:05}", b"", dead)
        for _ in range(4):
            reader = connection.channel()
            reader.basic_qos(prefetch_count=10)
            for _ in range(200):
                reader.basic_consume("held", lambda *_: None)
        for _ in range(4000):
            channel.basic_publish("", "held", b"")
        yield made
        connection.close()


class Meter:
    """The longest turn of the broker's loop, in seconds of the processor, since it was last asked."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._stopped = False
        self._longest = 0.0
        self._before = 0.0
        broker.call(self._start)

    def _start(self, _node: Any) -> None:
        self._before = time.thread_time()
        self._turn()

    def _turn(self) -> None:
        now = time.thread_time()
        self._longest = max(self._longest, now - self._before)
        self._before = now
        if not self._stopped:
            asyncio.get_running_loop().call_soon(self._turn)

    def longest_s(self) -> float:
        # Asked twice: what came before is then over, what is let go included.
        self._broker.call(lambda _: None)
        self._broker.call(lambda _: None)
        longest, self._longest = self._longest, 0.0
        return longest

    def stop(self) -> None:
        self._stopped = True


@pytest.fixture(scope="module")
def meter(broker: Broker) -> Iterator[Meter]:
    gc.collect()
    gc.freeze()
    meter = Meter(broker)
    yield meter
    meter.stop()
    gc.unfreeze()


def requests() -> Iterator[str]:
    for route in make_table().routes:
        if route.method == "GET" and route.path not in ENDLESS:
            path = _path(route)
            yield path
            if any(parameter.name == "page" for parameter in route.query):
                yield from (f"{path}?{query}" for query in ("page=1&page_size=500&sort=name", "name=0&use_regex=true"))


def _path(route: Route) -> str:
    path = route.path
    for name in route.parameters:
        path = path.replace(f"{{{name}}}", NAMES.get(name, "x"))
    return path


def test_no_route_holds_the_loop(broker: Broker, meter: Meter) -> None:
    api = Api(broker)
    longest: dict[str, float] = {}
    for path in requests():
        meter.longest_s()
        reply = api.get(path.removeprefix("/api") if path.startswith("/api") else f"/{path}", decoded=False)
        longest[path] = meter.longest_s()
        assert reply.status in (200, 204, 400, 404, 503), path
        if longest[path] >= TURN_S_MAX:
            # Once more: a collection of garbage, or what another test left, is not the route's.
            api.get(path.removeprefix("/api") if path.startswith("/api") else f"/{path}", decoded=False)
            longest[path] = min(longest[path], meter.longest_s())
    assert len(longest) > 100
    assert {path: seconds for path, seconds in longest.items() if seconds >= TURN_S_MAX} == {}


def test_what_holds_the_loop_is_seen(broker: Broker, meter: Meter) -> None:
    def hold(_node: Any) -> None:
        until = time.thread_time() + 2 * TURN_S_MAX
        while time.thread_time() < until:
            pass

    meter.longest_s()
    broker.call(hold)
    assert meter.longest_s() >= TURN_S_MAX
