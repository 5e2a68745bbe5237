"""Walking through a stream's segment: as far as it is whole and in order, and what it says of offsets and ids."""

from __future__ import annotations

from leveret.core.log.records import sealed
from leveret.core.stream.scan import StreamScan, first_since
from leveret.core.stream.segment import StreamSegment
from leveret.core.stream.tracking import Tracking
from tests.unit.core.stream_client_bench import HEAD_BYTES, StreamBench

SALT = 0


def segment_with(*bodies: bytes) -> tuple[StreamBench, bytes]:
    """Each message is a batch; the segment behind its head, sealed."""
    bench = StreamBench()
    for number, body in enumerate(bodies):
        bench.office.now = 1000 + number
        assert bench.log.take_id(b"p", number)
        bench.log.append(b"\x00\x00", b"\x00\x00", body, 1, 0, b"value" if number % 2 else None, bench.office.now)
        bench.sync()
    return bench, bytes(sealed(bench.stream_store.images[0][HEAD_BYTES:], SALT))


def scan_of(next_offset: int | None = None) -> StreamScan:
    return StreamScan(StreamSegment(0, SALT, None, 0, HEAD_BYTES), Tracking(), next_offset)


def test_all_of_it_is_taken_in() -> None:
    bench, data = segment_with(b"a" * 100, b"", b"c" * 5000)
    scan = scan_of()
    assert scan.run(data) == len(data)
    assert (scan.next_offset, scan.messages, scan.part_offset) == (3, 3, 3)
    assert scan.segment.end == scan.part_end == HEAD_BYTES + len(data) == bench.log.segment.end
    assert scan.tracking.producers == {b"p": 2}
    assert scan.synced_offset == 2, "the last part cannot say that it was synced itself"
    assert scan.segment.copy_index() == bench.log.segment.copy_index()
    assert (scan.segment.first_stamp, scan.segment.last_stamp) == (1000, 1002)


def test_it_is_the_same_in_stretches() -> None:
    _, data = segment_with(*(b"%d" % number * 60 for number in range(20)))
    whole, pieces = scan_of(), scan_of()
    whole.run(data)
    at = 0
    while at < len(data):
        used = pieces.run(data[at : at + 400])
        assert used > 0
        at += used
    for name in ("next_offset", "messages", "part_end", "part_offset", "synced_offset", "records"):
        assert getattr(pieces, name) == getattr(whole, name), name
    assert pieces.segment.copy_index() == whole.segment.copy_index()


def test_it_stops_where_something_is_wrong() -> None:
    _, data = segment_with(b"a" * 100, b"b" * 100)
    for place in range(0, len(data), 7):
        spoiled = bytearray(data)
        spoiled[place] ^= 1
        scan = scan_of()
        used = scan.run(bytes(spoiled))
        assert used <= place or used == len(data), "padding may be anything"
        assert scan.segment.end == HEAD_BYTES + used


def test_a_part_ends_with_what_is_tracked() -> None:
    bench, data = segment_with(b"a" * 100, b"b" * 100)
    scan = scan_of()
    scan.run(data[:-8])
    assert (scan.next_offset, scan.part_offset) == (2, 1)
    assert scan.part_end < scan.segment.end < bench.log.segment.end
    assert scan.tracking.producers == {b"p": 0}, "the id of the message whose part is torn is not there"


def test_another_offset_than_the_next_is_the_end() -> None:
    _, data = segment_with(b"a" * 100, b"b" * 100)
    assert scan_of(1).run(data) == 0
    assert scan_of(0).run(data) == len(data)


def test_after_a_gap_anything_may_come() -> None:
    _, data = segment_with(b"a" * 100, b"b" * 100, b"c" * 100)
    scan = scan_of()
    track, first = 32, 32 + 152
    assert scan.run(data[: track + first]) > 0
    last = data.index(b"c" * 100) - 44
    scan.expect_anything()
    assert scan.run(data[last:]) == len(data) - last
    assert (scan.next_offset, scan.segment.first_offset) == (3, 0)
    lost_start = scan_of()
    lost_start.run(data[last:])
    assert lost_start.segment.first_offset == 2, "a segment starts with what is left of it"


def test_a_segment_keeps_its_start_when_its_index_is_used() -> None:
    bench, data = segment_with(b"a" * 100, b"b" * 100, b"c" * 100)
    segment = StreamSegment(0, SALT, None, 0, HEAD_BYTES)
    segment.use_index(bench.log.segment.copy_index())
    scan = StreamScan(segment, Tracking(), 1)
    scan.expect_anything()
    assert scan.run(data[data.index(b"c" * 100) - 44 :]) > 0
    assert segment.first_offset == 0


def test_the_first_since_a_moment() -> None:
    _, data = segment_with(*(b"x" * 50 for _ in range(5)))
    for number in range(5):
        offset, at = first_since(data, 1000 + number)
        assert offset == number
        assert int.from_bytes(data[at + 8 : at + 16], "big") == number
    assert first_since(data, 0)[0] == 0
    assert first_since(data, 1005) == (-1, len(data))
    assert first_since(data[:-1], 1005)[0] == -1
    assert first_since(b"", 0) == (-1, 0)
