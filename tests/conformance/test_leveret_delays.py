"""Delayed messages: x-delay with any exchange and queue, and with exchanges of the type of RabbitMQ's plugin."""

import time
from typing import Any

import pytest

from tests.conformance.amqp_codec import Typed, Value
from tests.conformance.own_broker import delayed_count, held_count
from tests.conformance.raw_client import Method, RawClient, Refusal
from tests.conformance.target import LeveretTarget
from tests.conformance.topology import Topology, bodies_of, deliveries, drain, refusal_of, unique_name, wait_for
from tests.contract.letters import Publisher, collect, collect_bodies, ready, reasons, reject, stays_empty
from tests.contract.letters import queue_with_dead_letters as with_dead_letters

# What the client's clock and the broker's may differ by: both round to milliseconds.
EARLY_MS_MAX = 5
DELAYED_TYPE_TEXT = "PRECONDITION_FAILED - Invalid argument, 'x-delayed-type' must be an existing exchange type"


@pytest.fixture
def publisher(connect: Any) -> Publisher:
    return Publisher(connect())


def after(delay_ms: Value, **headers: Value) -> dict[str, Value]:
    """The properties of a message with this delay."""
    return {"headers": {"x-delay": delay_ms, **headers}}


def delayed_exchange(client: RawClient, topology: Topology, kind: str = "direct") -> str:
    return topology.exchange(client, "x-delayed-message", arguments={"x-delayed-type": kind})


def publish(publisher: Publisher, key: str, *bodies: bytes, exchange: str = "", **properties: Value) -> None:
    for body in bodies:
        assert publisher.publish(key, body, exchange=exchange, **properties) == "ack"


def headers_of(method: Method) -> dict[str, Value]:
    headers: dict[str, Value] = method.properties.get("headers", {})
    return headers


class Place:
    """Where delayed messages wait: in a queue behind a plain exchange, or in an exchange of the plugin's type."""

    def __init__(self, target: LeveretTarget, client: RawClient, topology: Topology, in_exchange: bool) -> None:
        self.broker = target.broker
        self.in_exchange = in_exchange
        self.exchange = delayed_exchange(client, topology) if in_exchange else topology.exchange(client, "direct")
        self.queue = topology.bound_queue(client, self.exchange, "key")

    def waiting(self) -> int:
        return held_count(self.broker, self.exchange) if self.in_exchange else delayed_count(self.broker, self.queue)


@pytest.fixture(params=[False, True], ids=["queue", "exchange"])
def place(request: Any, target: LeveretTarget, client: RawClient, topology: Topology) -> Place:
    return Place(target, client, topology, request.param)


# ---- the same in both places


def test_a_message_waits_for_its_time(client: RawClient, publisher: Publisher, place: Place) -> None:
    client.call(1, "basic.consume", queue=place.queue, no_ack=True)
    began = time.monotonic()
    # Confirmed when it is safe, not when it is due.
    publish(publisher, "key", b"later", exchange=place.exchange, **after(400, more="kept"))
    assert place.waiting() == 1
    method = client.expect(1, "basic.deliver")
    assert (time.monotonic() - began) * 1000 >= 400 - EARLY_MS_MAX
    assert (method.body, method["redelivered"]) == (b"later", False)
    assert (method["exchange"], method["routing_key"]) == (place.exchange, "key")
    # As the plugin has it: the delay is over, and nobody who publishes the message on asks for another one.
    assert headers_of(method) == {"x-delay": -400, "more": "kept"}
    assert place.waiting() == 0


@pytest.mark.parametrize(
    "value", [0, -5000, "soon", True, None, [5000], {"ms": 5000}, float("nan"), float("inf")], ids=str
)
def test_what_is_no_delay(client: RawClient, publisher: Publisher, place: Place, value: Value) -> None:
    publish(publisher, "key", b"now", exchange=place.exchange, **after(value))
    assert (place.waiting(), ready(client, place.queue)) == (0, 1)
    (method,) = collect(client, place.queue, 1)
    told = headers_of(method)["x-delay"]
    assert told == value or value != value


@pytest.mark.parametrize(
    "value", [Typed(b"b", 100), Typed(b"s", 300), Typed(b"I", 300), Typed(b"l", 300), 300.5], ids=str
)
def test_numbers_of_all_widths(client: RawClient, publisher: Publisher, place: Place, value: Value) -> None:
    publish(publisher, "key", b"later", exchange=place.exchange, **after(value))
    assert ready(client, place.queue) == 0
    (method,) = collect(client, place.queue, 1)
    assert headers_of(method)["x-delay"] in (-100, -300)


def test_without_headers_nothing_waits(client: RawClient, publisher: Publisher, place: Place) -> None:
    publish(publisher, "key", b"now", exchange=place.exchange)
    assert drain(client, place.queue) == [b"now"]


@pytest.mark.parametrize("value", [315360000001, 2**63 - 1])
def test_what_is_too_long(client: RawClient, place: Place, value: int) -> None:
    client.publish(1, place.exchange, "key", b"never", after(value))
    text = f"PRECONDITION_FAILED - invalid header 'x-delay': {value} is more than 315360000000 milliseconds"
    assert client.refusal() == Refusal("channel", 406, text, 60, 40)


def test_ten_years_are_not(publisher: Publisher, place: Place) -> None:
    publish(publisher, "key", b"2036", exchange=place.exchange, **after(315360000000))
    assert place.waiting() == 1


def test_the_order_is_that_of_their_times(client: RawClient, publisher: Publisher, place: Place) -> None:
    client.call(1, "basic.consume", queue=place.queue, no_ack=True)
    for delay_ms in (900, 300, 1200, 600):
        publish(publisher, "key", b"%d" % delay_ms, exchange=place.exchange, **after(delay_ms))
    publish(publisher, "key", b"0", exchange=place.exchange)
    assert bodies_of(deliveries(client, 5)) == [b"0", b"300", b"600", b"900", b"1200"]


def test_equal_delays_keep_the_order_of_publishing(client: RawClient, publisher: Publisher, place: Place) -> None:
    bodies = [b"%d" % number for number in range(500)]
    for body in bodies:
        publisher.client.publish(1, place.exchange, "key", body, after(700))
    while publisher.client.expect(1, "basic.ack")["delivery_tag"] < len(bodies):
        pass
    assert place.waiting() == len(bodies)
    assert collect_bodies(client, place.queue, len(bodies)) == bodies


def test_a_transaction(client: RawClient, connect: Any, place: Place) -> None:
    other = connect()
    other.call(1, "tx.select")
    other.publish(1, place.exchange, "key", b"rolled back", after(200))
    other.call(1, "tx.rollback")
    other.publish(1, place.exchange, "key", b"committed", after(200))
    assert place.waiting() == 0
    other.call(1, "tx.commit")
    assert collect_bodies(client, place.queue, 1) == [b"committed"]
    stays_empty(client, place.queue)


def test_a_time_to_live_begins_when_the_delay_is_over(client: RawClient, publisher: Publisher, place: Place) -> None:
    publish(publisher, "key", b"short", exchange=place.exchange, expiration="200", **after(600))
    client.call(1, "basic.consume", queue=place.queue, no_ack=True)
    assert client.expect(1, "basic.deliver").body == b"short"
    client.call(1, "basic.cancel", consumer_tag="nobody")


def test_and_it_ends(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue, grave = with_dead_letters(client, topology, {"x-message-ttl": 150})
    began = time.monotonic()
    publish(publisher, queue, b"late", **after(300))
    (letter,) = collect(client, grave, 1)
    assert (time.monotonic() - began) * 1000 >= 450 - EARLY_MS_MAX
    assert reasons(letter) == [(queue, "expired", 1)]


def test_a_dead_letter_is_not_delayed_again(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    """Neither by its new queue nor by a delayed exchange on its way."""
    graves = delayed_exchange(client, topology, "fanout")
    grave = topology.bound_queue(client, graves, "")
    queue = topology.queue(client, arguments={"x-dead-letter-exchange": graves})
    publish(publisher, queue, b"once", **after(3000))
    reject(client, queue)
    began = time.monotonic()
    (letter,) = collect(client, grave, 1)
    assert time.monotonic() - began < 2.9
    assert headers_of(letter)["x-delay"] == -3000


def test_a_binding_from_exchange_to_exchange(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    """A message is delayed by the exchange it was published to, and by its queues if that is another type."""
    first, second = topology.exchange(client, "fanout"), delayed_exchange(client, topology, "fanout")
    for source, destination in ((first, second), (second, first)):
        client.call(1, "exchange.bind", source=source, destination=destination)
    queue = topology.bound_queue(client, second, "")
    for exchange in (first, second):
        publish(publisher, "", exchange.encode(), exchange=exchange, **after(300))
    assert ready(client, queue) == 0
    assert collect_bodies(client, queue, 2) == [first.encode(), second.encode()]
    stays_empty(client, queue)


# ---- in queues


def test_a_fanout_delays_each_copy(
    target: LeveretTarget, client: RawClient, publisher: Publisher, topology: Topology
) -> None:
    exchange = topology.exchange(client, "fanout")
    queues = [topology.bound_queue(client, exchange, "") for _ in range(3)]
    publish(publisher, "", b"all", exchange=exchange, **after(400))
    assert [delayed_count(target.broker, queue) for queue in queues] == [1, 1, 1]
    assert [ready(client, queue) for queue in queues] == [0, 0, 0]
    for queue in queues:
        assert collect_bodies(client, queue, 1) == [b"all"]


def test_a_mandatory_message_without_a_queue_comes_back_at_once(publisher: Publisher) -> None:
    verdict = publisher.publish(unique_name("nowhere"), b"lost", mandatory=True, **after(60_000))
    assert verdict == "return ack"
    assert publisher.returned[0].body == b"lost"


def test_those_due_are_in_the_order_of_their_priorities(
    client: RawClient, publisher: Publisher, topology: Topology
) -> None:
    queue = topology.queue(client, arguments={"x-max-priority": 5})
    publish(publisher, queue, b"low", priority=1, **after(200))
    publish(publisher, queue, b"high", priority=4, **after(300))
    publish(publisher, queue, b"middle", priority=2)
    wait_for("all three", lambda: ready(client, queue) == 3)
    assert drain(client, queue) == [b"high", b"middle", b"low"]


def test_no_more_may_wait_than_the_queue_may_have(
    target: LeveretTarget, client: RawClient, publisher: Publisher, topology: Topology
) -> None:
    queue, grave = with_dead_letters(client, topology, {"x-max-length": 2})
    publish(publisher, queue, b"1", b"2")
    publish(publisher, queue, b"3", b"4", b"5", **after(400))
    assert (ready(client, queue), delayed_count(target.broker, queue)) == (2, 2)
    assert collect_bodies(client, grave, 3) == [b"5", b"1", b"2"]
    assert drain(client, queue) == [b"3", b"4"]


def test_a_queue_that_refuses_counts_what_is_delayed_like_what_is_ready(
    client: RawClient, publisher: Publisher, topology: Topology
) -> None:
    queue = topology.queue(client, arguments={"x-max-length": 3, "x-overflow": "reject-publish"})
    publish(publisher, queue, b"1", b"2", **after(300))
    publish(publisher, queue, b"3")
    assert publisher.publish(queue, b"4", **after(300)) == "nack"
    assert publisher.publish(queue, b"5") == "nack"
    wait_for("those that waited", lambda: ready(client, queue) == 3)
    assert drain(client, queue) == [b"3", b"1", b"2"]


def test_a_queue_takes_them_along_when_it_goes(
    target: LeveretTarget, client: RawClient, publisher: Publisher, topology: Topology
) -> None:
    queue = topology.queue(client)
    publish(publisher, queue, b"gone", **after(300))
    client.call(1, "queue.delete", queue=queue)
    client.call(1, "queue.declare", queue=queue, exclusive=True)
    assert delayed_count(target.broker, queue) == 0
    stays_empty(client, queue)


# ---- in exchanges


@pytest.mark.parametrize(
    "arguments", [{}, {"x-delayed-type": "nosuch"}, {"x-delayed-type": "x-delayed-message"}, {"x-delayed-type": 5}]
)
def test_the_type_behind_the_delay_must_exist(client: RawClient, arguments: dict[str, Value]) -> None:
    name = unique_name("exchange")
    refusal = refusal_of(client, "exchange.declare", exchange=name, type="x-delayed-message", arguments=arguments)
    assert refusal == Refusal("channel", 406, DELAYED_TYPE_TEXT, 40, 10)


def test_the_type_behind_the_delay_does_not_change(client: RawClient, topology: Topology) -> None:
    name = delayed_exchange(client, topology, "topic")
    fields: dict[str, Any] = {"exchange": name, "type": "x-delayed-message"}
    client.call(1, "exchange.declare", {**fields, "arguments": {"x-delayed-type": "topic"}})
    refusal = refusal_of(client, "exchange.declare", **fields, arguments={"x-delayed-type": "direct"})
    text = f"inequivalent arg 'x-delayed-type' for exchange '{name}' in vhost '/': received 'direct' but current is"
    assert refusal.text == f"PRECONDITION_FAILED - {text} 'topic'"


@pytest.mark.parametrize(
    ("kind", "key", "arguments"),
    [("direct", "a.b", {}), ("topic", "a.*", {}), ("fanout", "", {}), ("headers", "", {"x-match": "all", "to": "me"})],
)
def test_each_type_routes_as_it_does(
    client: RawClient, publisher: Publisher, topology: Topology, kind: str, key: str, arguments: dict[str, Value]
) -> None:
    exchange = delayed_exchange(client, topology, kind)
    queue, other = topology.queue(client), topology.queue(client)
    client.call(1, "queue.bind", queue=queue, exchange=exchange, routing_key=key, arguments=arguments)
    client.call(1, "queue.bind", queue=other, exchange=exchange, routing_key="x", arguments={"to": "you"})
    publish(publisher, "a.b", b"later", exchange=exchange, **after(250, to="me"))
    publish(publisher, "a.b", b"now", exchange=exchange, headers={"to": "me"})
    assert drain(client, queue) == [b"now"]
    assert collect_bodies(client, queue, 1) == [b"later"]
    assert ready(client, other) == (2 if kind == "fanout" else 0)


def test_the_bindings_of_the_moment_count(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    exchange = delayed_exchange(client, topology)
    old, new = topology.bound_queue(client, exchange, "key"), topology.queue(client)
    publish(publisher, "key", b"later", exchange=exchange, **after(500))
    client.call(1, "queue.unbind", queue=old, exchange=exchange, routing_key="key")
    client.call(1, "queue.bind", queue=new, exchange=exchange, routing_key="key")
    assert collect_bodies(client, new, 1) == [b"later"]
    stays_empty(client, old)


def test_a_mandatory_message_is_not_returned_while_it_waits(
    target: LeveretTarget, client: RawClient, publisher: Publisher, topology: Topology
) -> None:
    """Where it goes is not known yet, and when it is, the publisher may be gone."""
    exchange = delayed_exchange(client, topology)
    assert publisher.publish("key", b"now", exchange=exchange, mandatory=True) == "return ack"
    assert publisher.publish("key", b"later", exchange=exchange, mandatory=True, **after(200)) == "ack"
    wait_for("its end", lambda: held_count(target.broker, exchange) == 0)
    publisher.client.expect_quiet()


def test_an_alternate_exchange_gets_what_is_due_and_unroutable(
    client: RawClient, publisher: Publisher, topology: Topology
) -> None:
    alternate = topology.exchange(client, "fanout")
    queue = topology.bound_queue(client, alternate, "")
    arguments = {"x-delayed-type": "direct", "alternate-exchange": alternate}
    exchange = topology.exchange(client, "x-delayed-message", arguments=arguments)
    publish(publisher, "nobody", b"later", exchange=exchange, **after(250))
    assert collect_bodies(client, queue, 1) == [b"later"]


def test_copies_go_to_all_keys_when_they_are_due(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    exchange = delayed_exchange(client, topology)
    queues = {key: topology.bound_queue(client, exchange, key) for key in ("own", "cc", "bcc", "other")}
    publish(publisher, "own", b"copied", exchange=exchange, **after(300, CC=["cc"], BCC=["bcc"]))
    assert [ready(client, queue) for queue in queues.values()] == [0] * 4
    for key in ("own", "cc", "bcc"):
        (method,) = collect(client, queues[key], 1)
        assert headers_of(method) == {"x-delay": -300, "CC": ["cc"]}
    stays_empty(client, queues["other"])


@pytest.mark.parametrize("name", ["CC", "BCC"])
def test_copies_that_are_none_are_refused_at_once(client: RawClient, place: Place, name: str) -> None:
    client.publish(1, place.exchange, "key", b"bad", after(200, **{name: "no list"}))
    refusal = client.refusal()
    assert (refusal.code, "unacceptable_type_in_header" in refusal.text) == (406, True)
    assert place.waiting() == 0


def test_a_full_queue_refuses_what_is_due(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    exchange = delayed_exchange(client, topology)
    queue = topology.queue(client, arguments={"x-max-length": 2})
    client.call(1, "queue.bind", queue=queue, exchange=exchange, routing_key="key")
    publish(publisher, "key", b"1", b"2", b"3", exchange=exchange, **after(250))
    publish(publisher, "key", b"now", exchange=exchange)
    wait_for("the last one", lambda: ready(client, queue) == 2)
    time.sleep(0.5)
    assert drain(client, queue) == [b"2", b"3"]


def test_an_exchange_takes_them_along_when_it_goes(
    target: LeveretTarget, client: RawClient, publisher: Publisher, topology: Topology
) -> None:
    exchange = delayed_exchange(client, topology)
    publish(publisher, "key", b"gone", exchange=exchange, **after(300))
    client.call(1, "exchange.delete", exchange=exchange)
    fields: dict[str, Any] = {"exchange": exchange, "arguments": {"x-delayed-type": "direct"}}
    client.call(1, "exchange.declare", {**fields, "type": "x-delayed-message"})
    queue = topology.bound_queue(client, exchange, "key")
    assert held_count(target.broker, exchange) == 0
    stays_empty(client, queue)
