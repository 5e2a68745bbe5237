"""Policies that set what arguments set, on queues and exchanges that are there already, and take it away again."""

import time

import pytest

from tests.conformance.raw_client import RawClient
from tests.conformance.topology import Topology, drain, refusal_of, wait_for
from tests.contract.conftest import Policies
from tests.contract.letters import (
    SETTLING_SECONDS,
    Publisher,
    Table,
    collect,
    collect_bodies,
    last_words,
    ready,
    reject,
    stays_empty,
    wait_for_ready,
)


@pytest.fixture
def queue(client: RawClient, topology: Topology) -> str:
    return topology.queue(client)


def numbers(*values: int) -> list[bytes]:
    return [b"%d" % value for value in values]


class TestOneKey:
    """Each key takes effect on a queue in use, and ends when the policy is cleared."""

    def test_message_ttl(self, client: RawClient, publisher: Publisher, policies: Policies, queue: str) -> None:
        """Messages live by the rule of the moment when they were published."""
        publisher.publish_all(queue, b"before")
        policy = policies.set(queue, {"message-ttl": 200})
        publisher.publish_all(queue, b"short")
        time.sleep(SETTLING_SECONDS)
        assert drain(client, queue) == [b"before"]
        policies.clear(policy)
        publisher.publish_all(queue, b"after")
        time.sleep(SETTLING_SECONDS)
        assert drain(client, queue) == [b"after"]

    def test_max_length(self, client: RawClient, publisher: Publisher, policies: Policies, queue: str) -> None:
        """What is too much goes at once."""
        publisher.publish_all(queue, *numbers(1, 2, 3, 4))
        policy = policies.set(queue, {"max-length": 2})
        wait_for_ready(client, queue, 2)
        publisher.publish_all(queue, *numbers(5))
        assert ready(client, queue) == 2
        policies.clear(policy)
        publisher.publish_all(queue, *numbers(6, 7))
        assert drain(client, queue) == numbers(4, 5, 6, 7)

    def test_max_length_bytes(self, client: RawClient, publisher: Publisher, policies: Policies, queue: str) -> None:
        publisher.publish_all(queue, b"12345", b"67890", b"abc")
        policies.set(queue, {"max-length-bytes": 9})
        wait_for_ready(client, queue, 2)
        assert drain(client, queue) == [b"67890", b"abc"]

    def test_overflow(self, client: RawClient, publisher: Publisher, policies: Policies, queue: str) -> None:
        policy = policies.set(queue, {"max-length": 1, "overflow": "reject-publish"})
        assert [publisher.publish(queue, body) for body in numbers(1, 2)] == ["ack", "nack"]
        policies.clear(policy)
        assert publisher.publish(queue, b"3") == "ack"
        assert drain(client, queue) == numbers(1, 3)

    def test_dead_letter_exchange(
        self, client: RawClient, publisher: Publisher, policies: Policies, topology: Topology, queue: str
    ) -> None:
        grave = topology.queue(client)
        publisher.publish_all(queue, *numbers(1, 2, 3))
        reject(client, queue)
        policy = policies.set(queue, {"dead-letter-exchange": "", "dead-letter-routing-key": grave})
        reject(client, queue)
        assert [last_words(letter) for letter in collect(client, grave, 1)] == [(b"2", "rejected")]
        policies.clear(policy)
        reject(client, queue)
        stays_empty(client, queue, grave)

    def test_expires(self, client: RawClient, publisher: Publisher, policies: Policies, queue: str) -> None:
        assert publisher.publish(queue, mandatory=True) == "ack"
        policies.set(queue, {"expires": 200})
        wait_for("the queue to go", lambda: publisher.publish(queue, mandatory=True) == "return ack")

    def test_expires_cleared(self, client: RawClient, publisher: Publisher, policies: Policies, queue: str) -> None:
        """Cleared in time, the queue stays."""
        policy = policies.set(queue, {"expires": 30_000})
        policies.clear(policy)
        stays_empty(client, queue)
        assert publisher.publish(queue, mandatory=True) == "ack"

    def test_alternate_exchange(
        self, client: RawClient, publisher: Publisher, policies: Policies, topology: Topology
    ) -> None:
        exchange, alternate = topology.exchange(client, "direct"), topology.exchange(client, "fanout")
        queue = topology.bound_queue(client, alternate, "")
        assert publisher.publish("nowhere", b"1", exchange=exchange, mandatory=True) == "return ack"
        policy = policies.set(exchange, {"alternate-exchange": alternate})
        assert publisher.publish("nowhere", b"2", exchange=exchange, mandatory=True) == "ack"
        policies.clear(policy)
        assert publisher.publish("nowhere", b"3", exchange=exchange, mandatory=True) == "return ack"
        assert drain(client, queue) == [b"2"]


def test_several_keys(
    client: RawClient, publisher: Publisher, policies: Policies, topology: Topology, queue: str
) -> None:
    """A policy that shortens a queue and says where its messages go, at once."""
    grave = topology.queue(client)
    publisher.publish_all(queue, *numbers(1, 2, 3, 4))
    policies.set(queue, {"max-length": 2, "dead-letter-exchange": "", "dead-letter-routing-key": grave})
    assert [last_words(letter) for letter in collect(client, grave, 2)] == [(b"1", "maxlen"), (b"2", "maxlen")]
    assert drain(client, queue) == numbers(3, 4)


def test_a_queue_that_comes_after_its_policy(
    client: RawClient, publisher: Publisher, policies: Policies, topology: Topology, queue: str
) -> None:
    """Policies are no part of what is compared when a queue is declared again."""
    client.call(1, "queue.delete", queue=queue)
    policies.set(queue, {"max-length": 1})
    for _ in range(2):
        client.call(1, "queue.declare", queue=queue, exclusive=True)
    publisher.publish_all(queue, *numbers(1, 2))
    assert drain(client, queue) == numbers(2)
    refusal = refusal_of(client, "queue.declare", queue=queue, exclusive=True, arguments={"x-max-length": 1})
    assert refusal.text.endswith("received the value '1' of type 'signedint' but current is none")


def test_the_policy_of_the_highest_priority_is_the_only_one(
    client: RawClient, publisher: Publisher, policies: Policies, queue: str
) -> None:
    policies.set(queue, {"max-length": 1, "message-ttl": 60_000}, priority=1)
    high = policies.set(queue, {"max-length": 3}, priority=2)
    publisher.publish_all(queue, *numbers(1, 2, 3, 4))
    assert ready(client, queue) == 3
    policies.clear(high)
    wait_for_ready(client, queue, 1)
    policies.set(queue, {"message-ttl": 60_000}, priority=3)
    publisher.publish_all(queue, *numbers(5, 6))
    assert drain(client, queue) == numbers(4, 5, 6)


@pytest.mark.parametrize(("user", "operator", "effective"), [(4, 2, 2), (2, 4, 2), (None, 2, 2)])
def test_the_smaller_of_a_policy_and_an_operators_policy_counts(
    client: RawClient,
    publisher: Publisher,
    policies: Policies,
    queue: str,
    user: int | None,
    operator: int,
    effective: int,
) -> None:
    if user is not None:
        policies.set(queue, {"max-length": user, "overflow": "drop-head"})
    policies.set(queue, {"max-length": operator}, operator=True)
    publisher.publish_all(queue, *numbers(1, 2, 3, 4, 5))
    assert ready(client, queue) == effective


def test_an_operators_policy_adds_to_the_users(
    client: RawClient, publisher: Publisher, policies: Policies, queue: str
) -> None:
    policies.set(queue, {"overflow": "reject-publish"})
    limit = policies.set(queue, {"max-length": 1}, operator=True)
    assert [publisher.publish(queue, body) for body in numbers(1, 2)] == ["ack", "nack"]
    policies.clear(limit)
    assert publisher.publish(queue, b"3") == "ack"


@pytest.mark.parametrize(
    ("arguments", "definition"),
    [
        ({"x-max-length": 2}, {"max-length": 4}),
        ({"x-max-length": 4}, {"max-length": 2}),
    ],
    ids=["argument", "policy"],
)
def test_the_smaller_of_an_argument_and_a_policy_counts(
    client: RawClient,
    publisher: Publisher,
    policies: Policies,
    topology: Topology,
    arguments: Table,
    definition: Table,
) -> None:
    queue = topology.queue(client, arguments=arguments)
    policies.set(queue, definition)
    publisher.publish_all(queue, *numbers(1, 2, 3, 4, 5))
    assert ready(client, queue) == 2


def test_the_shorter_life_counts(
    client: RawClient, publisher: Publisher, policies: Policies, topology: Topology
) -> None:
    short = topology.queue(client, arguments={"x-message-ttl": 150})
    policies.set(short, {"message-ttl": 60_000})
    long = topology.queue(client, arguments={"x-message-ttl": 60_000})
    policies.set(long, {"message-ttl": 150})
    for queue in (short, long):
        publisher.publish_all(queue, b"a")
        wait_for_ready(client, queue, 0)


def test_an_argument_that_is_no_number_wins(
    client: RawClient, publisher: Publisher, policies: Policies, topology: Topology
) -> None:
    grave, other = topology.queue(client), topology.queue(client)
    arguments = {
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": grave,
        "x-max-length": 1,
        "x-overflow": "drop-head",
    }
    queue = topology.queue(client, arguments=arguments)
    definition = {"dead-letter-exchange": "", "dead-letter-routing-key": other, "overflow": "reject-publish"}
    policies.set(queue, definition)
    assert [publisher.publish(queue, body) for body in numbers(1, 2)] == ["ack", "ack"]
    assert collect_bodies(client, grave, 1) == [b"1"]
    stays_empty(client, other)


def test_whom_a_policy_is_for(client: RawClient, publisher: Publisher, policies: Policies, queue: str) -> None:
    policies.set(queue, {"max-length": 1}, apply_to="exchanges", priority=9)
    publisher.publish_all(queue, *numbers(1, 2))
    assert ready(client, queue) == 2
    policies.set(queue, {"max-length": 1}, apply_to="queues")
    wait_for_ready(client, queue, 1)
