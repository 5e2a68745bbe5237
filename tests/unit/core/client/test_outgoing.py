"""Messages on their way: where they go, and what became of them."""

from __future__ import annotations

import pytest

from leveret.core.client.outgoing import Outgoing, make_address
from tests.unit.core.client_bench import Bench, ack, give_back, nack, outgoing


@pytest.mark.parametrize("exchange", ["", "amq.topic", "e" * 255, "ünï"])
@pytest.mark.parametrize("key", ["", "a.b.c", "k" * 255, "\udcff"])
def test_an_address_is_two_short_strings(exchange: str, key: str) -> None:
    first, second = exchange.encode(), key.encode("utf-8", "surrogateescape")
    address = make_address(exchange, key)
    assert address == bytes([len(first)]) + first + bytes([len(second)]) + second
    message = Outgoing(address, b"\x00\x00", b"", b"", 0)
    assert (message.exchange(), message.routing_key()) == (exchange, key)


@pytest.mark.parametrize(
    ("exchange", "key", "named"),
    [("e" * 256, "", "exchange"), ("", "k" * 256, "routing_key"), ("", "ü" * 128, "routing_key")],
)
def test_what_is_too_long_is_named(exchange: str, key: str, named: str) -> None:
    with pytest.raises(ValueError, match=rf"^{named} has 256 bytes"):
        make_address(exchange, key)


def test_a_new_message_waits_for_nothing_yet() -> None:
    owner = object()
    message = Outgoing(make_address("x", "k"), b"\x00\x00", b"body", b"id", 1, owner)
    assert (message.body, message.message_id, message.bits, message.owner) == (b"body", b"id", 1, owner)
    assert (message.tag, message.sent_count, message.reply_code, message.reply_text) == (0, 0, 0, b"")
    assert not (message.is_confirmed or message.is_refused or message.is_returned)


def outcome(message: Outgoing) -> str:
    named = {"confirmed": message.is_confirmed, "refused": message.is_refused, "returned": message.is_returned}
    true = [name for name, holds in named.items() if holds]
    assert len(true) <= 1
    return true[0] if true else "pending"


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (ack(1), "confirmed"),
        (nack(1), "refused"),
        (give_back("a") + ack(1), "returned"),
        (give_back("a") + nack(1), "refused"),
    ],
)
def test_what_became_of_it(answers: bytes, expected: str) -> None:
    bench = Bench(confirming=True)
    message = bench.publish("a")
    bench.feed(answers)
    assert bench.codec.take_settled() == [message]
    assert outcome(message) == expected


def test_what_is_sent_again_waits_again() -> None:
    bench = Bench(confirming=True)
    message = bench.publish("a")
    bench.feed(nack(1))
    message.send_again()
    assert outcome(message) == "pending"
    bench.codec.publish(message)
    assert (message.tag, message.sent_count) == (2, 2)
    bench.feed(ack(2))
    assert outcome(message) == "confirmed"


def test_the_time_it_is_given_up_is_anybodys_to_set() -> None:
    message = outgoing("a")
    message.due = 12.5
    assert message.due == 12.5
