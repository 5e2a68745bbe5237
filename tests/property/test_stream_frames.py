"""What a stream client may send, however it is cut or damaged: what is published is what was sent, or it is refused."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from leveret.errors import HardError
from tests.unit.core.stream_client_bench import (
    StreamBench,
    filtered,
    frame,
    publish_frame,
    read_chunk,
    simple,
    sub_batch,
)

ids = st.integers(0, 2**64 - 1)
bodies = st.binary(max_size=60)
values = st.none() | st.binary(min_size=1, max_size=20)
plain = st.tuples(ids, bodies)
batches = st.tuples(ids, st.integers(1, 65535), st.integers(0, 7), bodies)


@st.composite
def publishes(draw: st.DrawFn) -> tuple[bytes, list[tuple[bytes, int]]]:
    """A frame of PUBLISH, and each entry as it stands in a chunk with the number of its messages."""
    entries, expected = [], []
    version = draw(st.sampled_from((1, 2)))
    for kind in draw(st.lists(st.booleans(), max_size=6)):
        if version == 2:
            id, value, body = draw(ids), draw(values), draw(bodies)
            entries.append(filtered(id, value, body))
            expected.append((body, 1))
        elif kind:
            id, body = draw(plain)
            entries.append(simple(id, body))
            expected.append((body, 1))
        else:
            batch = draw(batches)
            entries.append(sub_batch(*batch))
            expected.append((entries[-1][8:], batch[1]))
    return publish_frame(1, *entries, version=version), expected


@given(st.lists(publishes(), max_size=5), st.data())
def test_what_is_published_is_delivered(sent: list[tuple[bytes, list[tuple[bytes, int]]]], data: st.DataObject) -> None:
    bench = StreamBench()
    bench.publisher()
    subscription = bench.subscription()
    subscription.add_credit(1000)
    subscription.begin(0)
    octets = b"".join(each for each, _ in sent)
    while octets:
        size = data.draw(st.integers(1, len(octets)))
        assert bench.feed(octets[:size]) == []
        octets = octets[size:]
        if data.draw(st.booleans()):
            bench.sync()
    bench.sync()
    bench.stream_store.read()
    expected = [entry for _, entries in sent for entry in entries]
    chunks = [read_chunk(each) for each in bench.sent() if each[1] == 8]
    assert [body for chunk in chunks for body in chunk.messages()] == [body for body, _ in expected]
    offset = 0
    for chunk in chunks:
        assert chunk.first_offset == offset
        offset += chunk.records
    assert offset == sum(count for _, count in expected) == bench.stream.committed_offset


@given(publishes(), st.data())
def test_damage_is_refused_or_published_but_never_half(
    sent: tuple[bytes, list[tuple[bytes, int]]], data: st.DataObject
) -> None:
    octets = bytearray(sent[0])
    at = data.draw(st.integers(4, len(octets) - 1))
    octets[at] = data.draw(st.integers(0, 255))
    bench = StreamBench()
    publisher = bench.publisher()
    try:
        bench.feed(bytes(octets))
    except HardError as error:
        assert error.code in (501, 503)
        assert bench.stream.next_offset == 0
        assert publisher.published_total == 0


@given(st.lists(st.tuples(st.integers(0, 40), st.binary(max_size=40)), max_size=8), st.integers(5, 200))
def test_no_octets_make_it_fail(frames: list[tuple[int, bytes]], frame_max: int) -> None:
    bench = StreamBench(frame_max=frame_max)
    bench.publisher(0)
    try:
        bench.feed(b"".join(frame(key, content) for key, content in frames))
    except HardError as error:
        assert error.code in (311, 501, 503)
