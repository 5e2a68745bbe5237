"""The publishing side of a channel: what arrives as frames reaches its queues, is confirmed, returned or refused."""

from __future__ import annotations

import tracemalloc

import pytest

from leveret.core.codec.properties import Properties
from leveret.core.connection.router import Exchange
from leveret.core.queue.classic_queue import ClassicQueue
from leveret.core.queue.contract import Queue
from leveret.errors import HardError, SoftError
from tests.conformance.amqp_codec import encode_frame
from tests.unit.queues.dataplane import (
    OpenGate,
    Workbench,
    body_frame,
    header_frame,
    method_frame,
    publish_frames,
)

PUBLISH = 0x3C0028


def bodies(queue: ClassicQueue) -> list[bytes]:
    return [entry.message.body for entry in queue.ready_entries()]


def opened(**limits: int) -> tuple[Workbench, ClassicQueue]:
    bench = Workbench(**limits)
    queue = bench.add_queue()
    bench.open_channel()
    return bench, queue


def test_a_published_message_reaches_its_queue_as_it_came() -> None:
    bench, queue = opened()
    assert bench.feed(publish_frames(1, "", "q", b"hello", {"app_id": "me", "priority": 3})) == []
    (entry,) = queue.ready_entries()
    assert (entry.message.body, entry.message.exchange, entry.message.routing_key) == (b"hello", b"", b"q")
    assert entry.message.properties.fields() == {"app_id": "me", "priority": 3}


@pytest.mark.parametrize("pieces", [[b"hello"], [b"he", b"llo"], [b"", b"hel", b"", b"lo"], [b"h", b"e", b"l", b"lo"]])
def test_a_body_may_come_in_any_number_of_frames(pieces: list[bytes]) -> None:
    bench, queue = opened()
    octets = method_frame(1, "basic.publish", routing_key="q") + header_frame(1, 5)
    bench.feed(octets + b"".join(body_frame(1, piece) for piece in pieces))
    bench.feed(publish_frames(1, "", "q", b"next"))
    assert bodies(queue) == [b"hello", b"next"]


def test_an_empty_body_needs_no_body_frame() -> None:
    bench, queue = opened()
    bench.feed(publish_frames(1, "", "q"))
    assert bodies(queue) == [b""]


def test_channels_may_interleave_their_content() -> None:
    bench, queue = opened()
    bench.open_channel(2)
    bench.feed(
        method_frame(1, "basic.publish", routing_key="q")
        + method_frame(2, "basic.publish", routing_key="q")
        + header_frame(2, 2)
        + header_frame(1, 4)
        + body_frame(1, b"on")
        + body_frame(2, b"22")
        + body_frame(1, b"e!")
    )
    assert bodies(queue) == [b"22", b"one!"]


def test_more_body_than_announced_ends_the_connection() -> None:
    bench, queue = opened()
    bench.feed(method_frame(1, "basic.publish", routing_key="q") + header_frame(1, 3) + body_frame(1, b"ab"))
    with pytest.raises(HardError) as refusal:
        bench.feed(body_frame(1, b"cd"))
    assert refusal.value.code == 505
    assert bodies(queue) == []


def test_a_body_too_large_is_refused_by_its_header() -> None:
    bench, _ = opened(body_bytes_max=1000)
    bench.feed(method_frame(1, "basic.publish", routing_key="q"))
    with pytest.raises(SoftError) as refusal:
        bench.feed(header_frame(1, 1001))
    assert refusal.value.code == 406
    assert refusal.value.text == "message size 1001 is larger than configured max size 1000"


@pytest.mark.parametrize("size", [2**63, 2**64 - 1])
def test_an_absurd_body_size_is_refused_like_any_other(size: int) -> None:
    bench, _ = opened()
    bench.feed(method_frame(1, "basic.publish", routing_key="q"))
    with pytest.raises(SoftError, match=f"message size {size} is larger"):
        bench.feed(header_frame(1, size))


def test_empty_body_frames_without_end_hold_no_memory() -> None:
    bench, _ = opened()
    bench.feed(method_frame(1, "basic.publish", routing_key="q") + header_frame(1, 5))
    chunk = bytearray(body_frame(1, b"") * 1000)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(25):
            bench.connection.feed(chunk, len(chunk))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 50_000


def test_a_body_in_tiny_frames_holds_little_more_than_itself() -> None:
    bench, _ = opened()
    size = 40_000
    bench.feed(method_frame(1, "basic.publish", routing_key="q") + header_frame(1, size))
    chunk = bytearray(body_frame(1, b"ab") * 1000)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(size // 2000 - 1):
            bench.connection.feed(chunk, len(chunk))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 4 * size


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        (b"", 501),
        (b"\x00\x3c\x00\x00" + bytes(9), 501),
        (b"\x00\x32\x00\x00" + bytes(10), 505),
        (b"\x00\x3c\x00\x01" + bytes(10), 505),
        (b"\x00\x3c\x00\x00" + bytes(8) + b"\x80\x00\x05abc", 501),
        (b"\x00\x3c\x00\x00" + bytes(8) + b"\x00\x00extra", 501),
    ],
    ids=["empty", "short", "other class", "weight", "property ends early", "more than the flags say"],
)
def test_a_malformed_header_ends_the_connection(payload: bytes, code: int) -> None:
    bench, queue = opened()
    bench.feed(method_frame(1, "basic.publish", routing_key="q"))
    with pytest.raises(HardError) as refusal:
        bench.feed(encode_frame(2, 1, payload))
    assert refusal.value.code in (code, 502)
    assert bodies(queue) == []


@pytest.mark.parametrize(
    "arguments",
    [b"", b"\x00\x00\x00\x00", b"\x00\x00\x05abc\x00\x00", b"\x00\x00\x00\x05abc\x00", b"\x00\x00\x00\x01k\x00\x00"],
)
def test_a_malformed_publish_ends_the_connection(arguments: bytes) -> None:
    bench, _ = opened()
    with pytest.raises(HardError) as refusal:
        bench.feed(encode_frame(1, 1, b"\x00\x3c\x00\x28" + arguments))
    assert (refusal.value.code, refusal.value.method) == (501, PUBLISH)


def test_immediate_is_not_implemented() -> None:
    bench, _ = opened()
    with pytest.raises(HardError) as refusal:
        bench.feed(method_frame(1, "basic.publish", routing_key="q", immediate=True))
    assert (refusal.value.code, refusal.value.text, refusal.value.method) == (540, "immediate=true", PUBLISH)


def test_an_unknown_exchange_is_the_gates_to_refuse() -> None:
    bench, _ = opened()
    with pytest.raises(SoftError, match="no exchange 'nowhere'"):
        bench.feed(method_frame(1, "basic.publish", exchange="nowhere", routing_key="q"))


def test_the_gate_is_asked_once_per_exchange_until_permissions_are_forgotten() -> None:
    bench, queue = opened()
    channel = bench.connection.find(1)
    bench.add_exchange("x").bind(b"k", {}, queue)
    bench.router.changed()
    for _ in range(2):
        bench.feed(publish_frames(1, "x", "k") + publish_frames(1, "x", "other") + publish_frames(1, "", "q"))
    assert bench.gate.checked == [b"x", b""]
    channel.publish_path.forget_permissions()
    bench.feed(publish_frames(1, "x", "k") + publish_frames(1, "x", "other"))
    assert bench.gate.checked == [b"x", b"", b"x"]


def test_a_publisher_that_repeats_itself_is_checked_again_when_permissions_are_forgotten() -> None:
    bench, _ = opened()
    channel = bench.connection.find(1)
    bench.feed(publish_frames(1, "", "q"))
    channel.publish_path.forget_permissions()
    bench.feed(publish_frames(1, "", "q"))
    assert bench.gate.checked == [b"", b""]


def test_permissions_forgotten_in_the_middle_of_a_message_hold_for_the_next() -> None:
    bench, queue = opened()
    channel = bench.connection.find(1)
    bench.feed(method_frame(1, "basic.publish", routing_key="q"))
    channel.publish_path.forget_permissions()
    bench.feed(header_frame(1, 1) + body_frame(1, b"x"))
    assert (bodies(queue), bench.gate.checked) == ([b"x"], [b""])
    bench.feed(publish_frames(1, "", "q"))
    assert bench.gate.checked == [b"", b""]


# ---- the gate's look at properties


@pytest.mark.parametrize(
    "properties",
    [
        {"user_id": "5"},
        {"user_id": "5", "expiration": "1"},
        {"expiration": ""},
        {"expiration": "-1"},
        {"expiration": "1.5"},
        {"expiration": "\u0661"},
        {"expiration": "1234567890"},
        {"reply_to": "amq.rabbitmq.reply-to"},
        {"reply_to": "amq.rabbitmq.reply-to", "expiration": "1"},
        {"reply_to": "answers", "expiration": "x"},
    ],
    ids=str,
)
def test_properties_that_matter_to_the_broker_are_inspected(properties: dict[str, str]) -> None:
    bench, _ = opened()
    bench.feed(publish_frames(1, "", "q", properties=properties))
    assert [inspected.fields() for inspected in bench.gate.inspected] == [properties]


@pytest.mark.parametrize(
    "properties",
    [{"reply_to": "answers"}, {"expiration": "0"}, {"expiration": "123456789", "reply_to": "amq.gen-x"}],
    ids=str,
)
def test_ordinary_reply_addresses_and_expirations_never_leave_the_compiled_path(properties: dict[str, str]) -> None:
    bench, queue = opened()
    bench.feed(publish_frames(1, "", "q", b"x", properties=properties))
    assert (bench.gate.inspected, bodies(queue)) == ([], [b"x"])


def test_other_properties_pass_unseen() -> None:
    bench, _ = opened()
    bench.feed(publish_frames(1, "", "q", properties={"app_id": "a", "headers": {"x": 1}, "message_id": "m"}))
    assert bench.gate.inspected == []


def test_equal_properties_are_inspected_once_and_changed_ones_again() -> None:
    bench, _ = opened()
    for user in ("a", "a", "b"):
        bench.feed(publish_frames(1, "", "q", properties={"user_id": user}))
    assert [properties.user_id for properties in bench.gate.inspected] == [b"a", b"b"]


def test_what_the_gate_makes_of_the_properties_goes_on_every_time() -> None:
    class Rewriting(OpenGate):
        def inspect(self, properties: Properties) -> Properties:
            super().inspect(properties)
            return properties.replace({"reply_to": "address"})

    bench = Workbench()
    bench.gate = Rewriting()
    queue = bench.add_queue()
    bench.open_channel()
    for _ in range(2):
        bench.feed(publish_frames(1, "", "q", properties={"reply_to": "amq.rabbitmq.reply-to"}))
    assert [entry.message.properties.reply_to for entry in queue.ready_entries()] == [b"address", b"address"]


def test_a_message_refused_by_the_gate_goes_nowhere_and_the_next_can_come() -> None:
    class Refusing(OpenGate):
        def inspect(self, properties: Properties) -> Properties:
            raise SoftError(406, "no")

    bench = Workbench()
    bench.gate = Refusing()
    queue = bench.add_queue()
    bench.open_channel()
    with pytest.raises(SoftError):
        bench.feed(publish_frames(1, "", "q", b"refused", {"user_id": "x"}))
    bench.connection.proceed()
    bench.feed(publish_frames(1, "", "q", b"fine"))
    assert bodies(queue) == [b"fine"]


@pytest.mark.parametrize("header", ["CC", "BCC"])
def test_copies_are_the_gates_to_resolve(header: str) -> None:
    class Copying(OpenGate):
        def resolve_copies(self, exchange: Exchange, key: bytes, properties: Properties) -> tuple[Queue, ...]:
            return bench.queues[b"q"], bench.queues[b"copy"]

    bench = Workbench()
    bench.gate = Copying()
    queue, copy = bench.add_queue(), bench.add_queue("copy")
    bench.open_channel()
    bench.feed(publish_frames(1, "", "q", b"both", {"headers": {header: ["copy"]}}))
    assert (bodies(queue), bodies(copy)) == ([b"both"], [b"both"])
    assert queue.ready_entries()[0].message is copy.ready_entries()[0].message
    assert copy.ready_entries()[0].message.properties.fields() == {"headers": {header: ["copy"]}}


# ---- ids


def test_an_exchange_that_gives_ids_gives_one_to_each_message_without() -> None:
    bench, queue = opened()
    bench.feed(publish_frames(1, "", "q", b"before"))
    bench.exchanges[b""].gives_ids = True
    for body, properties in ((b"a", {}), (b"b", {}), (b"own", {"message_id": "own"}), (b"c", {"type": "t"})):
        bench.feed(publish_frames(1, "", "q", body, properties))
    ids = [entry.message.properties.fields().get("message_id") for entry in queue.ready_entries()]
    assert ids == [None, "given 1", "given 2", "own", "given 3"]


# ---- confirms, returns and transactions


def test_a_return_comes_before_its_confirm() -> None:
    bench, _ = opened()
    bench.connection.find(1).publish_path.start_confirming()
    bench.feed(publish_frames(1, "", "nowhere", mandatory=True))
    assert [sent.name for sent in bench.sent()] == ["basic.return", "basic.ack"]


def test_an_unroutable_message_that_is_not_mandatory_vanishes() -> None:
    bench, _ = opened()
    bench.feed(publish_frames(1, "", "nowhere"))
    assert bench.sent() == []
    exchange = bench.exchanges[b""]
    assert (exchange.published_total, exchange.routed_total, exchange.unroutable_total) == (1, 0, 1)


def test_a_return_of_a_transaction_comes_at_commit() -> None:
    bench, _ = opened()
    channel = bench.connection.find(1)
    channel.start_transaction()
    bench.feed(publish_frames(1, "", "nowhere", mandatory=True))
    assert bench.sent() == []
    channel.commit()
    assert [sent.name for sent in bench.sent()] == ["basic.return"]


def test_a_message_whose_queues_are_gone_at_the_commit_counts_as_unroutable() -> None:
    bench, queue = opened()
    channel = bench.connection.find(1)
    channel.start_transaction()
    bench.feed(publish_frames(1, "", "q", b"back", mandatory=True) + publish_frames(1, "", "q", b"gone"))
    queue.close()
    channel.commit()
    assert [sent.name for sent in bench.sent()] == ["basic.return"]
    exchange = bench.exchanges[b""]
    assert (exchange.routed_total, exchange.unroutable_total) == (0, 2)
    assert (
        channel.publish_path.routed_total,
        channel.publish_path.returned_total,
        channel.publish_path.dropped_total,
    ) == (0, 1, 1)


def test_a_queue_deleted_before_the_commit_gets_nothing() -> None:
    bench, queue = opened()
    channel = bench.connection.find(1)
    channel.start_transaction()
    bench.feed(publish_frames(1, "", "q"))
    queue.close()
    channel.commit()
    assert queue.published_total == 0


def test_a_queue_bound_after_basic_publish_gets_the_message() -> None:
    """Routes are judged when the message is whole, not with a remembered answer that is out of date."""
    bench, _ = opened()
    bench.feed(method_frame(1, "basic.publish", routing_key="late") + header_frame(1, 1))
    late = bench.add_queue("late")
    bench.feed(body_frame(1, b"x"))
    assert bodies(late) == [b"x"]


def test_abandoned_content_is_forgotten() -> None:
    bench, queue = opened()
    publish_path = bench.connection.find(1).publish_path
    bench.feed(method_frame(1, "basic.publish", routing_key="q") + header_frame(1, 2) + body_frame(1, b"a"))
    publish_path.abandon()
    bench.feed(publish_frames(1, "", "q", b"new"))
    assert bodies(queue) == [b"new"]
    assert publish_path.published_total == 1
