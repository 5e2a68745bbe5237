"""What waits on a connection: heartbeats first, order, bounds."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from leveret.cluster.links.frames import FrameReader, Kind, beat
from leveret.cluster.links.send_queue import BEATS_MAX, OVERHEAD_BYTES, SendQueue
from leveret.core.codec.write_buffer import WriteBuffer

KINDS = (Kind.CONSENSUS, Kind.HEARTBEAT)


def taken(write_buffer: WriteBuffer) -> bytes:
    """Everything that the write buffer holds, as a socket would take it."""
    octets = b"".join(bytes(view) for view in write_buffer.views(1000))
    write_buffer.sent(len(octets))
    write_buffer.calm_down()
    return octets


def test_a_heartbeat_goes_between_the_parts_of_a_message() -> None:
    queue, write_buffer = SendQueue(1 << 30), WriteBuffer([], [])
    assert queue.put(Kind.CONSENSUS, 0, bytes(1 << 20))
    queue.fill(write_buffer)
    assert write_buffer.congested and write_buffer.pending() < 400_000
    assert queue.put_beat(beat(Kind.HEARTBEAT, 5))
    reader = FrameReader(KINDS)
    first = reader.feed(taken(write_buffer))
    assert first == []
    found = []
    while queue:
        queue.fill(write_buffer)
        found += [kind for kind, _, _ in reader.feed(taken(write_buffer))]
    assert found == [Kind.HEARTBEAT, Kind.CONSENSUS]
    assert queue.octets == 0


@settings(deadline=None, max_examples=50)
@given(st.lists(st.binary(max_size=20_000), max_size=20), st.integers(1, 9000))
def test_messages_go_out_in_their_order(messages: list[bytes], part_bytes: int) -> None:
    queue, write_buffer = SendQueue(1 << 30, part_bytes), WriteBuffer([], [])
    for number, octets in enumerate(messages):
        assert queue.put(Kind.CONSENSUS, number, octets)
    reader, found = FrameReader(KINDS), []
    while queue:
        queue.fill(write_buffer)
        found += reader.feed(taken(write_buffer))
    found += reader.feed(taken(write_buffer))
    assert found == [(Kind.CONSENSUS, number, octets) for number, octets in enumerate(messages)]
    assert queue.frames_total == reader.frames_total


def test_what_waits_is_bounded_but_one_message_goes_always() -> None:
    queue = SendQueue(1000)
    assert queue.put(Kind.CONSENSUS, 0, bytes(5000))
    assert not queue.put(Kind.CONSENSUS, 0, b"")
    queue = SendQueue(1000)
    assert all(queue.put(Kind.CONSENSUS, 0, b"") for _ in range(1000 // OVERHEAD_BYTES))
    assert not queue.put(Kind.CONSENSUS, 0, b"")
    assert all(queue.put_beat(b"beat") for _ in range(BEATS_MAX)) and not queue.put_beat(b"beat")
