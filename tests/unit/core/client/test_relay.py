"""The relay between two channels: what it publishes, and when it acknowledges."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.core.client.channel_codec import ChannelCodec, DeliveryBuffer
from leveret.core.client.outgoing import MANDATORY
from leveret.core.client.reader import Reader
from leveret.core.client.relay import Relay
from leveret.core.codec.properties import encode_properties
from leveret.core.codec.write_buffer import WriteBuffer

DELIVER, PUBLISH, ACK, NACK, RETURN = 0x003C003C, 0x003C0028, 0x003C0050, 0x003C0078, 0x003C0032
ON_CONFIRM, ON_PUBLISH, NO_ACK = 0, 1, 2


def short(text: str) -> bytes:
    return bytes((len(text),)) + text.encode()


def frame(kind: int, payload: bytes) -> bytes:
    return bytes((kind,)) + (1).to_bytes(2, "big") + len(payload).to_bytes(4, "big") + payload + b"\xce"


def content(body: bytes, properties: bytes) -> bytes:
    head = (60).to_bytes(2, "big") + b"\0\0" + len(body).to_bytes(8, "big") + properties
    return frame(2, head) + frame(3, body)


class Side:
    """One link: what comes in goes through a reader, what goes out is looked at."""

    def __init__(self) -> None:
        self.reader = Reader(131072)
        self.write_buffer = WriteBuffer([], [])
        self.codec = ChannelCodec(1, self.write_buffer, 131064)
        self.codec.kick = lambda: None
        self.reader.add_lane(self.codec)

    def feed(self, octets: bytes) -> None:
        self.reader.feed(bytearray(octets), len(octets))

    def sent(self) -> list[tuple[int, bytes]]:
        """(method, arguments) of what was written since this was asked last; content is passed over."""
        octets = b"".join(bytes(view) for view in self.write_buffer.views(1000))
        self.write_buffer.sent(len(octets))
        found, at = [], 0
        while at < len(octets):
            size = int.from_bytes(octets[at + 3 : at + 7], "big")
            payload = octets[at + 7 : at + 7 + size]
            if octets[at] == 1:
                found.append((int.from_bytes(payload[:4], "big"), payload[4:]))
            at += size + 8
        self.write_buffer.calm_down()
        return found


class Pair:
    def __init__(self, mode: int = ON_CONFIRM, **options: Any) -> None:
        self.source, self.target = Side(), Side()
        self.target.codec.confirming = mode == ON_CONFIRM
        self.delivery_buffer = DeliveryBuffer(b"tag")
        self.delivery_buffer.no_ack = mode == NO_ACK
        self.source.codec.delivery_buffers[b"tag"] = self.delivery_buffer
        given = {"exchange": short(""), "routing_key": short("q"), "bits": MANDATORY, "edit": None, **options}
        self.relay = Relay(self.delivery_buffer, self.source.codec, self.target.codec, mode, *given.values())

    def deliver(self, first: int, last: int) -> None:
        for tag in range(first, last + 1):
            place = short("tag") + tag.to_bytes(8, "big") + b"\0" + short("e") + short("k")
            self.source.feed(
                frame(1, DELIVER.to_bytes(4, "big") + place)
                + content(b"%d" % tag, encode_properties(message_id=str(tag)))
            )

    def confirm(self, tag: int, multiple: bool = False, method: int = ACK) -> bool:
        self.target.feed(frame(1, method.to_bytes(4, "big") + tag.to_bytes(8, "big") + bytes((multiple,))))
        answered: bool = self.relay.answered()
        return answered

    def acks(self) -> list[tuple[int, bool]]:
        acks = [rest for method, rest in self.source.sent() if method == ACK]
        return [(int.from_bytes(rest[:8], "big"), bool(rest[8] & 1)) for rest in acks]

    def published(self) -> list[bytes]:
        return [rest for method, rest in self.target.sent() if method == PUBLISH]


def test_confirms_become_one_ack_for_all_before() -> None:
    pair = Pair()
    pair.deliver(1, 5)
    assert pair.relay.transport(100) == 5
    assert pair.published() == [b"\0\0" + short("") + short("q") + b"\x01"] * 5
    assert pair.acks() == []
    pair.confirm(3, multiple=True)
    assert pair.acks() == [(3, True)]
    assert pair.relay.in_flight == 2
    pair.confirm(5, multiple=True)
    assert pair.acks() == [(5, True)]
    assert (pair.relay.in_flight, pair.relay.confirmed_total, pair.relay.forwarded_total) == (0, 5, 5)


def test_a_confirm_out_of_order_waits_for_those_before() -> None:
    pair = Pair()
    pair.deliver(1, 3)
    pair.relay.transport(100)
    pair.confirm(3)
    pair.confirm(2)
    assert pair.acks() == []
    pair.confirm(1)
    assert pair.acks() == [(3, True)]


def test_a_refused_message_is_sent_again_and_never_covered_by_another_ack() -> None:
    pair = Pair()
    pair.deliver(1, 4)
    pair.relay.transport(3)
    pair.confirm(2, method=NACK)
    pair.confirm(1)
    pair.confirm(3)
    assert pair.acks() == [(1, False), (3, False)]
    # Nothing else goes before it.
    assert pair.relay.transport(100) == 0
    pair.published()
    pair.relay.retry()
    assert len(pair.published()) == 1
    pair.confirm(4)
    assert pair.acks() == [(2, False)]
    assert not pair.relay.single
    pair.relay.transport(100)
    pair.confirm(5)
    assert pair.acks() == [(4, True)]
    assert pair.relay.refused_total == 1


def test_a_message_that_comes_back_stops_every_ack() -> None:
    pair = Pair()
    pair.deliver(1, 2)
    pair.relay.transport(100)
    returned = RETURN.to_bytes(4, "big") + (312).to_bytes(2, "big") + short("NO_ROUTE") + short("") + short("q")
    pair.target.feed(frame(1, returned) + content(b"1", encode_properties(message_id="1")))
    assert not pair.confirm(2, multiple=True)
    assert pair.acks() == []
    assert pair.relay.returned is not None


def test_on_publish_acknowledges_at_once_and_no_ack_never() -> None:
    pair = Pair(ON_PUBLISH)
    pair.deliver(1, 4)
    pair.relay.transport(3)
    assert pair.acks() == [(3, True)]
    pair.relay.transport(3)
    assert pair.acks() == [(4, True)]
    assert pair.relay.transport(3) == 0
    assert pair.acks() == []
    silent = Pair(NO_ACK)
    silent.deliver(1, 2)
    assert silent.relay.transport(10) == 2
    assert silent.acks() == []


def test_an_edit_changes_properties_and_drops() -> None:
    def edit(delivery: Any) -> bytes | None:
        return None if delivery.delivery_tag == 2 else encode_properties(app_id="x")

    pair = Pair(edit=edit, exchange=None, routing_key=None, bits=0)
    pair.deliver(1, 3)
    pair.relay.transport(100)
    assert pair.published() == [b"\0\0" + short("e") + short("k") + b"\0"] * 2
    assert pair.acks() == [(2, False)]
    pair.confirm(2, multiple=True)
    assert pair.acks() == [(3, True)]
    assert pair.relay.dropped_total == 1


def test_large_messages_wait_for_confirms_of_those_before() -> None:
    pair = Pair()
    large = b"x" * 131_000
    for tag in range(1, 531):
        place = short("tag") + tag.to_bytes(8, "big") + b"\0" + short("e") + short("k")
        octets = frame(1, DELIVER.to_bytes(4, "big") + place) + content(large, encode_properties())
        pair.source.feed(octets)
    while pair.relay.transport(1):
        pair.target.sent()
    # 64 MiB, and not all of it.
    assert pair.relay.in_flight == 513
    pair.confirm(513, multiple=True)
    assert pair.relay.transport(1) == 1


@pytest.mark.parametrize("mode", [ON_CONFIRM, ON_PUBLISH])
def test_it_takes_no_more_than_it_may(mode: int) -> None:
    pair = Pair(mode)
    pair.relay.left = 2
    pair.deliver(1, 5)
    assert pair.relay.transport(100) == 2
    assert pair.relay.transport(100) == 0
    if mode == ON_CONFIRM:
        assert not pair.relay.is_done
        pair.confirm(2, multiple=True)
    assert pair.relay.is_done
    assert pair.acks() == [(2, True)]
