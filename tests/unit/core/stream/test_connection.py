"""A stream client's octets in: frames cut out of chunks, commands handed up, and what is refused."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from leveret.errors import HardError
from tests.unit.core.stream_client_bench import StreamBench, frame, publish_frame, simple


def test_commands_are_handed_up_one_by_one() -> None:
    bench = StreamBench()
    data = bytearray(frame(17, b"one") + frame(23, b""))
    assert bench.connection.feed(data, len(data)) == b"\x00\x11\x00\x01one"
    assert bench.connection.proceed() == b"\x00\x17\x00\x01"
    assert bench.connection.proceed() is None
    assert (bench.connection.frames_received, bench.connection.bytes_received) == (2, len(data))


def test_any_split_of_the_octets_gives_the_same() -> None:
    octets = (
        frame(17, b"x" * 50)
        + publish_frame(1, simple(1, b"one"), simple(2, b"y" * 700))
        + frame(23, b"")
        + publish_frame(1, simple(3, b""))
        + frame(22, b"bye")
    )
    dice = random.Random(7)
    expected = None
    for sizes in ([len(octets)], [1] * len(octets), *([dice.randint(1, 40) for _ in octets] for _ in range(20))):
        bench = StreamBench()
        publisher = bench.publisher()
        events, at = [], 0
        for size in sizes:
            events += bench.feed(octets[at : at + size])
            at += size
        assert publisher.published_total == 3
        expected = expected or events
        assert events == expected


def test_a_frame_above_the_limit_is_refused_before_anything_is_kept() -> None:
    bench = StreamBench(frame_max=1000)
    assert bench.feed(frame(17, b"x" * 996)) != []
    tracemalloc.start()
    with pytest.raises(HardError, match="2147483647 bytes is larger than the limit of 1000"):
        bench.feed(b"\x7f\xff\xff\xff\x00\x11")
    assert tracemalloc.get_traced_memory()[1] < 100_000
    tracemalloc.stop()


def test_a_frame_that_is_announced_takes_no_more_memory_than_what_has_come() -> None:
    bench = StreamBench(frame_max=1 << 26)
    tracemalloc.start()
    assert bench.feed((1 << 26).to_bytes(4, "big") + b"\x00\x11") == []
    assert bench.feed(bytes(100_000)) == []
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


def test_what_has_come_of_a_frame_is_counted_until_it_is_complete() -> None:
    bench = StreamBench(frame_max=1 << 20)
    octets = frame(17, b"x" * 100_000)
    bench.feed(octets[:10])
    assert bench.budget.held == 10
    bench.feed(octets[10:60_000])
    assert bench.budget.held == 60_000
    assert bench.feed(octets[60_000:] + octets[:500]) == [octets[4:]]
    assert bench.budget.held == 500
    assert bench.feed(octets[500:]) == [octets[4:]]
    assert bench.budget.held == 0
    bench.feed(octets[:700])
    bench.connection.stop()
    assert bench.budget.held == 0


def test_a_budget_that_is_spent_ends_the_connection_that_grows() -> None:
    bench = StreamBench(frame_max=1 << 20)

    def refuse(account: object) -> None:
        raise HardError(506, "too much")

    bench.budget.held_max = 1000
    bench.budget.guardian = refuse
    octets = frame(17, b"x" * 100_000)
    bench.feed(octets[:1000])
    with pytest.raises(HardError, match="too much"):
        bench.feed(octets[1000:1500])
    bench.connection.stop()
    assert bench.budget.held == 0


def test_the_limit_holds_for_a_size_that_comes_in_pieces() -> None:
    bench = StreamBench(frame_max=1000)
    assert bench.feed(b"\x00\x00") == []
    with pytest.raises(HardError, match="larger than the limit"):
        bench.feed(b"\xff\xff")


@pytest.mark.parametrize("size", range(4))
def test_a_frame_without_room_for_a_command_is_refused(size: int) -> None:
    with pytest.raises(HardError, match=f"it has {size} bytes"):
        StreamBench().feed(size.to_bytes(4, "big") + bytes(size))


def test_a_stranger_cannot_publish() -> None:
    bench = StreamBench()
    publisher = bench.publisher()
    bench.connection.opened = False
    octets = publish_frame(1, simple(1, b"x"))
    assert bench.feed(octets) == [octets[4:]]
    assert publisher.published_total == 0


def test_a_publish_is_handed_up_during_an_alarm() -> None:
    bench = StreamBench()
    publisher = bench.publisher()
    bench.connection.alarmed = True
    assert bench.feed(publish_frame(1, simple(1, b"x"))) == [b""]
    assert publisher.published_total == 1
    assert bench.connection.published


def test_the_unread_rest_can_be_put_aside() -> None:
    bench = StreamBench()
    data = bytearray(frame(17, b"one") + frame(23, b"") + b"\x00\x00")
    assert bench.connection.feed(data, len(data)) is not None
    bench.connection.detach()
    data[:] = bytes(len(data))
    assert bench.connection.proceed() == b"\x00\x17\x00\x01"
    assert bench.connection.proceed() is None
    assert bench.feed(b"\x00\x04\x00\x17\x00\x01") == [b"\x00\x17\x00\x01"]


def test_after_the_end_only_closing_counts() -> None:
    bench = StreamBench()
    publisher = bench.publisher()
    bench.connection.stop()
    octets = frame(17, b"") + publish_frame(1, simple(1, b"x")) + frame(0x8016, b"answer") + frame(22, b"close")
    assert bench.feed(octets) == [b"\x80\x16\x00\x01answer", b"\x00\x16\x00\x01close"]
    assert publisher.published_total == 0


@pytest.mark.parametrize("version", [0, 3, 65535])
def test_unknown_versions_of_publish_are_refused(version: int) -> None:
    bench = StreamBench()
    bench.publisher()
    with pytest.raises(HardError, match=f"unknown version {version}"):
        bench.feed(publish_frame(1, version=version))
