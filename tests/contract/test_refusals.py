"""Full queues that refuse what is published (x-overflow reject-publish and reject-publish-dlx): publishers are told."""

import pytest

from tests.conformance.amqp_codec import Value
from tests.conformance.conftest import Connect
from tests.conformance.raw_client import RawClient, Refusal
from tests.conformance.topology import Topology, drain
from tests.contract.letters import (
    Publisher,
    assert_properties,
    collect,
    collect_bodies,
    death,
    hold,
    queue_with_dead_letters,
    ready,
    stays_empty,
    wait_for_ready,
)

REFUSE: dict[str, Value] = {"x-overflow": "reject-publish"}
REFUSE_DLX: dict[str, Value] = {"x-overflow": "reject-publish-dlx"}
both = pytest.mark.parametrize("overflow", [REFUSE, REFUSE_DLX], ids=["reject-publish", "reject-publish-dlx"])


@both
def test_publishers_with_confirms_are_told(
    client: RawClient, publisher: Publisher, topology: Topology, overflow: dict[str, Value]
) -> None:
    queue = topology.queue(client, arguments={"x-max-length": 2, **overflow})
    assert [publisher.publish(queue, body) for body in (b"1", b"2", b"3", b"4")] == ["ack", "ack", "nack", "nack"]
    assert drain(client, queue) == [b"1", b"2"]
    assert publisher.publish(queue, b"5") == "ack"


@both
def test_publishers_without_confirms_are_not(client: RawClient, topology: Topology, overflow: dict[str, Value]) -> None:
    queue = topology.queue(client, arguments={"x-max-length": 2, **overflow})
    for body in (b"1", b"2", b"3"):
        client.publish(1, "", queue, body, mandatory=True)
    client.expect_quiet()
    assert drain(client, queue) == [b"1", b"2"]


def test_refused_messages_are_no_dead_letters(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue, grave = queue_with_dead_letters(client, topology, {"x-max-length": 1, **REFUSE})
    assert [publisher.publish(queue, body) for body in (b"1", b"2")] == ["ack", "nack"]
    stays_empty(client, grave)
    assert drain(client, queue) == [b"1"]


def test_unless_the_queue_says_so(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue, grave = queue_with_dead_letters(client, topology, {"x-max-length": 1, **REFUSE_DLX})
    verdicts = [publisher.publish(queue, body, expiration="60000") for body in (b"1", b"2", b"3")]
    assert verdicts == ["ack", "nack", "nack"]
    letters = collect(client, grave, 2)
    assert [letter.body for letter in letters] == [b"2", b"3"]
    headers = {
        "x-death": [death(queue, "maxlen", "", queue, expiration="60000")],
        "x-first-death-exchange": "",
        "x-first-death-queue": queue,
        "x-first-death-reason": "maxlen",
    }
    assert_properties(letters[0], {"headers": headers})
    assert drain(client, queue) == [b"1"]


@both
def test_octets(client: RawClient, publisher: Publisher, topology: Topology, overflow: dict[str, Value]) -> None:
    """A message that would not fit is refused, and a smaller one after it may fit."""
    queue = topology.queue(client, arguments={"x-max-length-bytes": 10, **overflow})
    bodies = [b"12345", b"123456", b"1234", b"12", b"1", b"", b"1"]
    assert [publisher.publish(queue, body) for body in bodies] == ["ack", "nack", "ack", "nack", "ack", "ack", "nack"]
    assert drain(client, queue) == [b"12345", b"1234", b"1", b""]


@both
def test_no_room_at_all(
    client: RawClient, publisher: Publisher, topology: Topology, overflow: dict[str, Value]
) -> None:
    """The queue is asked whether it is full before its consumers are: even they get nothing."""
    queue = topology.queue(client, arguments={"x-max-length": 0, **overflow})
    client.call(1, "basic.consume", queue=queue)
    assert publisher.publish(queue, b"1") == "nack"
    client.expect_quiet()


@both
def test_a_waiting_consumer_means_no_refusal(
    client: RawClient, publisher: Publisher, topology: Topology, overflow: dict[str, Value]
) -> None:
    queue = topology.queue(client, arguments={"x-max-length": 1, **overflow})
    client.call(1, "basic.consume", queue=queue)
    for body in (b"1", b"2", b"3"):
        assert publisher.publish(queue, body) == "ack"
        assert client.expect(1, "basic.deliver").body == body


@both
def test_held_messages_do_not_count(
    client: RawClient, publisher: Publisher, topology: Topology, overflow: dict[str, Value]
) -> None:
    queue = topology.queue(client, arguments={"x-max-length": 1, **overflow})
    publisher.publish_all(queue, b"1")
    hold(client, queue)
    assert [publisher.publish(queue, body) for body in (b"2", b"3")] == ["ack", "nack"]


@both
def test_what_comes_back_is_not_refused(
    client: RawClient, publisher: Publisher, topology: Topology, overflow: dict[str, Value]
) -> None:
    """Neither is anything dropped for it: the queue is over its limit until somebody takes from it."""
    queue, grave = queue_with_dead_letters(client, topology, {"x-max-length": 1, **overflow})
    publisher.publish_all(queue, b"1")
    tag = hold(client, queue)
    publisher.publish_all(queue, b"2")
    client.send(1, "basic.nack", delivery_tag=tag, requeue=True)
    wait_for_ready(client, queue, 2)
    stays_empty(client, grave)
    assert publisher.publish(queue, b"3") == "nack"
    assert collect_bodies(client, queue, 1) == [b"1"]
    assert publisher.publish(queue, b"4") == "nack"
    assert collect_bodies(client, queue, 1) == [b"2"]
    assert publisher.publish(queue, b"5") == "ack"


@both
def test_one_refusal_among_many_queues_is_a_refusal(
    client: RawClient, publisher: Publisher, topology: Topology, overflow: dict[str, Value]
) -> None:
    exchange = topology.exchange(client, "fanout")
    roomy = [topology.bound_queue(client, exchange, "") for _ in range(2)]
    full = topology.queue(client, arguments={"x-max-length": 1, **overflow})
    client.call(1, "queue.bind", queue=full, exchange=exchange)
    verdicts = [publisher.publish("", body, exchange=exchange, mandatory=True) for body in (b"1", b"2")]
    # The message was routed, so a mandatory one does not come back.
    assert verdicts == ["ack", "nack"]
    assert [drain(client, queue) for queue in (*roomy, full)] == [[b"1", b"2"], [b"1", b"2"], [b"1"]]


@both
def test_several_refusals_are_one_nack(
    client: RawClient, publisher: Publisher, topology: Topology, overflow: dict[str, Value]
) -> None:
    exchange = topology.exchange(client, "fanout")
    for _ in range(3):
        full = topology.queue(client, arguments={"x-max-length": 0, **overflow})
        client.call(1, "queue.bind", queue=full, exchange=exchange)
    assert publisher.publish("", b"1", exchange=exchange) == "nack"
    publisher.client.expect_quiet()
    assert publisher.publish("", b"2", exchange=exchange) == "nack"


@both
def test_mandatory_says_nothing_about_refusals(
    client: RawClient, publisher: Publisher, topology: Topology, overflow: dict[str, Value]
) -> None:
    queue = topology.queue(client, arguments={"x-max-length": 0, **overflow})
    assert publisher.publish(queue, b"1", mandatory=True) == "nack"
    assert publisher.publish(f"{queue}-missing", b"1", mandatory=True) == "return ack"


@both
def test_a_transaction_with_refusals_ends_the_channel(
    client: RawClient, connect: Connect, topology: Topology, overflow: dict[str, Value]
) -> None:
    """What becomes of the rest of it differs: RabbitMQ commits what fits, Leveret nothing."""
    queue = topology.queue(client, arguments={"x-max-length": 2, **overflow})
    tx = connect()
    tx.call(1, "tx.select")
    for body in (b"1", b"2", b"3"):
        tx.publish(1, "", queue, body)
    tx.send(1, "tx.commit")
    refusal = tx.refusal()
    assert refusal == Refusal("channel", 406, refusal.text, 90, 20)
    assert refusal.text.startswith("PRECONDITION_FAILED - ")


@both
def test_many_at_once_are_each_told_once(
    client: RawClient, publisher: Publisher, topology: Topology, overflow: dict[str, Value]
) -> None:
    queue = topology.queue(client, arguments={"x-max-length": 5, **overflow})
    raw = publisher.client
    for number in range(1, 21):
        raw.publish(1, "", queue, b"%d" % number)
    told: dict[str, list[int]] = {"basic.ack": [], "basic.nack": []}
    open_tags = set(range(1, 21))
    while open_tags:
        verdict = raw.expect(1, "basic.ack", "basic.nack")
        tag = verdict["delivery_tag"]
        assert tag in open_tags
        settled = {one for one in open_tags if one <= tag} if verdict["multiple"] else {tag}
        told[verdict.name] += sorted(settled)
        open_tags -= settled
    assert {name: sorted(tags) for name, tags in told.items()} == {
        "basic.ack": [1, 2, 3, 4, 5],
        "basic.nack": list(range(6, 21)),
    }
    raw.expect_quiet()
    assert drain(client, queue) == [b"1", b"2", b"3", b"4", b"5"]


@both
def test_a_dead_letter_that_a_full_queue_refuses_is_lost(
    client: RawClient, publisher: Publisher, topology: Topology, overflow: dict[str, Value]
) -> None:
    grave, last = queue_with_dead_letters(client, topology, {"x-max-length": 1, **overflow})
    queue = topology.queue(
        client, arguments={"x-message-ttl": 100, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": grave}
    )
    publisher.publish_all(queue, b"1", b"2")
    wait_for_ready(client, queue, 0)
    wait_for_ready(client, grave, 1)
    if overflow == REFUSE_DLX:
        assert collect_bodies(client, last, 1) == [b"2"]
    else:
        stays_empty(client, last)
    assert drain(client, grave) == [b"1"]


def test_refused_persistent_messages(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue = topology.queue(client, durable=True, arguments={"x-max-length": 1, **REFUSE})
    verdicts = [publisher.publish(queue, body, delivery_mode=2) for body in (b"1", b"2")]
    assert verdicts == ["ack", "nack"]
    assert ready(client, queue) == 1
