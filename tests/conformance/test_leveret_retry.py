"""Retries: what failed comes back after growing delays, and at last goes to a parking lot."""

import time
from pathlib import Path
from typing import Any

import pytest

from leveret.errors import InvalidPolicy
from tests.conformance.amqp_codec import Value
from tests.conformance.own_broker import PERSISTENT, connected, delayed_count, of_queue, running
from tests.conformance.raw_client import Method, RawClient, Refusal
from tests.conformance.target import LeveretTarget
from tests.conformance.topology import Topology, drain, refusal_of, unique_name, wait_for
from tests.contract.letters import (
    Publisher,
    collect,
    collect_bodies,
    hold,
    ready,
    reasons,
    reject,
    stays_empty,
    wait_for_ready,
)

TIERS: dict[str, Value] = {"x-retry-delays": "100ms, 200ms"}


@pytest.fixture
def publisher(connect: Any) -> Publisher:
    return Publisher(connect())


@pytest.fixture
def lot(topology: Topology) -> str:
    """The name of a queue that is not there yet."""
    name = unique_name("lot")
    topology.queues.append(name)
    return name


def parked(target: LeveretTarget, client: RawClient, lot: str) -> Method:
    """The only message in the lot, which comes into being with it."""
    wait_for("the parking lot", lambda: exists(target, lot))
    return collect(client, lot, 1)[0]


def tries(letter: Method) -> Value:
    return letter.properties.get("headers", {}).get("x-retry-count")


def fail(client: RawClient, queue: str) -> Value:
    """Takes a message and rejects it: which of its tries that was."""
    (letter,) = collect(client, queue, 1, no_ack=False)
    client.send(1, "basic.reject", delivery_tag=letter["delivery_tag"], requeue=False)
    return tries(letter)


def exists(target: LeveretTarget, queue: str) -> bool:
    there: bool = target.broker.call(lambda node: queue.encode() in node.broker.vhosts["/"].queues)
    return there


# ---- the whole way


@pytest.mark.parametrize("by", ["policy", "arguments"])
def test_what_always_fails_is_parked(
    target: LeveretTarget, client: RawClient, publisher: Publisher, topology: Topology, lot: str, by: str
) -> None:
    if by == "policy":
        queue = topology.queue(client)
        target.set_policy("retries", f"^{queue}$", {"retry-delays": "100ms, 200ms", "parking-lot": lot})
    else:
        queue = topology.queue(client, arguments={**TIERS, "x-parking-lot": lot})
    assert publisher.publish(queue, b"order", headers={"mine": 1}, type="t", content_type="text/plain") == "ack"
    told, waits_ms = [], []
    for _ in range(3):
        began = time.monotonic()
        told.append(fail(client, queue))
        waits_ms.append((time.monotonic() - began) * 1000)
    assert told == [None, 1, 2]
    # The time between asking for it and getting it: what it spent waiting, and what the machine added.
    assert waits_ms[1] >= 90
    assert waits_ms[2] >= 190
    letter = parked(target, client, lot)
    assert (letter.body, letter["exchange"], letter["routing_key"]) == (b"order", "", lot)
    assert reasons(letter) == [(queue, "rejected", 1)]
    (death,) = letter.properties["headers"]["x-death"]
    assert (death["exchange"], death["routing-keys"]) == ("", [queue])
    assert (letter.properties["headers"]["mine"], tries(letter)) == (1, 2)
    assert (letter.properties["type"], letter.properties["content_type"]) == ("t", "text/plain")
    assert of_queue(target.broker, lot, lambda live: live.record.durable)
    stays_empty(client, queue, lot)
    if by == "policy":
        target.clear_policy("retries")


def test_what_succeeds_late_is_done(
    target: LeveretTarget, client: RawClient, publisher: Publisher, topology: Topology, lot: str
) -> None:
    queue = topology.queue(client, arguments={**TIERS, "x-parking-lot": lot})
    publisher.publish_all(queue, b"order")
    fail(client, queue)
    letter = collect(client, queue, 1, no_ack=False)[0]
    assert (tries(letter), letter["redelivered"], letter["exchange"]) == (1, False, "")
    client.send(1, "basic.ack", delivery_tag=letter["delivery_tag"])
    stays_empty(client, queue)
    assert not exists(target, lot)


def test_what_waits_is_seen_as_delayed(
    target: LeveretTarget, client: RawClient, publisher: Publisher, topology: Topology
) -> None:
    queue = topology.queue(client, arguments={"x-retry-delays": "10s"})
    publisher.publish_all(queue, b"1", b"2")
    for _ in range(2):
        fail(client, queue)
    client.call(1, "basic.qos", prefetch_count=0)
    assert (delayed_count(target.broker, queue), ready(client, queue)) == (2, 0)
    assert target.broker.call(lambda node: node.delayed.of_queue("/", queue)).count == 2
    assert target.broker.call(lambda node: node.broker.dead_letter_worker.retried_total) >= 2


def test_a_lot_that_is_there_is_used(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    lot = topology.queue(client)
    queue = topology.queue(client, arguments={"x-parking-lot": lot})
    publisher.publish_all(queue, b"1")
    assert fail(client, queue) is None
    (letter,) = collect(client, lot, 1)
    assert (reasons(letter), tries(letter)) == ([(queue, "rejected", 1)], None)


def test_others_are_not_held_up(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue = topology.queue(client, arguments={"x-retry-delays": ["300ms", 300]})
    publisher.publish_all(queue, b"1", b"2", b"3")
    fail(client, queue)
    assert collect_bodies(client, queue, 3) == [b"2", b"3", b"1"]


# ---- what is a failure


def test_a_requeue_is_no_failure(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue = topology.queue(client, arguments=TIERS)
    publisher.publish_all(queue, b"1")
    for method in ("basic.nack", "basic.reject"):
        client.send(1, method, delivery_tag=hold(client, queue), requeue=True)
    client.send(1, "basic.nack", delivery_tag=hold(client, queue), requeue=False)
    letter = collect(client, queue, 1)[0]
    assert (tries(letter), letter["redelivered"]) == (1, False)


def test_too_many_deliveries_are_a_failure(
    target: LeveretTarget, client: RawClient, publisher: Publisher, topology: Topology, lot: str
) -> None:
    arguments = {"x-delivery-limit": 1, "x-retry-delays": "100ms", "x-parking-lot": lot}
    queue = topology.queue(client, arguments=arguments)
    publisher.publish_all(queue, b"1")
    told = []
    for _ in range(4):
        (letter,) = collect(client, queue, 1, no_ack=False)
        headers = letter.properties.get("headers", {})
        told.append((headers.get("x-retry-count"), headers.get("x-delivery-count", 0)))
        client.send(1, "basic.nack", delivery_tag=letter["delivery_tag"], requeue=True)
    assert told == [(None, 0), (None, 1), (1, 0), (1, 1)]
    assert reasons(parked(target, client, lot)) == [(queue, "delivery_limit", 1)]


def test_what_expires_or_is_too_much_has_not_failed(
    client: RawClient, publisher: Publisher, topology: Topology, lot: str
) -> None:
    grave = topology.queue(client)
    reach = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": grave}
    queue = topology.queue(client, arguments={**reach, **TIERS, "x-parking-lot": lot, "x-max-length": 1})
    publisher.publish_all(queue, b"too much")
    publisher.publish_all(queue, b"expired", expiration="50")
    letters = collect(client, grave, 2)
    assert [reasons(letter)[0][1] for letter in letters] == ["maxlen", "expired"]


# ---- what else the queue has


def test_without_a_lot_it_is_dead_lettered(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    grave = topology.queue(client)
    reach = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": grave}
    queue = topology.queue(client, arguments={**reach, "x-retry-delays": "50ms"})
    publisher.publish_all(queue, b"1")
    assert [fail(client, queue), fail(client, queue)] == [None, 1]
    (letter,) = collect(client, grave, 1)
    assert (reasons(letter), tries(letter)) == ([(queue, "rejected", 1)], 1)


def test_without_either_it_is_dropped(
    target: LeveretTarget, client: RawClient, publisher: Publisher, topology: Topology
) -> None:
    queue = topology.queue(client, arguments={"x-retry-delays": "50ms"})
    publisher.publish_all(queue, b"1")
    assert [fail(client, queue), fail(client, queue)] == [None, 1]
    stays_empty(client, queue)
    assert delayed_count(target.broker, queue) == 0


def test_a_lot_comes_before_a_dead_letter_exchange(
    target: LeveretTarget, client: RawClient, publisher: Publisher, topology: Topology, lot: str
) -> None:
    grave = topology.queue(client)
    reach = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": grave}
    queue = topology.queue(client, arguments={**reach, "x-parking-lot": lot})
    publisher.publish_all(queue, b"1")
    fail(client, queue)
    assert parked(target, client, lot).body == b"1"
    stays_empty(client, grave)


def test_a_time_to_live_begins_anew(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    """A delay longer than the time to live does not kill the message, and it expires after it."""
    grave = topology.queue(client)
    reach = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": grave}
    queue = topology.queue(client, arguments={**reach, "x-message-ttl": 300, "x-retry-delays": "600ms"})
    client.call(1, "basic.consume", queue=queue, consumer_tag="worker")
    publisher.publish_all(queue, b"1")
    client.send(1, "basic.reject", delivery_tag=client.expect(1, "basic.deliver")["delivery_tag"], requeue=False)
    again = client.expect(1, "basic.deliver")
    assert tries(again) == 1
    client.call(1, "basic.cancel", consumer_tag="worker")
    client.send(1, "basic.nack", delivery_tag=again["delivery_tag"], requeue=True)
    (letter,) = collect(client, grave, 1)
    assert reasons(letter) == [(queue, "expired", 1)]


def test_a_priority_stays(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue = topology.queue(client, arguments={"x-max-priority": 5, "x-retry-delays": "100ms"})
    publisher.publish_all(queue, b"high", priority=5)
    fail(client, queue)
    publisher.publish_all(queue, b"low", priority=1)
    wait_for_ready(client, queue, 2)
    assert drain(client, queue) == [b"high", b"low"]


def test_a_limit_does_not_count_what_waits(
    target: LeveretTarget, client: RawClient, publisher: Publisher, topology: Topology
) -> None:
    queue = topology.queue(client, arguments={"x-max-length": 1, "x-retry-delays": "300ms"})
    publisher.publish_all(queue, b"1")
    fail(client, queue)
    publisher.publish_all(queue, b"2")
    assert ready(client, queue) == 1
    # Then the oldest goes, which is the one that never failed.
    time.sleep(0.6)
    assert drain(client, queue) == [b"1"]


def test_a_policy_that_goes_leaves_those_that_wait(
    target: LeveretTarget, client: RawClient, publisher: Publisher, topology: Topology
) -> None:
    queue = topology.queue(client)
    target.set_policy("retries", f"^{queue}$", {"retry-delays": "300ms"})
    publisher.publish_all(queue, b"waits", b"dropped")
    fail(client, queue)
    client.call(1, "basic.qos", prefetch_count=0)
    target.clear_policy("retries")
    fail(client, queue)
    assert collect_bodies(client, queue, 1) == [b"waits"]
    stays_empty(client, queue)


# ---- restarts


def test_a_restart_in_the_middle(tmp_path: Path) -> None:
    """Policy, tier and time are kept, and the lot with what is in it."""
    definition = {"retry-delays": "5s, 50ms", "parking-lot": "lot"}
    with running(tmp_path) as broker, connected(broker) as client:
        broker.call(lambda node: node.policies.put("/", "retries", "^q$", definition))
        client.call(1, "queue.declare", queue="q", durable=True)
        Publisher(client).publish_all("q", b"1", **PERSISTENT)
        reject(client, "q")
        began = time.monotonic()
        client.log_out()
    with running(tmp_path) as broker, connected(broker) as client:
        assert delayed_count(broker, "q") == 1
        assert fail(client, "q") == 1
        assert time.monotonic() - began >= 4.9
        assert fail(client, "q") == 2
        wait_for_ready_in_lot(client)
        client.log_out()
    with running(tmp_path) as broker, connected(broker) as client:
        (letter,) = collect(client, "lot", 1)
        assert (letter.body, reasons(letter)) == (b"1", [("q", "rejected", 1)])
        stays_empty(client, "q", "lot")


def wait_for_ready_in_lot(client: RawClient) -> None:
    """The lot is made with the first message for it: a passive declare before that would close the channel."""
    while client.call(1, "queue.declare", queue="lot", durable=True)["message_count"] == 0:
        time.sleep(0.02)


# ---- values that cannot be used


BAD_DELAYS = ["", "fast", "5", "1s,", "1s 2s", "0s", "-1s", "1.5s", "31d", 5, True, [], [0], [True], ["1s", {}]]


@pytest.mark.parametrize("value", BAD_DELAYS, ids=str)
def test_bad_delays_in_an_argument(client: RawClient, value: Value) -> None:
    queue = unique_name("queue")
    refusal = refusal_of(client, "queue.declare", queue=queue, exclusive=True, arguments={"x-retry-delays": value})
    start = f"PRECONDITION_FAILED - invalid arg 'x-retry-delays' for queue '{queue}' in vhost '/': "
    assert (refusal.code, refusal.text[: len(start)]) == (406, start)


@pytest.mark.parametrize("value", BAD_DELAYS, ids=str)
def test_bad_delays_in_a_policy(target: LeveretTarget, value: Any) -> None:
    with pytest.raises(InvalidPolicy) as raised:
        target.set_policy("bad", "^none$", {"retry-delays": value})
    assert raised.value.key == "retry-delays"
    assert "retry-delays" in str(raised.value)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (5, "{unacceptable_type,signedint}"),
        ("", '"a parking lot takes the name of a queue"'),
        ("x" * 256, '"a parking lot takes the name of a queue"'),
    ],
    ids=["number", "empty", "long"],
)
def test_a_bad_lot_in_an_argument(client: RawClient, value: Value, reason: str) -> None:
    queue = unique_name("queue")
    refusal = refusal_of(client, "queue.declare", queue=queue, exclusive=True, arguments={"x-parking-lot": value})
    text = f"PRECONDITION_FAILED - invalid arg 'x-parking-lot' for queue '{queue}' in vhost '/': {reason}"
    assert refusal == Refusal("channel", 406, text, 50, 10)


@pytest.mark.parametrize("value", [5, "", "x" * 256, None], ids=["number", "empty", "long", "none"])
def test_a_bad_lot_in_a_policy(target: LeveretTarget, value: Any) -> None:
    with pytest.raises(InvalidPolicy) as raised:
        target.set_policy("bad", "^none$", {"parking-lot": value})
    assert raised.value.key == "parking-lot"


def test_the_longest_name_of_a_lot(
    target: LeveretTarget, client: RawClient, publisher: Publisher, topology: Topology
) -> None:
    lot = unique_name("lot").ljust(255, "x")
    topology.queues.append(lot)
    queue = topology.queue(client, arguments={"x-parking-lot": lot})
    publisher.publish_all(queue, b"1")
    fail(client, queue)
    assert parked(target, client, lot).body == b"1"


def test_a_dead_letter_key_that_is_too_long_leads_nowhere(
    target: LeveretTarget, client: RawClient, publisher: Publisher, topology: Topology
) -> None:
    """No routing key has more than 255 octets, so nobody could be told this one; the message is done with."""
    graves = topology.exchange(client, "fanout")
    grave = topology.bound_queue(client, graves, "")
    reach = {"x-dead-letter-exchange": graves, "x-dead-letter-routing-key": "x" * 256}
    queue = topology.queue(client, arguments=reach)
    publisher.publish_all(queue, b"1")
    unroutable = target.broker.call(lambda node: node.broker.dead_letter_worker.unroutable_total)
    reject(client, queue)
    stays_empty(client, queue, grave)
    assert target.broker.call(lambda node: node.broker.dead_letter_worker.unroutable_total) == unroutable + 1
