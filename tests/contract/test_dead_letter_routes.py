"""Where dead letters go: by which exchange and key, with CC and BCC, and what becomes of those that reach no queue."""

import pytest

from tests.conformance.raw_client import RawClient
from tests.conformance.topology import Topology, drain, unique_name
from tests.contract.letters import (
    Publisher,
    Table,
    collect,
    collect_bodies,
    deaths,
    headers_of,
    ready,
    reasons,
    reject,
    stays_empty,
    wait_for_ready,
)


def dying_queue(
    client: RawClient, topology: Topology, dlx: str, key: str | None = None, more: Table | None = None
) -> str:
    """A queue whose dead letters go to this exchange."""
    arguments: Table = {"x-dead-letter-exchange": dlx, **(more or {})}
    if key is not None:
        arguments["x-dead-letter-routing-key"] = key
    return topology.queue(client, arguments=arguments)


def test_with_their_own_key(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    dlx = topology.exchange(client, "direct")
    queue = dying_queue(client, topology, dlx)
    grave, other = topology.bound_queue(client, dlx, queue), topology.bound_queue(client, dlx, "other")
    publisher.publish_all(queue, b"a")
    reject(client, queue)
    (letter,) = collect(client, grave, 1)
    assert (letter["exchange"], letter["routing_key"]) == (dlx, queue)
    stays_empty(client, other)


@pytest.mark.parametrize("key", ["dead", ""])
def test_with_a_key_of_the_queue(client: RawClient, publisher: Publisher, topology: Topology, key: str) -> None:
    dlx = topology.exchange(client, "direct")
    queue = dying_queue(client, topology, dlx, key)
    grave, other = topology.bound_queue(client, dlx, key), topology.bound_queue(client, dlx, queue)
    publisher.publish_all(queue, b"a")
    reject(client, queue)
    (letter,) = collect(client, grave, 1)
    assert (letter["exchange"], letter["routing_key"]) == (dlx, key)
    assert deaths(letter)[0]["routing-keys"] == [queue]
    stays_empty(client, other)


def test_through_the_default_exchange_with_their_own_key(
    client: RawClient, publisher: Publisher, topology: Topology
) -> None:
    """The key of a message from a topic exchange may be the name of a queue."""
    grave = topology.queue(client)
    queue = dying_queue(client, topology, "")
    source = topology.exchange(client, "topic")
    client.call(1, "queue.bind", queue=queue, exchange=source, routing_key="#")
    publisher.publish_all(grave, b"a", exchange=source)
    reject(client, queue)
    (letter,) = collect(client, grave, 1)
    assert (letter["exchange"], letter["routing_key"]) == ("", grave)
    assert deaths(letter)[0]["exchange"] == source


def test_through_a_topic_exchange(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    dlx = topology.exchange(client, "topic")
    queue = dying_queue(client, topology, dlx, "dead.order.paid")
    graves = [topology.bound_queue(client, dlx, key) for key in ("dead.#", "*.order.*", "order.*")]
    publisher.publish_all(queue, b"a")
    reject(client, queue)
    assert [collect_bodies(client, grave, 1) for grave in graves[:2]] == [[b"a"], [b"a"]]
    stays_empty(client, graves[2])


def test_through_a_fanout_exchange(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    dlx = topology.exchange(client, "fanout")
    queue = dying_queue(client, topology, dlx)
    graves = [topology.bound_queue(client, dlx, "") for _ in range(3)]
    publisher.publish_all(queue, b"a")
    reject(client, queue)
    letters = [collect(client, grave, 1)[0] for grave in graves]
    assert [letter.properties_raw for letter in letters] == [letters[0].properties_raw] * 3


@pytest.mark.parametrize(
    ("condition", "matches"),
    [
        ({"x-match": "all", "colour": "red"}, True),
        ({"x-match": "all", "colour": "blue"}, False),
        ({"x-match": "all-with-x", "x-first-death-reason": "rejected"}, True),
        ({"x-match": "all-with-x", "x-first-death-reason": "expired"}, False),
    ],
    ids=["its header", "another header", "its reason", "another reason"],
)
def test_through_a_headers_exchange(
    client: RawClient, publisher: Publisher, topology: Topology, condition: Table, matches: bool
) -> None:
    """The headers that are matched are those of the dead letter, with its deaths noted."""
    dlx = topology.exchange(client, "headers")
    queue = dying_queue(client, topology, dlx)
    grave = topology.queue(client)
    client.call(1, "queue.bind", queue=grave, exchange=dlx, arguments=condition)
    publisher.publish_all(queue, b"a", headers={"colour": "red"})
    reject(client, queue)
    if matches:
        assert collect_bodies(client, grave, 1) == [b"a"]
    else:
        stays_empty(client, grave)


def test_an_exchange_that_is_not_there_loses_them(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue = dying_queue(client, topology, unique_name("missing"))
    publisher.publish_all(queue, b"a", b"b")
    reject(client, queue)
    # Neither the channel nor the queue minds.
    assert collect_bodies(client, queue, 1) == [b"b"]


def test_an_exchange_may_come_later(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    dlx = unique_name("late")
    queue = dying_queue(client, topology, dlx)
    publisher.publish_all(queue, b"lost", b"kept")
    reject(client, queue)
    client.call(1, "basic.qos")
    assert ready(client, queue) == 1
    client.call(1, "exchange.declare", exchange=dlx, type="fanout")
    topology.exchanges.append(dlx)
    grave = topology.bound_queue(client, dlx, "")
    reject(client, queue)
    assert collect_bodies(client, grave, 1) == [b"kept"]


def test_letters_that_match_no_queue_are_lost(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    dlx = topology.exchange(client, "direct")
    grave = topology.bound_queue(client, dlx, "elsewhere")
    queue = dying_queue(client, topology, dlx)
    publisher.publish_all(queue, b"a", mandatory=True)
    reject(client, queue)
    stays_empty(client, queue, grave)
    publisher.client.expect_quiet()


def test_an_alternate_exchange_finds_them(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    alternate = topology.exchange(client, "fanout")
    dlx = topology.exchange(client, "direct", arguments={"alternate-exchange": alternate})
    grave = topology.bound_queue(client, alternate, "")
    queue = dying_queue(client, topology, dlx, "nowhere")
    publisher.publish_all(queue, b"a")
    reject(client, queue)
    (letter,) = collect(client, grave, 1)
    assert (letter["exchange"], letter["routing_key"]) == (dlx, "nowhere")


def test_an_internal_exchange_takes_them(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    dlx = topology.exchange(client, "fanout", internal=True)
    grave = topology.bound_queue(client, dlx, "")
    queue = dying_queue(client, topology, dlx)
    publisher.publish_all(queue, b"a")
    reject(client, queue)
    assert collect_bodies(client, grave, 1) == [b"a"]


def test_exchanges_behind_the_exchange(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    dlx, behind = topology.exchange(client, "direct"), topology.exchange(client, "fanout")
    client.call(1, "exchange.bind", source=dlx, destination=behind, routing_key="dead")
    graves = [topology.bound_queue(client, dlx, "dead"), topology.bound_queue(client, behind, "")]
    queue = dying_queue(client, topology, dlx, "dead")
    publisher.publish_all(queue, b"a")
    reject(client, queue)
    assert [collect_bodies(client, grave, 1) for grave in graves] == [[b"a"], [b"a"]]


class TestCarbonCopies:
    """CC and BCC of the publisher are keys of the dead letter too, unless the queue has a key for it."""

    def test_a_letter_with_its_own_keys(self, client: RawClient, publisher: Publisher, topology: Topology) -> None:
        dlx = topology.exchange(client, "direct")
        queue = dying_queue(client, topology, dlx)
        graves = [topology.bound_queue(client, dlx, key) for key in (queue, "copy", "blind")]
        headers = {"CC": ["copy"], "BCC": ["blind"]}
        assert publisher.publish(queue, b"a", headers=headers) == "ack"
        reject(client, queue)
        letters = [collect(client, grave, 1)[0] for grave in graves]
        assert [letter["routing_key"] for letter in letters] == [queue] * 3
        assert [headers_of(letter)["CC"] for letter in letters] == [["copy"]] * 3
        assert all("BCC" not in headers_of(letter) for letter in letters)
        # What was blind stays so.
        assert [deaths(letter)[0]["routing-keys"] for letter in letters] == [[queue, "copy"]] * 3

    def test_a_letter_with_a_key_of_the_queue(
        self, client: RawClient, publisher: Publisher, topology: Topology
    ) -> None:
        dlx = topology.exchange(client, "direct")
        queue = dying_queue(client, topology, dlx, "dead")
        grave = topology.bound_queue(client, dlx, "dead")
        others = [topology.bound_queue(client, dlx, key) for key in (queue, "copy", "blind")]
        assert publisher.publish(queue, b"a", headers={"CC": ["copy"], "BCC": ["blind"]}) == "ack"
        reject(client, queue)
        (letter,) = collect(client, grave, 1)
        assert "CC" not in headers_of(letter)
        assert deaths(letter)[0]["routing-keys"] == [queue, "copy"]
        stays_empty(client, *others)

    def test_a_copy_that_dies(self, client: RawClient, publisher: Publisher, topology: Topology) -> None:
        """It says the key that the publisher named first, not the one that brought it to its queue."""
        grave = topology.queue(client)
        queue = dying_queue(client, topology, "", grave)
        assert publisher.publish("nobody", b"a", headers={"CC": [queue]}) == "ack"
        reject(client, queue)
        (letter,) = collect(client, grave, 1)
        assert deaths(letter)[0]["routing-keys"] == ["nobody", queue]


class TestCycles:
    """A message may come back to a queue where it died only if somebody rejected it on the way."""

    def test_expired_in_a_circle_of_one(self, client: RawClient, publisher: Publisher, topology: Topology) -> None:
        queue = dying_queue(client, topology, "", more={"x-message-ttl": 100})
        publisher.publish_all(queue, b"a", b"b")
        wait_for_ready(client, queue, 0)
        stays_empty(client, queue)

    def test_expired_in_a_circle_of_two(self, client: RawClient, publisher: Publisher, topology: Topology) -> None:
        back = topology.exchange(client, "fanout")
        one = dying_queue(client, topology, back, more={"x-message-ttl": 100})
        two = dying_queue(client, topology, "", one, more={"x-message-ttl": 100})
        client.call(1, "queue.bind", queue=two, exchange=back)
        witness = topology.bound_queue(client, back, "")
        publisher.publish_all(one, b"a")
        assert collect_bodies(client, witness, 1) == [b"a"]
        wait_for_ready(client, two, 0)
        stays_empty(client, one, two, witness)

    def test_only_the_queue_of_the_circle_is_left_out(
        self, client: RawClient, publisher: Publisher, topology: Topology
    ) -> None:
        dlx = topology.exchange(client, "fanout")
        queue = dying_queue(client, topology, dlx, more={"x-message-ttl": 100})
        client.call(1, "queue.bind", queue=queue, exchange=dlx)
        grave = topology.bound_queue(client, dlx, "")
        publisher.publish_all(queue, b"a")
        assert collect_bodies(client, grave, 1) == [b"a"]
        stays_empty(client, queue, grave)

    def test_dropped_from_a_full_queue(self, client: RawClient, publisher: Publisher, topology: Topology) -> None:
        queue = dying_queue(client, topology, "", more={"x-max-length": 1})
        publisher.publish_all(queue, b"a", b"b")
        assert ready(client, queue) == 1
        assert drain(client, queue) == [b"b"]
        stays_empty(client, queue)

    def test_rejected(self, client: RawClient, publisher: Publisher, topology: Topology) -> None:
        """At the end of the queue, not in its old place."""
        queue = dying_queue(client, topology, "")
        publisher.publish_all(queue, b"a", b"b")
        reject(client, queue)
        assert collect_bodies(client, queue, 1) == [b"b"]
        for count in (1, 2, 3):
            (letter,) = collect(client, queue, 1, no_ack=False)
            assert letter.body == b"a"
            assert reasons(letter) == [(queue, "rejected", count)]
            client.send(1, "basic.reject", delivery_tag=letter["delivery_tag"])

    def test_expired_after_a_rejection(self, client: RawClient, publisher: Publisher, topology: Topology) -> None:
        """Rejected in one, expired in the other: the rejection is in the circle, so it goes round."""
        one = topology.queue(client)
        waiting = dying_queue(client, topology, "", one, more={"x-message-ttl": 100})
        client.call(1, "queue.delete", queue=one)
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": waiting}
        client.call(1, "queue.declare", queue=one, exclusive=True, arguments=arguments)
        publisher.publish_all(one, b"a")
        for count in (1, 2, 3):
            reject(client, one)
            wait_for_ready(client, one, 1)
            (letter,) = collect(client, one, 1, no_ack=False)
            assert reasons(letter) == [(waiting, "expired", count), (one, "rejected", count)]
            client.send(1, "basic.reject", delivery_tag=letter["delivery_tag"], requeue=True)
