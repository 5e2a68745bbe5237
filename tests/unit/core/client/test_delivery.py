"""Deliveries: what they show of a message, and the frames that settle them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from leveret.core.client.delivery import Delivery
from leveret.errors import AlreadySettled, StaleDelivery
from tests.unit.core.client_bench import Bench, deliver, get_ok, give_back, read_methods

PROPERTIES: dict[str, Any] = {
    "content_type": "text/plain",
    "content_encoding": "gzip",
    "headers": {"a": 1},
    "delivery_mode": 2,
    "priority": 5,
    "correlation_id": "c",
    "reply_to": "r",
    "expiration": "1000",
    "message_id": "m",
    "timestamp": 1700000000,
    "type": "t",
    "user_id": "guest",
    "app_id": "app",
}


def delivered(bench: Bench, octets: bytes) -> Delivery:
    delivery_buffer = bench.add_sink()
    bench.feed(octets)
    found: Delivery = delivery_buffer.items.pop()
    return found


def test_a_delivery_shows_its_message() -> None:
    got = delivered(Bench(), deliver(7, b"body", PROPERTIES, exchange="amq.topic", key="a.b", redelivered=True))
    assert (got.body, got.exchange, got.routing_key, got.consumer_tag) == (b"body", "amq.topic", "a.b", "me")
    assert (got.delivery_tag, got.redelivered, got.message_count) == (7, True, 0)
    assert {name: getattr(got, name) for name in PROPERTIES} == PROPERTIES
    assert got.properties.message_id == "m"
    assert "delivery" in repr(got).lower()
    assert "4 bytes, redelivered" in repr(got)


def test_what_a_message_has_not_is_none() -> None:
    got = delivered(Bench(), deliver(1))
    absent = {name: getattr(got, name) for name in PROPERTIES if name not in ("headers", "priority")}
    assert set(absent.values()) == {None}
    assert (got.headers, got.priority, got.body, got.redelivered) == ({}, 0, b"", False)


def test_texts_that_are_no_utf8_survive() -> None:
    got = delivered(Bench(), deliver(1, key=b"\xff", properties={"reply_to": b"\xfe", "message_id": b"\xfd"}))
    assert got.routing_key.encode("utf-8", "surrogateescape") == b"\xff"
    assert (got.reply_to or "").encode("utf-8", "surrogateescape") == b"\xfe"
    assert (got.message_id or "").encode("utf-8", "surrogateescape") == b"\xfd"


@pytest.mark.parametrize(
    ("settle", "name", "fields"),
    [
        (lambda d: d.ack(), "basic.ack", {"multiple": False}),
        (lambda d: d.ack(multiple=True), "basic.ack", {"multiple": True}),
        (lambda d: d.nack(), "basic.nack", {"multiple": False, "requeue": True}),
        (lambda d: d.nack(requeue=False), "basic.nack", {"multiple": False, "requeue": False}),
        (lambda d: d.nack(multiple=True), "basic.nack", {"multiple": True, "requeue": True}),
        (lambda d: d.nack(requeue=False, multiple=True), "basic.nack", {"multiple": True, "requeue": False}),
        (lambda d: d.reject(), "basic.reject", {"requeue": False}),
        (lambda d: d.reject(requeue=True), "basic.reject", {"requeue": True}),
    ],
)
def test_each_way_to_settle_is_one_frame(
    settle: Callable[[Delivery], None], name: str, fields: dict[str, bool]
) -> None:
    bench = Bench()
    got = delivered(bench, deliver(2**64 - 1))
    settle(got)
    assert got.is_settled
    assert read_methods(bench.sent()) == [(1, name, {"delivery_tag": 2**64 - 1, **fields})]


def test_the_loop_is_kicked_once_for_all_that_is_written() -> None:
    bench = Bench()
    delivery_buffer = bench.add_sink()
    bench.feed(deliver(1) + deliver(2) + deliver(3))
    for got in delivery_buffer.items:
        got.ack()
    assert bench.kicks == 1
    assert [fields["delivery_tag"] for _, _, fields in read_methods(bench.sent())] == [1, 2, 3]
    bench.feed(deliver(4))
    delivery_buffer.items.pop().ack()
    assert bench.kicks == 2


def test_it_is_settled_once() -> None:
    bench = Bench()
    got = delivered(bench, deliver(1))
    got.ack()
    bench.sent()
    for again in (got.ack, got.nack, got.reject):
        with pytest.raises(AlreadySettled, match="delivery 1"):
            again()
    assert bench.sent() == b""


def test_a_delivery_of_a_channel_that_is_gone_is_stale() -> None:
    bench = Bench()
    got = delivered(bench, deliver(1))
    assert not got.is_stale
    bench.codec.abandon()
    assert got.is_stale
    for settle in (got.ack, got.nack, got.reject):
        with pytest.raises(StaleDelivery, match="delivery 1"):
            settle()
    assert (bench.sent(), got.is_settled) == (b"", False)


def test_what_a_get_gave_says_how_many_are_left() -> None:
    bench = Bench()
    [(number, _, got)] = bench.feed(get_ok(3, b"one", left=41, redelivered=True))
    assert (number, got.body, got.message_count, got.redelivered) == (1, b"one", 41, True)
    assert (got.exchange, got.routing_key, got.consumer_tag) == ("x", "k", "")
    got.ack()
    assert read_methods(bench.sent()) == [(1, "basic.ack", {"delivery_tag": 3, "multiple": False})]


def test_what_came_back_cannot_be_settled() -> None:
    bench = Bench()
    bench.add_sink()
    # A delivery before it must not lend it its tag.
    bench.feed(deliver(9, redelivered=True) + give_back("unknown", body=b"mine"))
    [(code, text, stray)] = bench.codec.take_strays()
    assert (code, text, stray.body, stray.delivery_tag, stray.redelivered) == (312, b"NO_ROUTE", b"mine", 0, False)
    with pytest.raises(AlreadySettled):
        stray.ack()
    assert bench.sent() == b""


def test_it_knows_its_lane() -> None:
    bench = Bench()
    assert delivered(bench, deliver(1)).codec is bench.codec
