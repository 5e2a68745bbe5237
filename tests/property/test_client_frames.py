"""What a broker sends to the client means the same however it is cut into chunks, and nonsense never does harm."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from leveret.core.client.delivery import Delivery
from leveret.errors import HardError
from tests.conformance.amqp_codec import encode_frame
from tests.unit.core.client_bench import HEARTBEAT, Bench, ack, deliver, get_ok, give_back, nack
from tests.unit.queues.dataplane import body_frame, header_frame, method_frame

PUBLISHED = 8
BODIES = st.binary(max_size=60)
PROPERTIES = st.fixed_dictionaries(
    {},
    optional={
        "content_type": st.text(max_size=10),
        "headers": st.dictionaries(st.text(max_size=5), st.integers(-9, 9) | st.text(max_size=5), max_size=3),
        "message_id": st.text(max_size=10),
        "delivery_mode": st.sampled_from([1, 2]),
    },
)
PIECES = st.lists(st.integers(0, 20), max_size=3).map(tuple)


@st.composite
def deliveries(draw: st.DrawFn) -> bytes:
    body = draw(BODIES)
    pieces, size = [], 0
    for piece in draw(PIECES):
        if size + piece < len(body):
            pieces.append(piece)
            size += piece
    return deliver(
        draw(st.integers(0, 2**64 - 1)),
        body,
        draw(PROPERTIES),
        tag=draw(st.sampled_from(["one", "two", "gone"])),
        channel=draw(st.sampled_from([1, 2, 3])),
        redelivered=draw(st.booleans()),
        pieces=pieces,
    )


GOOD = st.one_of(
    deliveries(),
    st.builds(get_ok, st.integers(0, 2**64 - 1), BODIES, st.integers(0, 9), channel=st.sampled_from([1, 2])),
    st.builds(give_back, st.sampled_from([None, "0", "5", "x"]), body=BODIES),
    st.builds(ack, st.integers(0, PUBLISHED), st.just(True)),
    st.builds(nack, st.integers(0, PUBLISHED), st.just(True)),
    st.builds(lambda name: method_frame(1, "queue.declare-ok", queue=name), st.text(max_size=9)),
    st.just(method_frame(0, "connection.blocked", reason="low")),
    st.just(HEARTBEAT),
)


class Scene:
    """Two channels that know two consumers each, and a third that was dropped; the first one waits for confirms."""

    def __init__(self) -> None:
        self.bench = Bench(4096, confirming=True)
        other = self.bench.add_lane(2)
        codecs = {1: self.bench.codec, 2: other}
        self.delivery_buffers = {
            (number, tag): self.bench.add_sink(tag, codec) for number, codec in codecs.items() for tag in ("one", "two")
        }
        self.published = [self.bench.publish(str(at), body=b"x" * at) for at in range(PUBLISHED)]
        self.events: list[Any] = []
        self.error: int | None = None

    def feed(self, chunks: list[bytes]) -> Scene:
        for chunk in chunks:
            if self.error is not None:
                break
            try:
                self.events += self.bench.feed(chunk)
            except HardError as error:
                # Texts name places within a chunk.
                self.error = error.code
        return self

    def seen(self) -> dict[str, Any]:
        codec = self.bench.codec
        return {
            "deliveries": {
                key: [told(item) for item in delivery_buffer.items]
                for key, delivery_buffer in self.delivery_buffers.items()
            },
            "received": [delivery_buffer.received_total for delivery_buffer in self.delivery_buffers.values()],
            "settled": [message.message_id for message in codec.take_settled()],
            "outcomes": [
                (message.is_confirmed, message.is_refused, message.is_returned, message.reply_text)
                for message in self.published
            ],
            "strays": [(code, text, told(stray)) for code, text, stray in codec.take_strays()],
            "unconfirmed": (codec.unconfirmed_bytes, [message.message_id for message in codec.abandon()]),
            "error": self.error,
        }

    def told_events(self) -> list[Any]:
        return [tuple(told(part) if isinstance(part, Delivery) else part for part in event) for event in self.events]


def told(got: Delivery) -> tuple[Any, ...]:
    return (
        got.delivery_tag,
        got.body,
        got.exchange,
        got.routing_key,
        got.consumer_tag,
        bool(got.redelivered),
        got.message_count,
        got.properties.fields(),
    )


def cut(octets: bytes, places: list[int]) -> list[bytes]:
    bounds = [0, *sorted(place % (len(octets) + 1) for place in places), len(octets)]
    return [octets[start:end] for start, end in itertools.pairwise(bounds)]


@given(st.lists(GOOD, max_size=12), st.lists(st.integers(0, 10_000), max_size=12))
def test_chunks_do_not_matter(frames: list[bytes], places: list[int]) -> None:
    octets = b"".join(frames)
    whole, pieces = Scene().feed([octets]), Scene().feed(cut(octets, places))
    assert whole.told_events() == pieces.told_events()
    seen = whole.seen()
    assert seen == pieces.seen()
    assert seen["error"] is None


@given(st.lists(GOOD, min_size=1, max_size=4))
def test_octet_by_octet(frames: list[bytes]) -> None:
    octets = b"".join(frames)
    whole, single = Scene().feed([octets]), Scene().feed([octets[at : at + 1] for at in range(len(octets))])
    assert whole.told_events() == single.told_events()
    assert whole.seen() == single.seen()


FRAMES = st.one_of(
    GOOD,
    st.builds(
        encode_frame,
        st.sampled_from([1, 2, 3, 8, 0, 4, 255]),
        st.integers(0, 4),
        st.binary(max_size=40)
        | st.builds(
            lambda method, rest: method + rest,
            st.sampled_from(
                [
                    b"\x00\x3c\x00\x3c",
                    b"\x00\x3c\x00\x32",
                    b"\x00\x3c\x00\x47",
                    b"\x00\x3c\x00\x50",
                    b"\x00\x3c\x00\x78",
                ]
            ),
            st.binary(max_size=40),
        ),
    ),
    st.builds(header_frame, st.integers(1, 2), st.integers(0, 2**64 - 1), PROPERTIES),
    st.builds(body_frame, st.integers(1, 2), BODIES),
    st.binary(max_size=30),
)


@given(
    st.lists(FRAMES, max_size=10),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=3),
    st.lists(st.integers(0, 10_000), max_size=6),
)
def test_nonsense_is_refused_the_same_however_it_is_cut(
    frames: list[bytes], flips: list[tuple[int, int]], places: list[int]
) -> None:
    octets = bytearray(b"".join(frames))
    for place, octet in flips:
        if octets:
            octets[place % len(octets)] = octet
    whole, pieces = Scene().feed([bytes(octets)]), Scene().feed(cut(bytes(octets), places))
    seen = whole.seen()
    assert seen == pieces.seen()
    if seen["error"] is None:
        assert whole.told_events() == pieces.told_events()
