"""Deduplication: a queue or an exchange takes each message once, by its message id or a header."""

import time
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.amqp_codec import Value
from tests.conformance.own_broker import PERSISTENT, connected, of_exchange, of_queue, running
from tests.conformance.raw_client import RawClient, Refusal
from tests.conformance.target import LeveretTarget, RestartableTarget
from tests.conformance.topology import Topology, drain, refusal_of, unique_name
from tests.contract.letters import Publisher, collect, collect_bodies, hold, ready, reject, stays_empty

ONCE: dict[str, Value] = {"x-message-deduplication": True}


@pytest.fixture
def publisher(connect: Any) -> Publisher:
    return Publisher(connect())


def key(value: Value, **headers: Value) -> dict[str, Value]:
    """The headers of a message with this key."""
    return {"x-deduplication-header": value, **headers}


class Place:
    """What takes each message once, and the queue where that ends up."""

    def __init__(self, target: LeveretTarget, client: RawClient, topology: Topology, kind: str) -> None:
        self.broker = target.broker
        self.client = client
        self.topology = topology
        self.kind = kind
        self.exchange, self.queue = "", ""

    def make(self, **arguments: Value) -> "Place":
        if self.kind == "queue":
            self.queue = self.topology.queue(self.client, arguments={**ONCE, **arguments})
            return self
        if self.kind == "direct":
            self.exchange = self.topology.exchange(self.client, "direct", arguments={**ONCE, **arguments})
        else:
            sized = {"x-cache-size": 1000, **arguments}
            self.exchange = self.topology.exchange(self.client, "x-message-deduplication", arguments=sized)
        self.queue = self.topology.bound_queue(self.client, self.exchange, "key")
        return self

    def publish(self, publisher: Publisher, *bodies: bytes, **properties: Value) -> None:
        """Every one of them must be confirmed, duplicate or not."""
        routing_key = self.queue if self.kind == "queue" else "key"
        for body in bodies:
            assert publisher.publish(routing_key, body, exchange=self.exchange, **properties) == "ack"

    def duplicates(self) -> int:
        count: int = (
            of_queue(self.broker, self.queue, lambda queue: queue.window.duplicates_total)
            if self.kind == "queue"
            else of_exchange(self.broker, self.exchange, lambda exchange: exchange.window.duplicates_total)
        )
        return count


@pytest.fixture(params=["queue", "direct", "x-message-deduplication"])
def place(request: Any, target: LeveretTarget, client: RawClient, topology: Topology) -> Place:
    return Place(target, client, topology, request.param)


# ---- the same everywhere


def test_by_message_id(client: RawClient, publisher: Publisher, place: Place) -> None:
    place.make()
    place.publish(publisher, b"1", b"again", b"again", message_id="a")
    place.publish(publisher, b"2", message_id="b")
    assert drain(client, place.queue) == [b"1", b"2"]
    assert place.duplicates() == 2
    # Whether it was consumed does not matter.
    place.publish(publisher, b"again", message_id="a")
    assert drain(client, place.queue) == []


@pytest.mark.parametrize("value", ["text", 7, b"\xff\x00octets", True], ids=str)
def test_by_header(client: RawClient, publisher: Publisher, place: Place, value: Value) -> None:
    place.make()
    place.publish(publisher, b"1", b"again", headers=key(value))
    place.publish(publisher, b"2", headers=key("other"))
    assert drain(client, place.queue) == [b"1", b"2"]
    assert place.duplicates() == 1


def test_the_header_comes_before_the_message_id(client: RawClient, publisher: Publisher, place: Place) -> None:
    place.make()
    place.publish(publisher, b"1", message_id="same", headers=key("a"))
    place.publish(publisher, b"2", message_id="same", headers=key("b"))
    place.publish(publisher, b"again", message_id="other", headers=key("a"))
    assert drain(client, place.queue) == [b"1", b"2"]


def test_what_has_no_key_is_no_duplicate(client: RawClient, publisher: Publisher, place: Place) -> None:
    place.make()
    place.publish(publisher, b"same", b"same")
    place.publish(publisher, b"same", b"same", headers={"other": 1}, correlation_id="x")
    assert drain(client, place.queue) == [b"same"] * 4
    assert place.duplicates() == 0


def test_the_oldest_keys_are_forgotten_beyond_the_size(client: RawClient, publisher: Publisher, place: Place) -> None:
    place.make(**{"x-cache-size": 3})
    for id in "abcd":
        place.publish(publisher, id.encode(), message_id=id)
    for id in "bcd":
        place.publish(publisher, b"again", message_id=id)
    place.publish(publisher, b"a again", message_id="a")
    assert drain(client, place.queue) == [b"a", b"b", b"c", b"d", b"a again"]


def test_keys_are_forgotten_after_their_time(client: RawClient, publisher: Publisher, place: Place) -> None:
    place.make(**{"x-cache-ttl": 4000})
    began = time.monotonic()
    place.publish(publisher, b"1", b"again", message_id="a")
    assert time.monotonic() - began < 4.0, "this machine is too slow for this test"
    time.sleep(4.1)
    place.publish(publisher, b"2", b"again", message_id="a")
    assert drain(client, place.queue) == [b"1", b"2"]


def test_a_message_may_set_the_time_for_its_own_key(client: RawClient, publisher: Publisher, place: Place) -> None:
    place.make(**{"x-cache-ttl": 60_000})
    place.publish(publisher, b"1", message_id="long")
    place.publish(publisher, b"2", message_id="short", headers={"x-cache-ttl": 300})
    time.sleep(0.5)
    place.publish(publisher, b"again", message_id="long")
    place.publish(publisher, b"3", message_id="short")
    assert drain(client, place.queue) == [b"1", b"2", b"3"]


def test_what_was_rolled_back_may_be_sent_again(client: RawClient, connect: Any, place: Place) -> None:
    place.make()
    routing_key = place.queue if place.kind == "queue" else "key"
    other = connect()
    other.call(1, "tx.select")
    other.publish(1, place.exchange, routing_key, b"rolled back", {"message_id": "a"})
    other.call(1, "tx.rollback")
    for body in (b"committed", b"again"):
        other.publish(1, place.exchange, routing_key, body, {"message_id": "a"})
    other.call(1, "tx.commit")
    assert drain(client, place.queue) == [b"committed"]
    assert place.duplicates() == 1


def test_what_was_refused_may_be_sent_again(client: RawClient, publisher: Publisher, place: Place) -> None:
    place.make()
    full = {"x-max-length": 1, "x-overflow": "reject-publish"}
    if place.kind == "queue":
        queue = place.topology.queue(client, arguments={**ONCE, **full})
    else:
        client.call(1, "queue.unbind", queue=place.queue, exchange=place.exchange, routing_key="key")
        queue = place.topology.queue(client, arguments=full)
        client.call(1, "queue.bind", queue=queue, exchange=place.exchange, routing_key="key")
    routing_key = queue if place.kind == "queue" else "key"

    def send(id: str) -> str:
        return publisher.publish(routing_key, id.encode(), exchange=place.exchange, message_id=id)

    assert [send("a"), send("b"), send("b")] == ["ack", "nack", "nack"]
    assert drain(client, queue) == [b"a"]
    assert [send("b"), send("b")] == ["ack", "ack"]
    assert drain(client, queue) == [b"b"]


def test_a_delayed_message_is_known_from_its_publishing_on(
    client: RawClient, publisher: Publisher, place: Place
) -> None:
    place.make()
    place.publish(publisher, b"1", b"again", message_id="a", headers={"x-delay": 300})
    place.publish(publisher, b"again", message_id="a")
    assert collect_bodies(client, place.queue, 1) == [b"1"]
    stays_empty(client, place.queue)
    assert place.duplicates() == 2


def test_what_goes_takes_its_keys_along(client: RawClient, publisher: Publisher, place: Place) -> None:
    place.make()
    place.publish(publisher, b"1", message_id="a")
    if place.kind == "queue":
        client.call(1, "queue.delete", queue=place.queue)
        client.call(1, "queue.declare", queue=place.queue, exclusive=True, arguments=ONCE)
    else:
        kind = place.kind
        arguments = ONCE if kind == "direct" else {"x-cache-size": 1000}
        client.call(1, "exchange.delete", exchange=place.exchange)
        client.call(1, "exchange.declare", exchange=place.exchange, type=kind, arguments=arguments)
        client.call(1, "queue.bind", queue=place.queue, exchange=place.exchange, routing_key="key")
        drain(client, place.queue)
    place.publish(publisher, b"2", message_id="a")
    assert drain(client, place.queue) == [b"2"]


# ---- queues


def test_each_queue_has_its_own_window(
    target: LeveretTarget, client: RawClient, publisher: Publisher, topology: Topology
) -> None:
    exchange = topology.exchange(client, "fanout")
    once, always = topology.queue(client, arguments=ONCE), topology.queue(client)
    for queue in (once, always):
        client.call(1, "queue.bind", queue=queue, exchange=exchange)
    for body in (b"1", b"2"):
        assert publisher.publish("", body, exchange=exchange, mandatory=True, message_id="a") == "ack"
    assert (drain(client, once), drain(client, always)) == ([b"1"], [b"1", b"2"])


def test_a_mandatory_duplicate_is_not_returned(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue = topology.queue(client, arguments=ONCE)
    for _ in range(2):
        assert publisher.publish(queue, b"1", mandatory=True, message_id="a") == "ack"


def test_what_comes_back_is_no_duplicate(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue = topology.queue(client, arguments={**ONCE, "x-retry-delays": "50ms"})
    publisher.publish_all(queue, b"1", message_id="a")
    client.send(1, "basic.nack", delivery_tag=hold(client, queue), requeue=True)
    reject(client, queue)
    (letter,) = collect(client, queue, 1)
    assert (letter.body, letter.properties["headers"]) == (b"1", {"x-retry-count": 1})


def test_dead_letters_are_no_duplicates(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    """Those of two queues with the same id are two messages; one published with it is still known."""
    grave = topology.queue(client, arguments=ONCE)
    reach = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": grave}
    publisher.publish_all(grave, b"published", message_id="a")
    for body in (b"1", b"2"):
        queue = topology.queue(client, arguments=reach)
        publisher.publish_all(queue, body, message_id="a")
        reject(client, queue)
    assert collect_bodies(client, grave, 3) == [b"published", b"1", b"2"]
    publisher.publish_all(grave, b"again", message_id="a")
    assert drain(client, grave) == []


def test_what_a_delayed_exchange_sends_is_no_duplicate(
    client: RawClient, publisher: Publisher, topology: Topology
) -> None:
    exchange = topology.exchange(client, "x-delayed-message", arguments={"x-delayed-type": "fanout"})
    queue = topology.queue(client, arguments=ONCE)
    client.call(1, "queue.bind", queue=queue, exchange=exchange)
    for body in (b"1", b"2"):
        assert publisher.publish("", body, exchange=exchange, message_id="a", headers={"x-delay": 100}) == "ack"
    assert collect_bodies(client, queue, 2) == [b"1", b"2"]


# ---- exchanges


def test_the_type_of_the_plugin_leads_to_everybody(
    target: LeveretTarget, client: RawClient, publisher: Publisher, topology: Topology
) -> None:
    exchange = topology.exchange(client, "x-message-deduplication", arguments={"x-cache-size": 10})
    queues = [topology.bound_queue(client, exchange, routing_key) for routing_key in ("a", "b")]
    for routing_key in ("a", "b", "c"):
        assert publisher.publish(routing_key, b"1", exchange=exchange, message_id="x") == "ack"
    assert [drain(client, queue) for queue in queues] == [[b"1"], [b"1"]]
    assert of_exchange(target.broker, exchange, lambda live: live.window.duplicates_total) == 2


def test_what_was_returned_may_be_sent_again(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    """Nobody has it, so the next one is no duplicate."""
    exchange = topology.exchange(client, "direct", arguments=ONCE)
    for _ in range(2):
        verdict = publisher.publish("key", b"1", exchange=exchange, mandatory=True, message_id="a")
        assert verdict == "return ack"
    queue = topology.bound_queue(client, exchange, "key")
    for _ in range(2):
        assert publisher.publish("key", b"1", exchange=exchange, mandatory=True, message_id="a") == "ack"
    assert drain(client, queue) == [b"1"]


# ---- arguments


BAD_ARGUMENTS = [
    ({"x-message-deduplication": "yes"}, "x-message-deduplication", "{unacceptable_type,longstr}"),
    ({**ONCE, "x-cache-size": 0}, "x-cache-size", "{value_zero,0}"),
    ({**ONCE, "x-cache-size": -1}, "x-cache-size", "{value_negative,-1}"),
    ({**ONCE, "x-cache-size": "many"}, "x-cache-size", '"expected integer, got longstr"'),
    ({**ONCE, "x-cache-ttl": 0}, "x-cache-ttl", "{value_zero,0}"),
    ({**ONCE, "x-cache-ttl": True}, "x-cache-ttl", '"expected integer, got bool"'),
]


@pytest.mark.parametrize(("arguments", "name", "reason"), BAD_ARGUMENTS)
def test_bad_arguments_of_a_queue(client: RawClient, arguments: dict[str, Value], name: str, reason: str) -> None:
    queue = unique_name("queue")
    refusal = refusal_of(client, "queue.declare", queue=queue, exclusive=True, arguments=arguments)
    text = f"PRECONDITION_FAILED - invalid arg '{name}' for queue '{queue}' in vhost '/': {reason}"
    assert refusal == Refusal("channel", 406, text, 50, 10)


@pytest.mark.parametrize("kind", ["direct", "x-message-deduplication"])
@pytest.mark.parametrize(("arguments", "name", "reason"), BAD_ARGUMENTS)
def test_bad_arguments_of_an_exchange(
    client: RawClient, kind: str, arguments: dict[str, Value], name: str, reason: str
) -> None:
    exchange = unique_name("exchange")
    arguments = {"x-cache-size": 1, **arguments}
    refusal = refusal_of(client, "exchange.declare", exchange=exchange, type=kind, arguments=arguments)
    text = f"PRECONDITION_FAILED - invalid arg '{name}' for exchange '{exchange}' in vhost '/': {reason}"
    assert refusal == Refusal("channel", 406, text, 40, 10)


def test_the_type_of_the_plugin_needs_a_size(client: RawClient) -> None:
    exchange = unique_name("exchange")
    refusal = refusal_of(client, "exchange.declare", exchange=exchange, type="x-message-deduplication")
    text = f"PRECONDITION_FAILED - missing argument 'x-cache-size' for exchange '{exchange}' in vhost '/'"
    assert refusal == Refusal("channel", 406, text, 40, 10)


# ---- restarts


def declare_durable(client: RawClient) -> None:
    """A queue q and an exchange x that take each message once, and the queue `bound` behind x."""
    client.call(1, "queue.declare", queue="q", durable=True, arguments=ONCE)
    client.call(1, "queue.declare", queue="bound", durable=True)
    client.call(1, "exchange.declare", exchange="x", type="direct", durable=True, arguments=ONCE)
    client.call(1, "queue.bind", queue="bound", exchange="x", routing_key="key")


def publish_to_both(client: RawClient, id: str) -> None:
    publisher = Publisher(client)
    for exchange, routing_key in (("", "q"), ("x", "key")):
        verdict = publisher.publish(routing_key, id.encode(), exchange=exchange, message_id=id, **PERSISTENT)
        assert verdict == "ack"


def test_a_restart_forgets_nothing(tmp_path: Path) -> None:
    with running(tmp_path) as broker, connected(broker) as client:
        declare_durable(client)
        publish_to_both(client, "a")
        assert (drain(client, "q"), ready(client, "bound")) == ([b"a"], 1)
    with running(tmp_path) as broker, connected(broker) as client:
        publish_to_both(client, "a")
        assert of_queue(broker, "q", lambda queue: queue.window.duplicates_total) == 1
        assert of_exchange(broker, "x", lambda exchange: exchange.window.duplicates_total) == 1
        publish_to_both(client, "b")
        assert (drain(client, "q"), drain(client, "bound")) == ([b"b"], [b"a", b"b"])


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_kill_forgets_nothing_that_was_confirmed(server_process: RestartableTarget) -> None:
    with connected(server_process) as client:
        declare_durable(client)
        publish_to_both(client, "a")
    server_process.kill()
    server_process.start()
    with connected(server_process) as client:
        publish_to_both(client, "a")
        publish_to_both(client, "b")
        assert (drain(client, "q"), drain(client, "bound")) == ([b"a", b"b"], [b"a", b"b"])
