"""Publishing over the stream protocol: what gets into the stream, what is confirmed when, and what is refused."""

from __future__ import annotations

import struct

import pytest

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


def confirms(frames: list[bytes]) -> list[tuple[int, list[int]]]:
    found = []
    for each in frames:
        key, version, publisher, count = struct.unpack_from(">HHBI", each)
        assert (key, version) == (3, 1)
        found.append((publisher, list(struct.unpack_from(f">{count}Q", each, 9))))
        assert len(each) == 9 + 8 * count
    return found


def errors(frames: list[bytes]) -> list[tuple[int, list[tuple[int, int]]]]:
    found = []
    for each in frames:
        key, version, publisher, count = struct.unpack_from(">HHBI", each)
        assert (key, version) == (4, 1)
        found.append((publisher, list(struct.iter_unpack(">QH", each[9:]))))
        assert len(found[-1][1]) == count
    return found


def test_nothing_is_confirmed_before_it_is_on_disk() -> None:
    bench = StreamBench()
    bench.publisher()
    bench.feed(publish_frame(1, simple(5, b"a"), simple(9, b"b")))
    bench.feed(publish_frame(1, simple(10, b"c")))
    assert bench.sent() == []
    assert (bench.stream.next_offset, bench.stream.committed_offset) == (3, 0)
    bench.sync()
    assert confirms(bench.sent()) == [(1, [5, 9, 10])]
    assert bench.stream.committed_offset == 3


def test_what_comes_after_the_batch_was_closed_waits_for_the_next() -> None:
    bench = StreamBench()
    publisher = bench.publisher()
    bench.feed(publish_frame(1, simple(1, b"a")))
    batch = bench.disk.journal.take_batch()
    bench.feed(publish_frame(1, simple(2, b"b")))
    bench.disk.journal.batch_written(batch)
    bench.disk.journal.batch_synced(batch)
    assert confirms(bench.sent()) == [(1, [1])]
    bench.sync()
    assert confirms(bench.sent()) == [(1, [2])]
    assert (publisher.published_total, publisher.confirmed_total) == (2, 2)


def test_each_publisher_is_confirmed_for_himself() -> None:
    bench = StreamBench()
    bench.publisher(1)
    bench.publisher(255)
    bench.feed(publish_frame(255, simple(1, b"a")) + publish_frame(1, simple(1, b"b"), simple(2, b"c")))
    bench.sync()
    assert sorted(confirms(bench.sent())) == [(1, [1, 2]), (255, [1])]


def test_many_ids_go_out_in_several_frames_and_in_order() -> None:
    bench = StreamBench()
    bench.publisher()
    for round_ in range(3):
        ids = range(round_ * 10000, round_ * 10000 + 10000)
        bench.feed(publish_frame(1, *(simple(number, b"") for number in ids)))
        bench.sync()
        found = confirms(bench.sent())
        assert [len(part) for _, part in found] == [8192, 1808]
        assert [number for _, part in found for number in part] == list(ids)


def test_a_name_makes_what_was_published_before_known() -> None:
    bench = StreamBench()
    publisher = bench.publisher(1, b"me")
    bench.feed(publish_frame(1, simple(1, b"a"), simple(3, b"b")))
    bench.feed(publish_frame(1, simple(2, b"x"), simple(3, b"x"), simple(4, b"c")))
    assert bench.stream.next_offset == 3
    bench.sync()
    # Those that are known are safe as well, and the client must hear of it.
    assert confirms(bench.sent()) == [(1, [1, 3, 2, 3, 4])]
    assert publisher.known_total == 2
    assert bench.stream.last_id(b"me") == 4
    bench.feed(publish_frame(1, simple(4, b"again")))
    assert bench.sent() == []
    bench.sync()
    assert confirms(bench.sent()) == [(1, [4])]
    assert bench.stream.next_offset == 3


def test_a_sub_batch_has_as_many_offsets_as_messages() -> None:
    bench = StreamBench()
    bench.publisher(1, b"me")
    bench.feed(publish_frame(1, sub_batch(1, 5, 1, b"zipped", 70), simple(2, b"after"), sub_batch(2, 9, 0, b"known")))
    assert bench.stream.next_offset == 6
    subscription = bench.subscription()
    subscription.add_credit(1)
    subscription.begin(0)
    bench.sync()
    frames = bench.sent()
    assert confirms(frames[1:]) == [(1, [1, 2, 2])]
    chunk = read_chunk(frames[0])
    assert (chunk.entries, chunk.records) == (2, 6)
    assert chunk.messages() == [struct.pack(">BHII", 0x90, 5, 70, 6) + b"zipped", b"after"]


def test_an_unknown_publisher_is_told_for_every_message() -> None:
    bench = StreamBench()
    bench.feed(publish_frame(3, simple(1, b"a"), sub_batch(2, 4, 0, b"abc"), simple(7, b"")))
    assert errors(bench.sent()) == [(3, [(1, 18), (2, 18), (7, 18)])]
    bench.feed(publish_frame(3, filtered(1, b"v", b"a"), filtered(2, None, b""), version=2))
    assert errors(bench.sent()) == [(3, [(1, 18), (2, 18)])]
    bench.feed(publish_frame(3, *(simple(number, b"") for number in range(9000))))
    assert [len(part) for _, part in errors(bench.sent())] == [8192, 808]


def test_a_refused_publisher_publishes_nothing() -> None:
    bench = StreamBench()
    publisher = bench.publisher()
    publisher.refusal = 16
    bench.feed(publish_frame(1, simple(1, b"a")))
    assert errors(bench.sent()) == [(1, [(1, 16)])]
    assert bench.stream.next_offset == 0
    publisher.refusal = 0
    bench.feed(publish_frame(1, simple(1, b"a")))
    assert bench.stream.next_offset == 1


def test_a_closed_publisher_is_not_confirmed() -> None:
    bench = StreamBench()
    publisher = bench.publisher()
    bench.feed(publish_frame(1, simple(1, b"a")))
    publisher.close()
    bench.sync()
    assert bench.sent() == []


def test_an_empty_publish_is_nothing() -> None:
    bench = StreamBench()
    bench.publisher()
    assert bench.feed(publish_frame(1)) == []
    bench.sync()
    assert bench.sent() == []


@pytest.mark.parametrize(
    ("content", "version"),
    [
        (b"\x01", 1),
        (b"\x01\x00\x00\x00", 1),
        (struct.pack(">BI", 1, 1), 1),
        (struct.pack(">BI", 1, 2) + simple(1, b"a"), 1),
        (struct.pack(">BI", 1, 1) + simple(1, b"a") + b"x", 1),
        (struct.pack(">BI", 1, 0) + b"x", 1),
        (struct.pack(">BI", 1, 0xFFFFFFFF) + simple(1, b"a"), 1),
        (struct.pack(">BIQI", 1, 1, 1, 5) + b"four", 1),
        (struct.pack(">BIQI", 1, 1, 1, 0x7FFFFFFF) + b"four", 1),
        (struct.pack(">BI", 1, 1) + sub_batch(1, 0, 0, b"none"), 1),
        (struct.pack(">BI", 1, 1) + sub_batch(1, 1, 0, b"cut")[:-1], 1),
        (struct.pack(">BI", 1, 1) + sub_batch(1, 1, 0, b"")[:-3], 1),
        (struct.pack(">BI", 1, 1) + simple(1, b"a"), 2),
        (struct.pack(">BIQH", 1, 1, 1, 300) + b"v" * 300 + b"\x00\x00\x00\x00", 2),
        (struct.pack(">BIQH", 1, 1, 1, 0x8000) + b"v" * 300 + b"\x00\x00\x00\x00", 2),
        (struct.pack(">BIQH", 1, 1, 1, 4) + b"valu", 2),
    ],
)
def test_a_malformed_publish_is_refused_as_a_whole(content: bytes, version: int) -> None:
    bench = StreamBench()
    bench.publisher()
    with pytest.raises(HardError, match="malformed stream frame"):
        bench.feed(frame(2, content, version))
    assert bench.stream.next_offset == 0
    # The frame is behind us: what follows is read.
    assert bench.feed(publish_frame(1, simple(1, b"good"))) == []
    assert bench.stream.next_offset == 1
