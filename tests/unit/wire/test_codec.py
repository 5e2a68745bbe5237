"""The method codec: octets of chosen methods, the method table, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.core.codec.tables import encode_table
from leveret.core.codec.wording import shown_octets
from leveret.errors import HardError
from leveret.wire.access_methods import AccessRequest, AccessRequestOk
from leveret.wire.basic_methods import BasicAck, BasicConsume, BasicDeliver, BasicGetEmpty, BasicPublish, BasicReturn
from leveret.wire.channel_methods import ChannelClose, ChannelOpen, ChannelOpenOk
from leveret.wire.codec import METHODS, decode_method, encode_method, method_name
from leveret.wire.connection_methods import (
    ConnectionBlocked,
    ConnectionClose,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStartOk,
    ConnectionTuneOk,
)
from leveret.wire.constants import CLASS_CONNECTION
from leveret.wire.exchange_methods import ExchangeDeclare, ExchangeUnbindOk
from leveret.wire.method import Method
from leveret.wire.queue_methods import QueueDeclare, QueueDeclareOk, QueueUnbind
from leveret.wire.tx_methods import TxSelect

# A method and the octets after its id.
SAMPLES: list[tuple[Method, bytes]] = [
    (QueueDeclare("q", durable=True, nowait=True), b"\x00\x00\x01q\x12\x00\x00\x00\x00"),
    (QueueDeclare("", True, False, True, True, False, {"a": 1}), b"\x00\x00\x00\x0d" + encode_table({"a": 1})),
    (QueueDeclareOk("q", 5, 6), b"\x01q\x00\x00\x00\x05\x00\x00\x00\x06"),
    (QueueUnbind("q", "x", "k"), b"\x00\x00\x01q\x01x\x01k\x00\x00\x00\x00"),
    (ExchangeDeclare("x", "topic", internal=True), b"\x00\x00\x01x\x05topic\x08\x00\x00\x00\x00"),
    (ExchangeUnbindOk(), b""),
    (BasicConsume("q", "tag", no_ack=True), b"\x00\x00\x01q\x03tag\x02\x00\x00\x00\x00"),
    (BasicPublish("x", "k", mandatory=True), b"\x00\x00\x01x\x01k\x01"),
    (BasicDeliver("tag", 2**63, True, "x", "k"), b"\x03tag\x80\x00\x00\x00\x00\x00\x00\x00\x01\x01x\x01k"),
    (BasicAck(258, multiple=True), b"\x00\x00\x00\x00\x00\x00\x01\x02\x01"),
    (BasicGetEmpty(), b"\x00"),
    (ConnectionOpen("/"), b"\x01/\x00\x00"),
    (ConnectionOpenOk(), b"\x00"),
    (ConnectionTuneOk(2047, 131072, 60), b"\x07\xff\x00\x02\x00\x00\x00\x3c"),
    (
        ConnectionStartOk({}, "PLAIN", b"\x00guest\x00guest", "en_US"),
        b"\x00\x00\x00\x00\x05PLAIN\x00\x00\x00\x0c\x00guest\x00guest\x05en_US",
    ),
    (ConnectionClose(320, "bye", 60, 40), b"\x01\x40\x03bye\x00\x3c\x00\x28"),
    (ChannelOpen(), b"\x00"),
    (ChannelOpenOk(), b"\x00\x00\x00\x00"),
    (AccessRequest("/data"), b"\x05/data\x1e"),
    (AccessRequestOk(), b"\x00\x01"),
    (TxSelect(), b""),
]


@pytest.mark.parametrize(("method", "payload"), SAMPLES, ids=[type(method).__name__ for method, _ in SAMPLES])
def test_a_method_and_its_octets(method: Method, payload: bytes) -> None:
    assert decode_method(method.METHOD, payload) == method
    frame = encode_method(7, method)
    head = b"\x01\x00\x07" + (len(payload) + 4).to_bytes(4, "big") + method.METHOD.to_bytes(4, "big")
    assert frame == head + payload + b"\xce"


METHOD_NAMES = """
connection.start 10 10, connection.start-ok 10 11, connection.secure 10 20, connection.secure-ok 10 21,
connection.tune 10 30, connection.tune-ok 10 31, connection.open 10 40, connection.open-ok 10 41,
connection.close 10 50, connection.close-ok 10 51, connection.blocked 10 60, connection.unblocked 10 61,
connection.update-secret 10 70, connection.update-secret-ok 10 71,
channel.open 20 10, channel.open-ok 20 11, channel.flow 20 20, channel.flow-ok 20 21, channel.close 20 40,
channel.close-ok 20 41, access.request 30 10, access.request-ok 30 11,
exchange.declare 40 10, exchange.declare-ok 40 11, exchange.delete 40 20, exchange.delete-ok 40 21,
exchange.bind 40 30, exchange.bind-ok 40 31, exchange.unbind 40 40, exchange.unbind-ok 40 51,
queue.declare 50 10, queue.declare-ok 50 11, queue.bind 50 20, queue.bind-ok 50 21, queue.purge 50 30,
queue.purge-ok 50 31, queue.delete 50 40, queue.delete-ok 50 41, queue.unbind 50 50, queue.unbind-ok 50 51,
basic.qos 60 10, basic.qos-ok 60 11, basic.consume 60 20, basic.consume-ok 60 21, basic.cancel 60 30,
basic.cancel-ok 60 31, basic.publish 60 40, basic.return 60 50, basic.deliver 60 60, basic.get 60 70,
basic.get-ok 60 71, basic.get-empty 60 72, basic.ack 60 80, basic.reject 60 90, basic.recover-async 60 100,
basic.recover 60 110, basic.recover-ok 60 111, basic.nack 60 120, tx.select 90 10, tx.select-ok 90 11,
tx.commit 90 20, tx.commit-ok 90 21, tx.rollback 90 30, tx.rollback-ok 90 31, confirm.select 85 10,
confirm.select-ok 85 11
"""


def test_every_method_is_there_under_its_number() -> None:
    rows = [row.split() for row in METHOD_NAMES.replace("\n", " ").split(",")]
    expected = {int(class_number) << 16 | int(number): name for name, class_number, number in rows}
    assert expected == {number: method_name(number) for number in METHODS}
    assert all(number == cls.METHOD for number, cls in METHODS.items())


def test_an_unknown_number_has_a_name_for_the_log() -> None:
    assert method_name(60 << 16 | 999) == "60.999"


@pytest.mark.parametrize("method", [0, 60 << 16, 60 << 16 | 13, 70 << 16 | 10, 10 << 16 | 12, 0xFFFFFFFF])
def test_an_unknown_method_ends_the_connection(method: int) -> None:
    with pytest.raises(HardError, match="unknown method") as caught:
        decode_method(method, b"")
    assert caught.value.code == 503
    assert caught.value.method == method


@pytest.mark.parametrize(("method", "payload"), SAMPLES, ids=[type(method).__name__ for method, _ in SAMPLES])
def test_too_few_and_too_many_octets_end_the_connection(method: Method, payload: bytes) -> None:
    for wrong in [payload[:end] for end in range(len(payload))] + [payload + b"\x00"]:
        with pytest.raises(HardError) as caught:
            decode_method(method.METHOD, wrong)
        assert caught.value.code == 501
        assert caught.value.method == method.METHOD
        # A login's octets are never shown.
        shown = shown_octets(b"" if method.METHOD >> 16 == CLASS_CONNECTION else wrong)
        assert caught.value.text == f"cannot decode {shown}"


@pytest.mark.parametrize(
    ("method", "payload", "cause"),
    [
        (QueueDeclare, b"\x00\x00\x05abc", "queue of 5 bytes reaches past the end"),
        (QueueDeclare, b"\x00\x00\x01q\x00\x00\x00\x00\x09", "a table of 9 bytes at byte 5 reaches past the end"),
        (QueueDeclare, b"\x00\x00\x01q\x00\x00\x00\x00\x03\x01aZ", "unknown type 'Z' of a table's value at byte 11"),
        (ChannelOpen, b"\x05abc", "a reserved field of 5 bytes reaches past the end"),
        (BasicAck, bytes(10), "1 bytes are left over after its last field"),
        (BasicAck, bytes(8), "it ends before its bits"),
        (BasicAck, bytes(7), "it ends before delivery_tag"),
    ],
)
def test_the_client_gets_rabbitmqs_words_and_the_log_what_is_wrong(
    method: type[Method], payload: bytes, cause: str
) -> None:
    with pytest.raises(HardError) as caught:
        decode_method(method.METHOD, payload)
    assert caught.value.reply_text == f"FRAME_ERROR - cannot decode {shown_octets(payload)}"
    assert cause in str(caught.value.__cause__)


def test_control_methods_need_utf8_and_messages_do_not() -> None:
    with pytest.raises(HardError) as caught:
        decode_method(QueueDeclare.METHOD, b"\x00\x00\x01\xff\x00\x00\x00\x00\x00")
    # RabbitMQ names no method here.
    assert (caught.value.reply_text, caught.value.method) == ("FRAME_ERROR - Malformed UTF-8 in shortstr", 0)
    payload = b"\x00\x00\x01\xff\x02\xc3\x28\x00"
    publish = decode_method(BasicPublish.METHOD, payload)
    assert publish == BasicPublish("\udcff", "\udcc3(")
    assert encode_method(1, publish)[11:-1] == payload


def test_a_reserved_field_may_hold_anything_that_is_well_formed() -> None:
    assert decode_method(ConnectionOpen.METHOD, b"\x01/\x03abc\x01") == ConnectionOpen("/")
    assert decode_method(QueueDeclare.METHOD, b"\xff\xff\x01q\xe0\x00\x00\x00\x00") == QueueDeclare("q")


def test_a_reply_text_is_cut_and_nothing_else_is() -> None:
    for method in (ConnectionClose(541, "ü" * 200), ChannelClose(406, "ü" * 200), BasicReturn(312, "ü" * 200, "", "")):
        text = decode_method(method.METHOD, encode_method(0, method)[11:-1]).reply_text  # type: ignore[attr-defined]
        assert text == "ü" * 126 + "..."
    for text, kept in (
        ("a" * 255, "a" * 255),
        ("a" * 256, "a" * 252 + "..."),
        ("a" + "€" * 90, "a" + "€" * 83 + "..."),
    ):
        frame = encode_method(0, ConnectionClose(541, text))
        assert decode_method(ConnectionClose.METHOD, frame[11:-1]) == ConnectionClose(541, kept)
    with pytest.raises(ValueError, match=r"connection.blocked: reason has 256 bytes of at most 255"):
        encode_method(0, ConnectionBlocked("a" * 256))
    with pytest.raises(ValueError, match=r"queue.declare: queue has 256 bytes"):
        encode_method(0, QueueDeclare("ü" * 128))


@pytest.mark.parametrize(
    ("method", "error", "words"),
    [
        (BasicAck(-1), ValueError, "basic.ack: delivery_tag is -1"),
        (BasicAck(2**64), ValueError, "delivery_tag"),
        (ConnectionTuneOk(65536, 0, 0), ValueError, "connection.tune-ok: channel_max is 65536"),
        (QueueDeclare("q", arguments={"x-max-length": 2**70}), ValueError, "arguments: .*'x-max-length'.*64 bits"),
        (QueueDeclare("q", arguments={"x": object()}), TypeError, "arguments: .*'x'"),  # type: ignore[dict-item]
        (ConnectionStartOk({}, "PLAIN", "text", "en_US"), TypeError, "response must be bytes"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_written_is_named(method: Method, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        encode_method(1, method)


def test_methods_do_not_change_and_do_not_share_arguments() -> None:
    first, second = QueueDeclare("q"), QueueDeclare("q")
    assert first.arguments is not second.arguments
    method: Any = first
    with pytest.raises(AttributeError):
        method.queue = "other"
