"""What a channel codec knows of the settlement of deliveries, beside a model that keeps every tag."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.core.client.channel_codec import ChannelCodec, DeliveryBuffer
from leveret.core.client.delivery import Delivery
from leveret.core.client.reader import Reader
from leveret.core.codec.write_buffer import WriteBuffer
from leveret.errors import AlreadySettled, StaleDelivery

TAG = b"tag"


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return bytes((kind,)) + channel.to_bytes(2, "big") + len(payload).to_bytes(4, "big") + payload + b"\xce"


def deliver(tag: int, body: bytes = b"x", redelivered: bool = False) -> bytes:
    arguments = bytes((len(TAG),)) + TAG + tag.to_bytes(8, "big") + bytes((redelivered,)) + b"\x00" + b"\x01q"
    header = (60).to_bytes(2, "big") + b"\x00\x00" + len(body).to_bytes(8, "big") + b"\x00\x00"
    return frame(1, 1, (60 << 16 | 60).to_bytes(4, "big") + arguments) + frame(2, 1, header) + frame(3, 1, body)


class Scene:
    def __init__(self, **delivery_buffer: Any) -> None:
        self.write_buffer = WriteBuffer([], [])
        self.codec = ChannelCodec(1, self.write_buffer, 100_000)
        self.codec.kick = lambda: None
        self.delivery_buffer = DeliveryBuffer(TAG)
        for name, value in delivery_buffer.items():
            setattr(self.delivery_buffer, name, value)
        self.codec.delivery_buffers[TAG] = self.delivery_buffer
        self.reader = Reader(131072)
        self.reader.add_lane(self.codec)

    def receive(self, *octets: bytes) -> None:
        data = bytearray(b"".join(octets))
        assert self.reader.feed(data, len(data)) == []

    def taken(self, count: int) -> list[Delivery]:
        self.receive(*(deliver(tag) for tag in range(1, count + 1)))
        return [self.delivery_buffer.take() for _ in range(count)]

    def written(self) -> list[tuple[int, int, int]]:
        """(method, tag, bits) of the settlements that were written."""
        octets = b"".join(bytes(view) for view in self.write_buffer.views(1000))
        self.write_buffer.sent(len(octets))
        pieces = [octets[at : at + 21] for at in range(0, len(octets), 21)]
        return [
            (int.from_bytes(piece[7:11], "big"), int.from_bytes(piece[11:19], "big"), piece[19]) for piece in pieces
        ]


@given(st.data())
def test_counts_are_those_of_a_model(data: st.DataObject) -> None:
    scene = Scene()
    count = data.draw(st.integers(1, 20))
    deliveries = scene.taken(count)
    open_tags = set(range(1, count + 1))
    acked = nacked = 0
    for number in data.draw(st.lists(st.integers(0, count - 1), max_size=30)):
        delivery, tag = deliveries[number], number + 1
        how = data.draw(st.sampled_from(("ack", "ack multiple", "nack", "nack multiple", "reject")))
        settled = {other for other in open_tags if other <= tag} if "multiple" in how else {tag}

        def settle(delivery: Delivery = delivery, how: str = how) -> None:
            if how == "reject":
                delivery.reject()
            else:
                getattr(delivery, how.split()[0])(multiple="multiple" in how)

        if tag not in open_tags:
            with pytest.raises(AlreadySettled):
                settle()
            continue
        settle()
        open_tags -= settled
        if how.startswith("ack"):
            acked += len(settled)
        else:
            nacked += len(settled)
        assert scene.codec.unsettled_count == len(open_tags)
        assert (scene.codec.acked_total, scene.codec.nacked_total) == (acked, nacked)
        for upto in range(count + 1):
            assert scene.codec.unsettled_upto(upto) == sum(other <= upto for other in open_tags)
        assert [one.is_settled for one in deliveries] == [tag not in open_tags for tag in range(1, count + 1)]


def test_settlements_as_they_are_written() -> None:
    scene = Scene()
    one, two, three, four = scene.taken(4)
    one.reject(requeue=True)
    two.nack(requeue=False)
    four.ack(multiple=True)
    assert scene.written() == [(0x003C005A, 1, 1), (0x003C0078, 2, 0), (0x003C0050, 4, 1)]
    with pytest.raises(AlreadySettled):
        three.ack()
    assert scene.written() == []


def test_a_lane_that_is_gone() -> None:
    scene = Scene()
    one, two = scene.taken(2)
    one.ack()
    scene.codec.is_open = False
    assert two.is_stale and not two.is_settled
    with pytest.raises(StaleDelivery):
        two.ack()
    with pytest.raises(AlreadySettled):
        one.ack()


def test_what_needs_no_word() -> None:
    scene = Scene(no_ack=True)
    [one] = scene.taken(1)
    assert one.is_settled
    with pytest.raises(AlreadySettled):
        one.ack()
    assert (scene.codec.unsettled_count, scene.codec.acked_total, scene.codec.nacked_total) == (0, 0, 0)


def test_what_a_sink_counts() -> None:
    scene = Scene(counts_bytes=True)
    scene.receive(deliver(1, b"abc"), deliver(2, b"defgh", redelivered=True))
    assert (
        scene.delivery_buffer.received_total,
        scene.delivery_buffer.redelivered_total,
        scene.delivery_buffer.waiting_bytes,
    ) == (2, 1, 8)
    first = scene.delivery_buffer.take()
    assert (first.body, scene.delivery_buffer.waiting_bytes) == (b"abc", 5)
    assert scene.delivery_buffer.take().redelivered
    assert scene.delivery_buffer.take() is None
    assert scene.delivery_buffer.waiting_bytes == 0


def test_what_comes_for_nobody_is_not_settled() -> None:
    scene = Scene()
    scene.receive(deliver(1))
    scene.codec.delivery_buffers.clear()
    scene.receive(deliver(2))
    assert scene.codec.unsettled_count == 2
