"""Live exchanges: which of them keep something, and what that is."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.broker.exchanges import deduplicates, keeps_something, make_exchange
from leveret.catalog.records import ExchangeRecord
from leveret.core.codec.message import Message
from leveret.core.connection.router import Exchange
from leveret.core.matching.matcher import DirectMatcher
from leveret.core.queue.office import Office
from leveret.queues.holder import ExchangeHolder
from tests.unit.core.fake_disk import FakeDisk
from tests.unit.queues.dataplane import message

PLAIN: tuple[str, dict[str, Any]] = ("topic", {"x-cache-size": 5})
DELAYED: tuple[str, dict[str, Any]] = ("x-delayed-message", {"x-delayed-type": "direct"})
DEDUPLICATING: tuple[str, dict[str, Any]] = ("x-message-deduplication", {"x-cache-size": 5})
ASKED: tuple[str, dict[str, Any]] = ("direct", {"x-message-deduplication": True, "x-cache-size": 5, "x-cache-ttl": 9})
BOTH: tuple[str, dict[str, Any]] = ("x-delayed-message", {**DELAYED[1], "x-message-deduplication": True})


def record(kind: str, arguments: dict[str, Any], id: int = 0, internal: bool = False) -> ExchangeRecord:
    return ExchangeRecord("/", "größe", kind, True, False, internal, arguments, id)


def made(
    kind: str, arguments: dict[str, Any], id: int = 0, queue_storage: Any = None, office: Office | None = None
) -> Exchange:
    routed: list[tuple[Exchange, Message]] = []
    exchange = make_exchange(
        record(kind, arguments, id, True),
        DirectMatcher(),
        queue_storage,
        office or Office(),
        lambda exchange, message: routed.append((exchange, message)),
    )
    return exchange


@pytest.mark.parametrize(
    ("kind", "keeps", "has_keys"),
    [
        (PLAIN, False, False),
        (DELAYED, True, False),
        (DEDUPLICATING, True, True),
        (ASKED, True, True),
        (BOTH, True, True),
    ],
)
def test_which_exchanges_keep_something(kind: tuple[str, dict[str, Any]], keeps: bool, has_keys: bool) -> None:
    assert (keeps_something(record(*kind)), deduplicates(record(*kind))) == (keeps, has_keys)
    exchange = made(*kind)
    assert (exchange.exchange_store is not None, exchange.window is not None) == (keeps, has_keys)
    assert exchange.holder is (exchange.exchange_store if kind in (DELAYED, BOTH) else None)


def test_an_exchange_is_what_its_record_says() -> None:
    exchange = made(*PLAIN)
    assert (exchange.name, exchange.internal) == ("größe".encode(), True)
    assert exchange.record.kind == "topic"


def test_the_keys_of_an_exchange_are_those_of_its_keeper() -> None:
    exchange = made(*ASKED)
    assert isinstance(exchange.exchange_store, ExchangeHolder)
    assert exchange.exchange_store.window is exchange.window
    assert (exchange.window.size_max, exchange.window.ttl_ms) == (5, 9)


def test_what_survives_is_named_by_the_id_of_the_record() -> None:
    exchange = made(*BOTH, id=7, queue_storage=FakeDisk())
    assert (exchange.window.id, exchange.exchange_store.queue_log.id) == (7, 7)
    assert made(*BOTH, id=0, queue_storage=FakeDisk()).exchange_store.queue_log is None


def test_a_message_whose_time_has_come_goes_through_its_exchange() -> None:
    routed: list[tuple[Exchange, bytes, bool]] = []
    office = Office(1_700_000_000_000)

    def route(where: Exchange, due: Message, again: bool) -> None:
        routed.append((where, due.body, again))

    exchange = make_exchange(record(*DELAYED), DirectMatcher(), None, office, route)
    one = message(b"x")
    one.stamp = office.now + 10
    assert exchange.holder.publish(one) == 0
    office.now += 10
    exchange.holder.delays.ring()
    assert routed == [(exchange, b"x", False)]
