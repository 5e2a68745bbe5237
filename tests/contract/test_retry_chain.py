"""Retries with growing pauses: queues whose messages wait until they expire back into the queue where work failed.

The chain is that of the system's design, with milliseconds for seconds and minutes."""

import time
from typing import NamedTuple

import pytest

from tests.conformance.raw_client import Method, RawClient
from tests.conformance.topology import Topology
from tests.contract.letters import Publisher, collect, deaths, headers_of, ready, reasons, stays_empty

PAUSES_MS = (50, 100, 150, 400)


class Chain(NamedTuple):
    """The queue where work is done, one queue for each pause, the exchange before those, and the last resort."""

    work: str
    pauses: list[str]
    exchange: str
    back: str
    last: str


@pytest.fixture
def chain(client: RawClient, topology: Topology) -> Chain:
    graves, back = topology.exchange(client, "direct"), topology.exchange(client, "direct")
    last = topology.bound_queue(client, graves, "dead.order")
    work = topology.queue(
        client, arguments={"x-dead-letter-exchange": graves, "x-dead-letter-routing-key": "dead.order"}
    )
    client.call(1, "queue.bind", queue=work, exchange=back, routing_key="order")
    exchange, pauses = topology.exchange(client, "direct"), []
    for pause in PAUSES_MS:
        arguments = {"x-message-ttl": pause, "x-dead-letter-exchange": back, "x-dead-letter-routing-key": "order"}
        pauses.append(topology.queue(client, arguments=arguments))
        client.call(1, "queue.bind", queue=pauses[-1], exchange=exchange, routing_key=f"retry-{pause}")
    return Chain(work, pauses, exchange, back, last)


def fail(client: RawClient, publisher: Publisher, chain: Chain, letter: Method) -> None:
    """What the consumer of the design does when its work fails."""
    tag, tries = letter["delivery_tag"], headers_of(letter).get("x-retry-count", 0)
    if tries >= len(PAUSES_MS):
        client.send(1, "basic.nack", delivery_tag=tag, requeue=False)
        return
    key = f"retry-{PAUSES_MS[tries]}"
    publisher.publish_all(key, letter.body, exchange=chain.exchange, headers={"x-retry-count": tries + 1})
    client.send(1, "basic.ack", delivery_tag=tag)


def test_a_message_that_always_fails_ends_in_the_last_resort(
    client: RawClient, publisher: Publisher, chain: Chain
) -> None:
    publisher.publish_all(chain.work, b"order")
    began = time.monotonic()
    told = []
    for _ in range(len(PAUSES_MS) + 1):
        (letter,) = collect(client, chain.work, 1, no_ack=False)
        told.append((headers_of(letter).get("x-retry-count"), headers_of(letter).get("x-first-death-queue")))
        fail(client, publisher, chain, letter)
    assert told == [(None, None), *enumerate(chain.pauses, 1)]
    # Never sooner than the pauses together; how much later is the machine's affair.
    assert time.monotonic() - began >= sum(PAUSES_MS) / 1000
    (letter,) = collect(client, chain.last, 1)
    assert (letter.body, letter["routing_key"]) == (b"order", "dead.order")
    # The last publish began a new life, so only its own two deaths are told.
    assert reasons(letter) == [(chain.work, "rejected", 1), (chain.pauses[-1], "expired", 1)]
    assert [table["routing-keys"] for table in deaths(letter)] == [["order"], [f"retry-{PAUSES_MS[-1]}"]]
    assert headers_of(letter)["x-retry-count"] == len(PAUSES_MS)
    stays_empty(client, chain.work, *chain.pauses, chain.last)


def test_a_message_that_succeeds_late_is_done(client: RawClient, publisher: Publisher, chain: Chain) -> None:
    publisher.publish_all(chain.work, b"order")
    for _ in range(2):
        fail(client, publisher, chain, collect(client, chain.work, 1, no_ack=False)[0])
    (letter,) = collect(client, chain.work, 1, no_ack=False)
    assert headers_of(letter)["x-retry-count"] == 2
    client.send(1, "basic.ack", delivery_tag=letter["delivery_tag"])
    stays_empty(client, chain.work, *chain.pauses, chain.last)


def test_messages_come_back_in_order_and_beside_fresh_ones(
    client: RawClient, publisher: Publisher, chain: Chain
) -> None:
    publisher.publish_all(chain.work, b"1", b"2", b"3")
    for letter in collect(client, chain.work, 3, no_ack=False):
        fail(client, publisher, chain, letter)
    assert [letter.body for letter in collect(client, chain.work, 3)] == [b"1", b"2", b"3"]
    # All in one breath, so that a slow machine does not change who is first.
    client.publish(1, chain.exchange, f"retry-{PAUSES_MS[3]}", b"slow")
    client.publish(1, chain.exchange, f"retry-{PAUSES_MS[0]}", b"quick")
    client.publish(1, "", chain.work, b"fresh")
    assert [letter.body for letter in collect(client, chain.work, 3)] == [b"fresh", b"quick", b"slow"]


def test_the_reprocessed_message_can_fail_again(client: RawClient, publisher: Publisher, chain: Chain) -> None:
    """Out of the last resort back to work, as it is: its deaths are counted on."""
    publisher.publish_all(chain.work, b"order")
    for count in (1, 2):
        (letter,) = collect(client, chain.work, 1, no_ack=False)
        client.send(1, "basic.nack", delivery_tag=letter["delivery_tag"], requeue=False)
        (letter,) = collect(client, chain.last, 1)
        assert reasons(letter) == [(chain.work, "rejected", count)]
        assert publisher.publish(chain.work, letter.body, properties_raw=letter.properties_raw) == "ack"


def test_counting_by_deaths_alone(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    """Queue and pause are each other's dead letter exchange: a rejection starts a round, and x-death counts rounds."""
    out, back = topology.exchange(client, "fanout"), topology.exchange(client, "fanout")
    work = topology.queue(client, arguments={"x-dead-letter-exchange": out})
    pause = topology.queue(client, arguments={"x-dead-letter-exchange": back, "x-message-ttl": 80})
    client.call(1, "queue.bind", queue=work, exchange=back)
    client.call(1, "queue.bind", queue=pause, exchange=out)
    publisher.publish_all(work, b"order", delivery_mode=2, message_id="one")
    client.open_channel(2)
    client.call(2, "basic.consume", queue=work)
    letter = client.expect(2, "basic.deliver")
    for count in range(1, 6):
        client.send(2, "basic.reject", delivery_tag=letter["delivery_tag"], requeue=False)
        letter = client.expect(2, "basic.deliver")
        assert (letter["redelivered"], letter["exchange"], letter["routing_key"]) == (False, back, work)
        assert reasons(letter) == [(pause, "expired", count), (work, "rejected", count)]
    assert {key: value for key, value in letter.properties.items() if key != "headers"} == {
        "delivery_mode": 2,
        "message_id": "one",
    }
    client.send(2, "basic.ack", delivery_tag=letter["delivery_tag"])
    assert (ready(client, work), ready(client, pause)) == (0, 0)


def test_pauses_chosen_by_the_message(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    """One waiting queue for all pauses works only for those at its head: a short pause waits behind a longer one."""
    work = topology.queue(client)
    waiting = topology.queue(client, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": work})
    publisher.publish_all(waiting, b"long", expiration="300")
    publisher.publish_all(waiting, b"short", expiration="20")
    letters = collect(client, work, 2)
    assert [letter.body for letter in letters] == [b"long", b"short"]
    assert [table["original-expiration"] for letter in letters for table in deaths(letter)] == ["300", "20"]
