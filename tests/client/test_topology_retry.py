"""Retries: what one declaration comes to, how they are counted, and that messages really go that way."""

from __future__ import annotations

import time
from typing import Any, Self

import pika
import pytest

from leveret.client.connection import Connection
from leveret.client.topology import Binding, Exchange, Queue, Retry, Topology, retry_count
from tests.client.topology_scene import Scene

WAIT_S = 20.0


def test_the_plan() -> None:
    assert Retry("orders").plan() == [
        Exchange("orders.dlx"),
        Queue("orders", dead_letter_exchange="orders.dlx", dead_letter_routing_key="orders.retry.10s"),
        Queue("orders.retry.10s", message_ttl_ms=10_000, dead_letter_exchange="", dead_letter_routing_key="orders"),
        Queue("orders.parking_lot"),
        Binding("orders.dlx", "orders.retry.10s", "orders.retry.10s"),
        Binding("orders.dlx", "orders.parking_lot", "orders.parking_lot"),
    ]


def test_a_plan_with_everything_said() -> None:
    queue = Queue("orders", durable=False, max_length=5)
    retry = Retry(queue, delays_s=(0.5, 60, 60), max_retries=9, exchange="dead", parking_lot="lot")
    names = [thing.name for thing in retry.plan() if not isinstance(thing, Binding)]
    assert names == ["dead", "orders", "orders.retry.500ms", "orders.retry.60s", "lot"]
    assert all(not thing.durable for thing in retry.plan() if not isinstance(thing, Binding))
    work = retry.plan()[1]
    assert isinstance(work, Queue)
    assert (work.max_length, work.dead_letter_exchange) == (5, "dead")
    assert Retry("orders", delays_s=5) == Retry("orders", delays_s=(5,))  # type: ignore[arg-type]
    assert not any("parking" in str(thing) for thing in Retry("orders", parking_lot=False).plan())


def test_a_plan_that_returns_through_the_primary_exchange() -> None:
    retry = Retry("orders", primary_exchange="shop", primary_routing_key="order.new", parking_lot_key="parking_lot")
    plan = retry.plan()
    assert plan[2] == Queue(
        "orders.retry.10s",
        message_ttl_ms=10_000,
        dead_letter_exchange="shop",
        dead_letter_routing_key="order.new",
    )
    assert plan[4:] == [
        Binding("orders.dlx", "orders.retry.10s", "orders.retry.10s"),
        Binding("orders.dlx", "orders.parking_lot", "parking_lot"),
        Binding("shop", "orders", "order.new"),
    ]
    step = retry.next_step({"x-retry-count": 3})
    assert (step.action, step.exchange, step.routing_key) == ("park", "orders.dlx", "parking_lot")


def test_a_quorum_queue_has_companions_of_its_kind() -> None:
    queues = [thing for thing in Retry(Queue("q", queue_type="quorum")).plan() if isinstance(thing, Queue)]
    assert [queue.queue_type for queue in queues] == ["quorum"] * 3


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"queue": ""}, "queue must have a name"),
        ({"queue": Queue()}, "queue must have a name"),
        ({"delays_s": ()}, "delays_s must have at least one"),
        ({"delays_s": (0,)}, "delays_s must be seconds"),
        ({"delays_s": ("10",)}, "delays_s must be seconds"),
        ({"delays_s": (float("nan"),)}, "delays_s must be seconds"),
        ({"max_retries": -1}, "max_retries must be a whole number"),
        ({"max_retries": True}, "max_retries must be a whole number"),
        ({"parking_lot": ""}, "parking_lot must be True, False or a name"),
        ({"parking_lot": False, "parking_lot_key": "parked"}, "there is no parking_lot"),
        ({"parking_lot_key": "q.retry.10s"}, "routing key of a retry queue"),
        ({"primary_routing_key": "q"}, "no primary_exchange"),
        ({"primary_exchange": "q.dlx"}, "must be two"),
        ({"queue": Queue("q", exclusive=True)}, "neither exclusive nor auto_delete"),
        ({"queue": Queue("q", queue_type="stream")}, "must not be stream"),
        ({"queue": Queue("q", dead_letter_exchange="x")}, "dead_letter_exchange is 'x' already"),
        ({"queue": "q" * 250}, "must have at most 255 bytes, not 260"),
        ({"exchange": "amq.mine"}, "must not begin with amq."),
    ],
)
def test_refused(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Retry(**{"queue": "q", **fields})


# ---- counting


def death(queue: str, reason: str, count: int = 1) -> dict[str, Any]:
    return {"queue": queue, "reason": reason, "count": count}


def test_the_count() -> None:
    deaths = [death("q.retry.10s", "expired", 2), death("q", "rejected", 2), death("elsewhere", "expired", 5)]
    assert retry_count({"x-death": deaths}) == 7
    assert retry_count({"x-death": deaths}, ["q.retry.10s"]) == 2
    assert Retry("q").count({"x-death": deaths, "x-retry-count": 3}) == 5
    assert retry_count(None) == retry_count({}) == 0


@pytest.mark.parametrize(
    "headers",
    [
        {"x-death": "yes"},
        {"x-death": ["expired", 5, None]},
        {"x-death": [death("q", "expired", -3)]},
        {"x-death": [{"reason": "expired", "count": "many"}]},
        {"x-retry-count": "7"},
        {"x-retry-count": -7},
        {"x-retry-count": True},
    ],
)
def test_headers_that_make_no_sense_count_nothing(headers: dict[str, Any]) -> None:
    assert retry_count(headers) == 0


def test_the_steps() -> None:
    retry = Retry("q", delays_s=(1, 5), max_retries=3)
    first = retry.next_step({"mine": 1})
    assert (first.action, first.by_nack, first.delay_s, first.count) == ("retry", True, 1, 0)
    headers = {"mine": 1, "x-death": [death("q.retry.1s", "expired"), death("q", "rejected")]}
    second = retry.next_step(headers)
    assert (second.action, second.by_nack, second.delay_s, second.count) == ("retry", False, 5, 1)
    assert (second.exchange, second.routing_key) == ("q.dlx", "q.retry.5s")
    assert second.headers == {"mine": 1, "x-retry-count": 1}
    third = retry.next_step({**second.headers, "x-death": [death("q.retry.5s", "expired")]})
    assert (third.action, third.delay_s, third.headers["x-retry-count"]) == ("retry", 5, 2)
    last = retry.next_step({"x-retry-count": 2, "x-death": [death("q.retry.5s", "expired")]})
    assert (last.action, last.by_nack, last.exchange, last.routing_key) == ("park", False, "q.dlx", "q.parking_lot")
    assert "x-death" in last.headers
    assert Retry("q", max_retries=0).next_step(None).action == "park"
    assert Retry("q", max_retries=0, parking_lot=False).next_step(None).action == "discard"


# ---- on a broker


class Worker:
    """A consumer that fails at everything and does what the retry says. It is another client, so that what is tested
    is the topology."""

    def __init__(self, scene: Scene, retry: Retry) -> None:
        self.connection = scene.pika()
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()
        self.retry = retry

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def take(self, queue: str, auto_ack: bool = True) -> Any:
        deadline = time.monotonic() + WAIT_S
        while (message := self.channel.basic_get(queue, auto_ack))[0] is None:
            assert time.monotonic() < deadline, f"nothing came to {queue}"
            time.sleep(0.02)
        return message

    def fail(self) -> str:
        method, properties, body = self.take(self.retry.queue_name, auto_ack=False)
        step = self.retry.next_step(properties.headers)
        if step.by_nack:
            self.channel.basic_nack(method.delivery_tag, requeue=False)
        elif step.action == "discard":
            self.channel.basic_ack(method.delivery_tag)
        else:
            again = pika.BasicProperties(headers=step.headers, message_id=properties.message_id)
            self.channel.basic_publish(step.exchange, step.routing_key, body, again, mandatory=True)
            self.channel.basic_ack(method.delivery_tag)
        return f"{step.action} {step.count} after {step.delay_s:g} s"


@pytest.mark.parametrize(
    ("retry", "course"),
    [
        (
            Retry("work", delays_s=(0.1,), max_retries=3),
            ["retry 0 after 0.1 s", "retry 1 after 0.1 s", "retry 2 after 0.1 s", "park 3 after 0 s"],
        ),
        (
            Retry("work", delays_s=(0.1, 0.3), max_retries=4, exchange="dead", parking_lot="lot"),
            [
                "retry 0 after 0.1 s",
                "retry 1 after 0.3 s",
                "retry 2 after 0.3 s",
                "retry 3 after 0.3 s",
                "park 4 after 0 s",
            ],
        ),
    ],
)
def test_a_message_goes_its_way(scene: Scene, retry: Retry, course: list[str]) -> None:
    async def script(_: Connection, topology: Topology) -> None:
        # The exchange leads to another queue, too, which must see the message once.
        shop = Exchange("shop", "fanout")
        await topology.declare(shop, Queue("other"), retry, Binding("shop", "work"), Binding("shop", "other"))

    scene.run(script)
    properties = pika.BasicProperties(message_id="m1", headers={"mine": 1})
    with Worker(scene, retry) as worker:
        worker.channel.basic_publish("shop", "new", b"tea", properties)
        started = time.monotonic()
        assert [worker.fail() for _ in course] == course
        assert time.monotonic() - started >= sum(float(line.split()[3]) for line in course)
        assert retry.parking_lot_name is not None
        _, properties, body = worker.take(retry.parking_lot_name)
        counts = [worker.channel.queue_declare(name, passive=True).method.message_count for name in ("work", "other")]
    assert (body, properties.message_id, properties.headers["mine"]) == (b"tea", "m1", 1)
    assert retry.count(properties.headers) == retry.max_retries
    assert counts == [0, 1]


def test_a_message_returns_through_the_primary_exchange(scene: Scene) -> None:
    retry = Retry(
        "work",
        delays_s=(0.1,),
        max_retries=1,
        primary_exchange="shop",
        primary_routing_key="order.new",
        parking_lot_key="parking_lot",
    )

    async def script(_: Connection, topology: Topology) -> None:
        watching = Binding("shop", "watching", "order.#")
        await topology.declare(Exchange("shop", "topic"), Queue("watching"), retry, watching)

    scene.run(script)
    with Worker(scene, retry) as worker:
        worker.channel.basic_publish("shop", "order.new", b"tea", pika.BasicProperties(message_id="m1"))
        assert [worker.fail() for _ in range(2)] == ["retry 0 after 0.1 s", "park 1 after 0 s"]
        _, properties, body = worker.take("work.parking_lot")
        # By way of the exchange, which shows it to its other queues once more.
        seen = [worker.take("watching") for _ in range(2)]
    assert (body, properties.message_id) == (b"tea", "m1")
    assert [(method.exchange, method.routing_key) for method, _, _ in seen] == [("shop", "order.new")] * 2


def test_queues_share_a_dead_letter_exchange(scene: Scene) -> None:
    retries = [Retry(name, delays_s=(0.1,), max_retries=1, exchange="dead", parking_lot="lot") for name in ("a", "b")]

    async def script(_: Connection, topology: Topology) -> None:
        await topology.declare(*retries)

    scene.run(script)
    for retry in retries:
        with Worker(scene, retry) as worker:
            worker.channel.basic_publish("", retry.queue_name, retry.queue_name.encode())
            assert [worker.fail(), worker.fail()] == ["retry 0 after 0.1 s", "park 1 after 0 s"]
            assert worker.take("lot")[2] == retry.queue_name.encode()
