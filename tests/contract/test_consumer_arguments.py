"""Consumers with wishes: x-priority, exclusive, single active, and arguments that are refused."""

import pytest

from tests.conformance.amqp_codec import Typed, Value
from tests.conformance.conftest import Connect
from tests.conformance.raw_client import RawClient, Refusal
from tests.conformance.topology import Topology, bodies_of, deliveries, refusal_of, wait_for_counts
from tests.contract.letters import Publisher, collect, last_words, queue_with_dead_letters


@pytest.fixture
def queue(client: RawClient, topology: Topology) -> str:
    return topology.queue(client)


def consume(client: RawClient, queue: str, tag: str, **options: Value) -> None:
    client.call(1, "basic.consume", queue=queue, consumer_tag=tag, **options)


def tags(client: RawClient, count: int) -> list[str]:
    return [letter["consumer_tag"] for letter in deliveries(client, count)]


class TestPriority:
    """Consumers of the highest priority are served while they can take more; then the next lower."""

    def test_the_highest_that_can_take_more(self, client: RawClient, publisher: Publisher, queue: str) -> None:
        client.call(1, "basic.qos", prefetch_count=2)
        consume(client, queue, "low", arguments={"x-priority": -1})
        consume(client, queue, "plain")
        consume(client, queue, "high", arguments={"x-priority": 10})
        publisher.publish_all(queue, *[b"%d" % number for number in range(6)])
        assert tags(client, 6) == ["high", "high", "plain", "plain", "low", "low"]

    def test_equals_take_turns(self, client: RawClient, publisher: Publisher, queue: str) -> None:
        for tag in ("one", "two"):
            consume(client, queue, tag, arguments={"x-priority": Typed(b"l", 5)})
        consume(client, queue, "low", arguments={"x-priority": Typed(b"b", 4)})
        publisher.publish_all(queue, *[b"%d" % number for number in range(4)])
        seen = tags(client, 4)
        assert sorted(seen) == ["one", "one", "two", "two"]
        assert seen[0] != seen[1]

    def test_given_back_by_the_highest(self, client: RawClient, publisher: Publisher, queue: str) -> None:
        """It goes to the highest again, though another waits."""
        consume(client, queue, "low", arguments={"x-priority": 1})
        consume(client, queue, "high", arguments={"x-priority": 2})
        publisher.publish_all(queue, b"a")
        letter = client.expect(1, "basic.deliver")
        client.send(1, "basic.reject", delivery_tag=letter["delivery_tag"], requeue=True)
        back = client.expect(1, "basic.deliver")
        assert (letter["consumer_tag"], back["consumer_tag"], back["redelivered"]) == ("high", "high", True)

    def test_when_the_highest_goes(self, client: RawClient, publisher: Publisher, queue: str) -> None:
        consume(client, queue, "low", arguments={"x-priority": 1})
        consume(client, queue, "high", arguments={"x-priority": 2})
        client.call(1, "basic.cancel", consumer_tag="high")
        publisher.publish_all(queue, b"a")
        assert tags(client, 1) == ["low"]


class TestSingleActive:
    """One consumer at a time, also for messages that come back."""

    @pytest.fixture
    def single(self, client: RawClient, topology: Topology) -> str:
        return topology.queue(client, exclusive=False, arguments={"x-single-active-consumer": True})

    def test_given_back(self, client: RawClient, publisher: Publisher, single: str) -> None:
        client.call(1, "basic.qos", prefetch_count=2)
        consume(client, single, "first")
        consume(client, single, "second")
        publisher.publish_all(single, b"a", b"b", b"c")
        taken = deliveries(client, 2)
        client.send(1, "basic.nack", delivery_tag=taken[1]["delivery_tag"], multiple=True, requeue=True)
        again = deliveries(client, 2)
        assert bodies_of(again) == [b"a", b"b"]
        assert {letter["consumer_tag"] for letter in (*taken, *again)} == {"first"}

    def test_order_when_the_next_takes_over(
        self, client: RawClient, connect: Connect, publisher: Publisher, single: str
    ) -> None:
        active, waiting = connect(), connect()
        active.call(1, "basic.qos", prefetch_count=2)
        consume(active, single, "active")
        consume(waiting, single, "waiting")
        wait_for_counts(client, single, 0, 2)
        publisher.publish_all(single, b"a", b"b", b"c", b"d")
        assert bodies_of(deliveries(active, 2)) == [b"a", b"b"]
        active.call(1, "channel.close")
        letters = deliveries(waiting, 4)
        assert bodies_of(letters) == [b"a", b"b", b"c", b"d"]
        assert [letter["redelivered"] for letter in letters] == [True, True, False, False]

    def test_a_cancelled_consumer_keeps_what_it_holds(
        self, client: RawClient, publisher: Publisher, single: str
    ) -> None:
        consume(client, single, "first")
        consume(client, single, "second")
        publisher.publish_all(single, b"a")
        held = client.expect(1, "basic.deliver")
        client.call(1, "basic.cancel", consumer_tag="first")
        publisher.publish_all(single, b"b")
        assert tags(client, 1) == ["second"]
        client.send(1, "basic.reject", delivery_tag=held["delivery_tag"], requeue=True)
        back = client.expect(1, "basic.deliver")
        assert (back.body, back["consumer_tag"]) == (b"a", "second")

    def test_with_expiry_and_dead_letters(self, client: RawClient, publisher: Publisher, topology: Topology) -> None:
        """The waiting consumer could take them, but is not asked: they expire behind the one that is full."""
        arguments = {"x-single-active-consumer": True, "x-message-ttl": 200}
        queue, grave = queue_with_dead_letters(client, topology, arguments)
        client.call(1, "basic.qos", prefetch_count=1)
        consume(client, queue, "first")
        consume(client, queue, "second")
        publisher.publish_all(queue, b"a", b"b")
        assert client.expect(1, "basic.deliver").body == b"a"
        client.open_channel(2)
        (letter,) = collect(client, grave, 1, channel=2)
        assert last_words(letter) == (b"b", "expired")


class TestExclusive:
    """A consumer that shares the queue with no other."""

    def test_alone(self, client: RawClient, publisher: Publisher, queue: str) -> None:
        consume(client, queue, "only", exclusive=True)
        refusal = refusal_of(client, "basic.consume", queue=queue, consumer_tag="second")
        assert refusal == Refusal(
            "channel", 403, f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use", 60, 20
        )

    def test_not_beside_another(self, client: RawClient, publisher: Publisher, queue: str) -> None:
        consume(client, queue, "first")
        refusal = refusal_of(client, "basic.consume", queue=queue, consumer_tag="second", exclusive=True)
        assert (refusal.code, refusal.text) == (
            403,
            f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use",
        )

    def test_gets_are_served_beside_it(self, client: RawClient, publisher: Publisher, queue: str) -> None:
        client.call(1, "basic.qos", prefetch_count=1)
        consume(client, queue, "only", exclusive=True)
        publisher.publish_all(queue, b"a", b"b")
        assert client.expect(1, "basic.deliver").body == b"a"
        client.open_channel(2)
        assert client.call(2, "basic.get", queue=queue).body == b"b"

    def test_free_again_when_it_goes(self, client: RawClient, publisher: Publisher, queue: str) -> None:
        consume(client, queue, "only", exclusive=True)
        client.call(1, "basic.cancel", consumer_tag="only")
        consume(client, queue, "next", exclusive=True, arguments={"x-priority": 3})
        publisher.publish_all(queue, b"a")
        assert tags(client, 1) == ["next"]


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-cancel-on-ha-failover": True},
        {"x-cancel-on-ha-failover": False},
        {"x-priority": 0},
        {"x-priority": Typed(b"l", 1 << 40)},
        {"x-anything": [1, None]},
    ],
)
def test_good_arguments(client: RawClient, publisher: Publisher, queue: str, arguments: dict[str, Value]) -> None:
    consume(client, queue, "mine", arguments=arguments)
    publisher.publish_all(queue, b"a")
    assert tags(client, 1) == ["mine"]


@pytest.mark.parametrize(
    ("argument", "value", "reason"),
    [
        ("x-priority", "1", ': "expected integer, got longstr"'),
        ("x-priority", True, ': "expected integer, got bool"'),
        ("x-priority", 1.5, ': "expected integer, got double"'),
        ("x-priority", None, ': "expected integer, got void"'),
        ("x-priority", [], ': "expected integer, got array"'),
        ("x-priority", {}, ': "expected integer, got table"'),
        ("x-cancel-on-ha-failover", "true", ": {unacceptable_type,longstr}"),
        ("x-cancel-on-ha-failover", 1, ": {unacceptable_type,signedint}"),
        ("x-stream-offset", "first", " of queue type rabbit_classic_queue"),
    ],
)
def test_bad_arguments(client: RawClient, queue: str, argument: str, value: Value, reason: str) -> None:
    refusal = refusal_of(client, "basic.consume", queue=queue, arguments={argument: value})
    text = f"PRECONDITION_FAILED - invalid arg '{argument}' for queue '{queue}' in vhost '/'{reason}"
    assert refusal == Refusal("channel", 406, text, 60, 20)
