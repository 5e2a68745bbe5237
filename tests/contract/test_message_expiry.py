"""Messages that expire: by the queue's x-message-ttl or their own expiration, at the head of the queue only."""

import time

import pytest

from tests.conformance.amqp_codec import Value
from tests.conformance.raw_client import RawClient, Refusal
from tests.conformance.topology import Topology, drain
from tests.contract.letters import (
    SETTLING_SECONDS,
    Publisher,
    collect,
    collect_bodies,
    deaths,
    hold,
    last_words,
    queue_with_dead_letters,
    ready,
    stays_empty,
    wait_for_ready,
)

MINUTE = 60_000
# Queue arguments and message properties that let a message live 200 ms; the shorter of two lives counts.
SHORT_LIVES: list[tuple[dict[str, Value], dict[str, Value]]] = [
    ({"x-message-ttl": 200}, {}),
    ({}, {"expiration": "200"}),
    ({"x-message-ttl": MINUTE}, {"expiration": "200"}),
    ({"x-message-ttl": 200}, {"expiration": str(MINUTE)}),
]
short_lived = pytest.mark.parametrize(("arguments", "properties"), SHORT_LIVES)


@short_lived
def test_messages_expire(
    client: RawClient,
    publisher: Publisher,
    topology: Topology,
    arguments: dict[str, Value],
    properties: dict[str, Value],
) -> None:
    queue = topology.queue(client, arguments=arguments)
    publisher.publish_all(queue, b"a", b"b", b"c", **properties)
    wait_for_ready(client, queue, 0)
    assert client.call(1, "basic.get", queue=queue).name == "basic.get-empty"


@short_lived
def test_expired_messages_are_dead_lettered_in_order(
    client: RawClient,
    publisher: Publisher,
    topology: Topology,
    arguments: dict[str, Value],
    properties: dict[str, Value],
) -> None:
    queue, grave = queue_with_dead_letters(client, topology, arguments)
    publisher.publish_all(queue, b"a", b"b", b"c", **properties)
    letters = collect(client, grave, 3)
    assert [last_words(letter) for letter in letters] == [(b"a", "expired"), (b"b", "expired"), (b"c", "expired")]
    assert ready(client, queue) == 0


@short_lived
def test_a_dead_letter_does_not_expire_again(
    client: RawClient,
    publisher: Publisher,
    topology: Topology,
    arguments: dict[str, Value],
    properties: dict[str, Value],
) -> None:
    """Its expiration is no property any more, whoever made it expire, but is told by x-death."""
    queue, grave = queue_with_dead_letters(client, topology, arguments)
    publisher.publish_all(queue, b"a", **properties)
    wait_for_ready(client, grave, 1)
    time.sleep(SETTLING_SECONDS)
    (letter,) = collect(client, grave, 1)
    assert "expiration" not in letter.properties
    assert deaths(letter)[0].get("original-expiration") == properties.get("expiration")


@pytest.mark.parametrize(("arguments", "properties"), [({"x-message-ttl": 0}, {}), ({}, {"expiration": "0"})])
class TestNoLifeAtAll:
    """A life of 0 ms is for a consumer that can take the message now."""

    def test_nobody_waits(
        self,
        client: RawClient,
        publisher: Publisher,
        topology: Topology,
        arguments: dict[str, Value],
        properties: dict[str, Value],
    ) -> None:
        queue, grave = queue_with_dead_letters(client, topology, arguments)
        publisher.publish_all(queue, b"a", b"b", **properties)
        assert drain(client, queue) == []
        assert [last_words(letter) for letter in collect(client, grave, 2)] == [(b"a", "expired"), (b"b", "expired")]

    def test_a_consumer_waits(
        self,
        client: RawClient,
        publisher: Publisher,
        topology: Topology,
        arguments: dict[str, Value],
        properties: dict[str, Value],
    ) -> None:
        queue, grave = queue_with_dead_letters(client, topology, arguments)
        client.call(1, "basic.consume", queue=queue, no_ack=True)
        for body in (b"a", b"b", b"c"):
            assert publisher.publish(queue, body, **properties) == "ack"
            letter = client.expect(1, "basic.deliver")
            assert letter.body == body
            assert letter.properties == properties
        client.open_channel(2)
        assert client.call(2, "queue.declare", queue=grave, passive=True)["message_count"] == 0

    def test_the_consumer_is_full(
        self,
        client: RawClient,
        publisher: Publisher,
        topology: Topology,
        arguments: dict[str, Value],
        properties: dict[str, Value],
    ) -> None:
        queue, grave = queue_with_dead_letters(client, topology, arguments)
        client.open_channel(2)
        client.call(2, "basic.qos", prefetch_count=1)
        client.call(2, "basic.consume", queue=queue)
        publisher.publish_all(queue, b"taken", b"late", **properties)
        assert client.expect(2, "basic.deliver").body == b"taken"
        assert collect_bodies(client, grave, 1) == [b"late"]

    def test_requeued(
        self,
        client: RawClient,
        publisher: Publisher,
        topology: Topology,
        arguments: dict[str, Value],
        properties: dict[str, Value],
    ) -> None:
        """What comes back to a queue whose only consumer still is there has expired nevertheless."""
        queue, grave = queue_with_dead_letters(client, topology, arguments)
        client.call(1, "basic.consume", queue=queue)
        assert publisher.publish(queue, b"a", **properties) == "ack"
        tag = client.expect(1, "basic.deliver")["delivery_tag"]
        client.send(1, "basic.reject", delivery_tag=tag, requeue=True)
        client.expect_quiet()
        client.open_channel(2)
        (letter,) = collect(client, grave, 1, channel=2)
        assert last_words(letter) == (b"a", "expired")


def test_a_live_head_keeps_expired_messages_behind_it(
    client: RawClient, publisher: Publisher, topology: Topology
) -> None:
    queue, grave = queue_with_dead_letters(client, topology)
    publisher.publish_all(queue, b"head")
    publisher.publish_all(queue, b"a", b"b", expiration="100")
    publisher.publish_all(queue, b"tail")
    time.sleep(SETTLING_SECONDS)
    assert (ready(client, queue), ready(client, grave)) == (4, 0)
    head = client.call(1, "basic.get", queue=queue, no_ack=True)
    assert head.body == b"head"
    # They may be gone already when the answer counts them, or not yet.
    assert head["message_count"] in (1, 3)
    assert collect_bodies(client, grave, 2) == [b"a", b"b"]
    wait_for_ready(client, queue, 1)
    assert drain(client, queue) == [b"tail"]


def test_expired_messages_behind_the_head_are_never_delivered(
    client: RawClient, publisher: Publisher, topology: Topology
) -> None:
    queue = topology.queue(client)
    publisher.publish_all(queue, b"head")
    publisher.publish_all(queue, b"expired", expiration="100")
    publisher.publish_all(queue, b"tail")
    time.sleep(SETTLING_SECONDS)
    client.call(1, "basic.consume", queue=queue)
    assert [client.expect(1, "basic.deliver").body for _ in range(2)] == [b"head", b"tail"]
    client.expect_quiet()


def test_purge_counts_and_forgets_expired_messages_behind_the_head(
    client: RawClient, publisher: Publisher, topology: Topology
) -> None:
    queue, grave = queue_with_dead_letters(client, topology)
    publisher.publish_all(queue, b"head")
    publisher.publish_all(queue, b"a", b"b", expiration="100")
    time.sleep(SETTLING_SECONDS)
    assert client.call(1, "queue.purge", queue=queue)["message_count"] == 3
    stays_empty(client, queue, grave)


def test_each_waits_for_the_one_before_it(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue, grave = queue_with_dead_letters(client, topology)
    publisher.publish_all(queue, b"later", expiration="400")
    publisher.publish_all(queue, b"sooner", expiration="50")
    assert collect_bodies(client, grave, 2) == [b"later", b"sooner"]


def test_a_shorter_life_behind_a_longer_does_not_shorten_it(
    client: RawClient, publisher: Publisher, topology: Topology
) -> None:
    queue, grave = queue_with_dead_letters(client, topology, {"x-message-ttl": MINUTE})
    publisher.publish_all(queue, b"long")
    publisher.publish_all(queue, b"short", expiration="100")
    time.sleep(SETTLING_SECONDS)
    assert (ready(client, queue), ready(client, grave)) == (2, 0)


@short_lived
class TestUnacknowledged:
    """Messages that somebody holds do not expire, but their time goes on."""

    def test_acknowledged_late(
        self,
        client: RawClient,
        publisher: Publisher,
        topology: Topology,
        arguments: dict[str, Value],
        properties: dict[str, Value],
    ) -> None:
        queue, grave = queue_with_dead_letters(client, topology, arguments)
        client.call(1, "basic.consume", queue=queue)
        assert publisher.publish(queue, b"a", **properties) == "ack"
        tag = client.expect(1, "basic.deliver")["delivery_tag"]
        client.expect_quiet(SETTLING_SECONDS)
        client.send(1, "basic.ack", delivery_tag=tag)
        client.call(1, "channel.close")
        client.open_channel(1)
        stays_empty(client, queue, grave)

    def test_requeued_late(
        self,
        client: RawClient,
        publisher: Publisher,
        topology: Topology,
        arguments: dict[str, Value],
        properties: dict[str, Value],
    ) -> None:
        queue, grave = queue_with_dead_letters(client, topology, arguments)
        client.call(1, "basic.consume", queue=queue)
        assert publisher.publish(queue, b"a", **properties) == "ack"
        tag = client.expect(1, "basic.deliver")["delivery_tag"]
        client.expect_quiet(SETTLING_SECONDS)
        client.send(1, "basic.nack", delivery_tag=tag, requeue=True)
        client.expect_quiet()
        client.open_channel(2)
        (letter,) = collect(client, grave, 1, channel=2)
        assert last_words(letter) == (b"a", "expired")


def test_a_requeued_message_keeps_its_moment(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    """Given back again and again it expires all the same: its time does not start anew."""
    queue, grave = queue_with_dead_letters(client, topology, {"x-message-ttl": 400})
    publisher.publish_all(queue, b"a")
    deadline = time.monotonic() + 10
    while (held := client.call(1, "basic.get", queue=queue)).name == "basic.get-ok":
        client.send(1, "basic.reject", delivery_tag=held["delivery_tag"], requeue=True)
        time.sleep(0.02)
        assert time.monotonic() < deadline
    assert collect_bodies(client, grave, 1) == [b"a"]


def test_a_full_consumer_gets_only_what_is_still_alive(
    client: RawClient, publisher: Publisher, topology: Topology
) -> None:
    queue, grave = queue_with_dead_letters(client, topology)
    client.open_channel(2)
    client.call(2, "basic.qos", prefetch_count=1)
    client.call(2, "basic.consume", queue=queue)
    publisher.publish_all(queue, b"first")
    publisher.publish_all(queue, b"a", b"b", expiration="100")
    publisher.publish_all(queue, b"second")
    first = client.expect(2, "basic.deliver")
    assert collect_bodies(client, grave, 2) == [b"a", b"b"]
    client.send(2, "basic.ack", delivery_tag=first["delivery_tag"])
    assert client.expect(2, "basic.deliver").body == b"second"


def test_expiration_is_delivered_as_it_came(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue = topology.queue(client, arguments={"x-message-ttl": MINUTE})
    for expiration in ("60000", "+60000", "0060000", "315360000000"):
        assert publisher.publish(queue, b"a", expiration=expiration) == "ack"
        (letter,) = collect(client, queue, 1)
        assert letter.properties == {"expiration": expiration}


@pytest.mark.parametrize("expiration", ["0", "-0", "+0", "007", "+5", "00000000000000000000000005"])
def test_odd_ways_to_say_soon(client: RawClient, publisher: Publisher, topology: Topology, expiration: str) -> None:
    queue, grave = queue_with_dead_letters(client, topology)
    assert publisher.publish(queue, b"a", expiration=expiration) == "ack"
    (letter,) = collect(client, grave, 1)
    assert deaths(letter)[0]["original-expiration"] == expiration


@pytest.mark.parametrize(
    ("expiration", "reason"),
    [
        ("", "no_integer"),
        ("abc", "no_integer"),
        ("+", "no_integer"),
        ("+-5", "no_integer"),
        (" 5", "no_integer"),
        ("\u0663", "no_integer"),
        ("-1", "{value_negative,-1}"),
        ("1.5", '{leftover_string,".5"}'),
        ("10x", '{leftover_string,"x"}'),
        ("5 ", '{leftover_string," "}'),
        ("1e3", '{leftover_string,"e3"}'),
        ("315360000001", "{value_too_large,315360000001}"),
    ],
)
def test_bad_expirations_close_the_channel(client: RawClient, topology: Topology, expiration: str, reason: str) -> None:
    queue = topology.queue(client)
    client.publish(1, "", queue, b"a", {"expiration": expiration})
    text = f"PRECONDITION_FAILED - invalid expiration '{expiration}': {reason}"
    assert client.refusal() == Refusal("channel", 406, text, 60, 40)
    client.open_channel(1)
    assert ready(client, queue) == 0


def test_a_bad_expiration_is_refused_even_where_no_queue_is(client: RawClient) -> None:
    client.publish(1, "amq.fanout", "", b"a", {"expiration": "soon"})
    assert client.refusal().text == "PRECONDITION_FAILED - invalid expiration 'soon': no_integer"


def test_rejecting_a_message_before_it_expires(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    """A rejected message keeps its reason, and loses its expiration too."""
    queue, grave = queue_with_dead_letters(client, topology)
    publisher.publish_all(queue, b"a", expiration=str(MINUTE))
    client.send(1, "basic.reject", delivery_tag=hold(client, queue))
    (letter,) = collect(client, grave, 1)
    assert last_words(letter) == (b"a", "rejected")
    assert "expiration" not in letter.properties
    assert deaths(letter)[0]["original-expiration"] == str(MINUTE)
