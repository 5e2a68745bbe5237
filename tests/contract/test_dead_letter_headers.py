"""What a dead letter says: x-death with its types and its order, the first death, and properties left as they were."""

import pytest

from tests.conformance.amqp_codec import Typed, Value, encode_properties
from tests.conformance.raw_client import Method, RawClient
from tests.conformance.topology import Topology
from tests.contract.letters import (
    Publisher,
    Table,
    again,
    assert_properties,
    collect,
    death,
    deaths,
    headers_of,
    hold,
    queue_with_dead_letters,
    reasons,
    reject,
)


def first(queue: str, reason: str, exchange: str = "") -> Table:
    return {
        "x-first-death-exchange": exchange,
        "x-first-death-queue": queue,
        "x-first-death-reason": reason,
    }


def test_rejected(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue, grave = queue_with_dead_letters(client, topology)
    publisher.publish_all(queue, b"body")
    reject(client, queue)
    (letter,) = collect(client, grave, 1)
    assert (letter["exchange"], letter["routing_key"], letter["redelivered"]) == ("", grave, False)
    assert letter.body == b"body"
    headers = {"x-death": [death(queue, "rejected", "", queue)], **first(queue, "rejected")}
    assert_properties(letter, {"headers": headers})


@pytest.mark.parametrize("expiration", ["100", None])
def test_expired(client: RawClient, publisher: Publisher, topology: Topology, expiration: str | None) -> None:
    """x-death tells the message's own expiration, but not that of the queue."""
    arguments = {} if expiration else {"x-message-ttl": 100}
    queue, grave = queue_with_dead_letters(client, topology, arguments)
    publisher.publish_all(queue, b"body", **({"expiration": expiration} if expiration else {}))
    (letter,) = collect(client, grave, 1)
    headers = {"x-death": [death(queue, "expired", "", queue, expiration=expiration)], **first(queue, "expired")}
    assert_properties(letter, {"headers": headers})


def test_dropped(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue, grave = queue_with_dead_letters(client, topology, {"x-max-length": 1})
    publisher.publish_all(queue, b"body", b"next")
    (letter,) = collect(client, grave, 1)
    headers = {"x-death": [death(queue, "maxlen", "", queue)], **first(queue, "maxlen")}
    assert_properties(letter, {"headers": headers})


def test_the_exchange_and_key_of_the_publisher_are_told(
    client: RawClient, publisher: Publisher, topology: Topology
) -> None:
    exchange = topology.exchange(client, "topic")
    queue, grave = queue_with_dead_letters(client, topology)
    client.call(1, "queue.bind", queue=queue, exchange=exchange, routing_key="order.#")
    publisher.publish_all("order.created", b"body", exchange=exchange)
    reject(client, queue)
    (letter,) = collect(client, grave, 1)
    headers = {"x-death": [death(queue, "rejected", exchange, "order.created")], **first(queue, "rejected", exchange)}
    assert_properties(letter, {"headers": headers})


ALL_PROPERTIES: Table = {
    "content_type": "text/plain",
    "content_encoding": "utf-8",
    "delivery_mode": 2,
    "priority": 7,
    "correlation_id": "correlation",
    "reply_to": "reply",
    "message_id": "message",
    "timestamp": 1_700_000_000,
    "type": "type",
    "user_id": "guest",
    "app_id": "app",
    "cluster_id": "cluster",
}


@pytest.mark.parametrize("expiration", [{}, {"expiration": "100"}], ids=["rejected", "expired"])
def test_other_properties_stay_as_they_were(
    client: RawClient, publisher: Publisher, topology: Topology, expiration: Table
) -> None:
    queue, grave = queue_with_dead_letters(client, topology)
    publisher.publish_all(queue, b"body", **ALL_PROPERTIES, **expiration)
    if not expiration:
        reject(client, queue)
    (letter,) = collect(client, grave, 1)
    reason = "expired" if expiration else "rejected"
    table = death(queue, reason, "", queue, expiration=expiration.get("expiration"))
    assert_properties(letter, {**ALL_PROPERTIES, "headers": {"x-death": [table], **first(queue, reason)}})


def test_headers_of_the_publisher_are_kept_and_put_in_order(
    client: RawClient, publisher: Publisher, topology: Topology
) -> None:
    """Every type stays what it was. The names are brought into the order of their octets."""
    mine = {
        "zebra": Typed(b"b", -3),
        "x-death-like": Typed(b"s", -300),
        "Alpha": Typed(b"D", (2, 314)),
        "time": Typed(b"T", 1_700_000_000),
        "float": Typed(b"f", 1.5),
        "double": 2.5,
        "void": None,
        "flag": True,
        "long": Typed(b"l", 5),
        "raw": b"\x00\xff",
        "nested": {"z": [1, {"a": "b"}], "a": 1},
    }
    queue, grave = queue_with_dead_letters(client, topology)
    publisher.publish_all(queue, b"body", headers=mine)
    reject(client, queue)
    (letter,) = collect(client, grave, 1)
    headers = {**mine, "x-death": [death(queue, "rejected", "", queue)], **first(queue, "rejected")}
    assert_properties(letter, {"headers": dict(sorted(headers.items()))})


def chain(client: RawClient, topology: Topology, length: int) -> list[str]:
    """Queues each of which is the grave of the one before it."""
    queues = [topology.queue(client)]
    for _ in range(length - 1):
        reach = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queues[0]}
        queues.insert(0, topology.queue(client, arguments=reach))
    return queues


def test_the_newest_death_stands_first(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    """Every table but that of the very first death has its keys in the order of the alphabet."""
    one, two, last = chain(client, topology, 3)
    publisher.publish_all(one, b"body")
    for queue in (one, two):
        reject(client, queue)
    (letter,) = collect(client, last, 1)
    tables = [again(death(two, "rejected", "", two)), death(one, "rejected", "", one)]
    assert_properties(letter, {"headers": {"x-death": tables, **first(one, "rejected")}})


def test_every_death_of_many_is_told(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    """The newest first. The order of the rest is free: RabbitMQ turns it round with each new death."""
    *queues, last = chain(client, topology, 5)
    publisher.publish_all(queues[0], b"body")
    for queue in queues:
        reject(client, queue)
    (letter,) = collect(client, last, 1)
    told = [table["queue"] for table in deaths(letter)]
    assert (told[0], sorted(told)) == (queues[-1], sorted(queues))
    assert {key: value for key, value in headers_of(letter).items() if key != "x-death"} == first(queues[0], "rejected")


def republish(publisher: Publisher, letter: Method, queue: str) -> None:
    """As a shovel would: every octet of the properties goes back."""
    assert publisher.publish(queue, letter.body, properties_raw=letter.properties_raw) == "ack"


def test_deaths_in_one_queue_for_one_reason_are_counted(
    client: RawClient, publisher: Publisher, topology: Topology
) -> None:
    queue, grave = queue_with_dead_letters(client, topology)
    publisher.publish_all(queue, b"body")
    for count in range(1, 4):
        reject(client, queue)
        (letter,) = collect(client, grave, 1)
        table = death(queue, "rejected", "", queue)
        tables = [table if count == 1 else again(table, count)]
        assert_properties(letter, {"headers": {"x-death": tables, **first(queue, "rejected")}})
        republish(publisher, letter, queue)


def test_another_reason_is_another_death(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    """Whichever death happens again comes to the front."""
    queue, grave = queue_with_dead_letters(client, topology, {"x-max-length": 1})
    publisher.publish_all(queue, b"body")
    reject(client, queue)
    (letter,) = collect(client, grave, 1)
    republish(publisher, letter, queue)
    publisher.publish_all(queue, b"pushes")
    (letter,) = collect(client, grave, 1)
    assert reasons(letter) == [(queue, "maxlen", 1), (queue, "rejected", 1)]
    reject(client, queue)
    collect(client, grave, 1)
    republish(publisher, letter, queue)
    reject(client, queue)
    (letter,) = collect(client, grave, 1)
    assert reasons(letter) == [(queue, "rejected", 2), (queue, "maxlen", 1)]
    assert headers_of(letter)["x-first-death-reason"] == "rejected"


def test_a_death_that_happens_again_keeps_what_was_noted_first(
    client: RawClient, publisher: Publisher, topology: Topology
) -> None:
    """Only its count grows: exchange and keys stay those of the first time."""
    exchange = topology.exchange(client, "fanout")
    queue, grave = queue_with_dead_letters(client, topology)
    client.call(1, "queue.bind", queue=queue, exchange=exchange)
    publisher.publish_all("first", b"body", exchange=exchange)
    reject(client, queue)
    (letter,) = collect(client, grave, 1)
    republish(publisher, letter, queue)
    reject(client, queue)
    (letter,) = collect(client, grave, 1)
    assert deaths(letter) == [
        {"count": 2, "reason": "rejected", "queue": queue, "exchange": exchange, "routing-keys": ["first"]}
    ]


def test_a_second_expiration_is_noted_too(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    """In a queue further on; the property that was removed may be set again by whoever publishes it again."""
    one, two, last = chain(client, topology, 3)
    publisher.publish_all(one, b"body", expiration="50")
    (letter,) = collect(client, two, 1)
    properties = encode_properties({**letter.properties, "headers": {}, "expiration": "70"})
    assert publisher.publish(two, b"body", properties_raw=properties) == "ack"
    (letter,) = collect(client, last, 1)
    assert [table["original-expiration"] for table in deaths(letter)] == ["70"]


@pytest.mark.parametrize(
    ("forged", "expected"),
    [
        ("no list", [("rejected", 1)]),
        ({"queue": "x"}, [("rejected", 1)]),
        ([], [("rejected", 1)]),
        ([{"reason": "rejected", "queue": "elsewhere", "count": 7}], [("rejected", 1), ("rejected", 7)]),
    ],
    ids=["text", "table", "empty", "elsewhere"],
)
def test_forged_deaths(
    client: RawClient, publisher: Publisher, topology: Topology, forged: Value, expected: list[tuple[str, int]]
) -> None:
    """Whoever publishes an x-death of any kind is not given headers of a first death."""
    queue, grave = queue_with_dead_letters(client, topology)
    publisher.publish_all(queue, b"body", headers={"x-death": forged})
    reject(client, queue)
    (letter,) = collect(client, grave, 1)
    headers = headers_of(letter)
    assert list(headers) == ["x-death"]
    assert [(table["reason"], table["count"]) for table in headers["x-death"]] == expected


@pytest.mark.parametrize(("count", "after"), [(Typed(b"l", 41), 42), (Typed(b"I", 5), 6), (None, 1)])
def test_forged_counts_go_on(
    client: RawClient, publisher: Publisher, topology: Topology, count: Value, after: int
) -> None:
    queue, grave = queue_with_dead_letters(client, topology)
    forged = {"reason": "rejected", "queue": queue, **({} if count is None else {"count": count})}
    publisher.publish_all(queue, b"body", headers={"x-death": [forged]})
    reject(client, queue)
    (letter,) = collect(client, grave, 1)
    assert headers_of(letter) == {"x-death": [{"count": after, "queue": queue, "reason": "rejected"}]}


def test_first_death_headers_of_the_publisher_are_replaced(
    client: RawClient, publisher: Publisher, topology: Topology
) -> None:
    queue, grave = queue_with_dead_letters(client, topology)
    publisher.publish_all(queue, b"body", headers={"x-first-death-reason": "boredom", "x-first-death-queue": 5})
    reject(client, queue)
    (letter,) = collect(client, grave, 1)
    assert {key: value for key, value in headers_of(letter).items() if key != "x-death"} == first(queue, "rejected")


def test_a_redelivered_message_becomes_a_fresh_one(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue, grave = queue_with_dead_letters(client, topology)
    publisher.publish_all(queue, b"body")
    client.send(1, "basic.reject", delivery_tag=hold(client, queue), requeue=True)
    reject(client, queue)
    (letter,) = collect(client, grave, 1)
    assert letter["redelivered"] is False
