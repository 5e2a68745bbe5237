"""Sub-batches that a few octets make large: taken apart as they are read, a bounded part in each turn, once for all who
read them."""

from __future__ import annotations

import gzip
import struct
from typing import Any

import pytest

from leveret.core.stream import entries
from leveret.core.stream.entries import EXPANDED_BYTES_MAX, MESSAGE_BYTES, PART_BYTES_MAX, WINDOW_BYTES, Expansion
from leveret.core.stream.expanding import STEPS_A_TURN, STEPS_AT_A_TIME, expansions_of
from tests.unit.core.stream.test_consumer import Reading
from tests.unit.core.stream_client_bench import filtered, publish_frame, simple, sub_batch

ALL = 65535
PRECONDITION_FAILED = 17


def batch_of(parts: list[bytes], compressed: bool = True, count: int | None = None, publishing_id: int = 1) -> bytes:
    octets = b"".join(struct.pack(">I", len(part)) + part for part in parts)
    stored = gzip.compress(octets) if compressed else octets
    return sub_batch(publishing_id, len(parts) if count is None else count, int(compressed), stored, len(octets))


def with_batch(*batches: bytes, segment_bytes: int = 1 << 26) -> Reading:
    reading = Reading(segment_bytes)
    reading.connection.frame_max = 1 << 26
    reading.publisher()
    for batch in batches:
        reading.feed(publish_frame(1, batch))
        reading.sync()
    return reading


def turn(reading: Reading) -> bool:
    """What the dead-letter worker does in a turn: whether there was something to go on with."""
    workers = reading.office.take_unfinished()
    for worker in workers:
        worker.go_on()
    return bool(workers)


def all_of(reading: Reading) -> list[int]:
    """Everything that comes, turn by turn, with all of it acknowledged; none brings more than a turn may."""
    found: list[int] = []
    while True:
        before = expansions_of(reading.office).steps_total
        went_on = turn(reading)
        assert expansions_of(reading.office).steps_total - before <= STEPS_A_TURN
        came = reading.came()
        found += came
        if came:
            reading.channel.settle(0, True, 0, 0)
            reading.stream_store.read()
            found += reading.came()
        elif not went_on:
            return found


@pytest.mark.parametrize("compressed", [True, False])
def test_a_sub_batch_is_delivered_turn_by_turn(compressed: bool) -> None:
    count = 5000
    reading = with_batch(batch_of([b"x" * 20] * count, compressed))
    reading.consume(0, prefetch=60000)
    first = reading.came()
    assert first == list(range(len(first))) and 0 < len(first) <= STEPS_AT_A_TIME
    assert first + all_of(reading) == list(range(count))


def test_a_message_behind_it_comes_when_it_is_done() -> None:
    reading = with_batch(batch_of([b"a", b"b"]), simple(2, b"\x00\x53\x75\xa0\x01c"))
    reading.consume(0)
    assert [sent.body for sent in reading.bench.sent()] == [b"a", b"b", b"c"]


def test_what_is_kept_of_it_is_a_window() -> None:
    """The largest that there can be: 4 KB that were 95 MB in memory for each consumer."""
    reading = with_batch(batch_of([b""] * ALL))
    consumer = reading.consume(0, prefetch=60000)
    for _ in range(40):
        turn(reading)
        reading.bench.sent()
    [shared] = expansions_of(reading.office)._shared.values()
    assert len(shared._made) <= WINDOW_BYTES // MESSAGE_BYTES
    assert consumer.delivered_total > 1000


def test_readers_share_what_is_taken_apart() -> None:
    reading = with_batch(batch_of([b"x" * 50] * 100))
    for _ in range(10):
        reading.consume(0)
    assert sorted(reading.came() + all_of(reading)) == sorted(list(range(100)) * 10)
    assert expansions_of(reading.office).expanded_total == 1


def test_readers_have_their_turns_one_after_the_other() -> None:
    reading = with_batch(batch_of([b"x"] * 4000))
    consumers = [reading.consume(0, prefetch=60000) for _ in range(20)]
    for _ in range(10):
        turn(reading)
        reading.bench.sent()
    sent = [consumer.delivered_total for consumer in consumers]
    assert min(sent) > 0 and max(sent) - min(sent) <= 2 * STEPS_AT_A_TIME


def test_a_reader_far_behind_the_others_gets_the_same() -> None:
    count = 3000
    reading = with_batch(batch_of([b"%d" % number for number in range(count)]))
    slow = reading.consume(0, prefetch=1)
    assert reading.came() == [0]
    reading.consume(0, prefetch=60000)
    while turn(reading) or reading.bench.sent():
        reading.bench.sent()
    found, tag = [], 1
    for _ in range(9):
        reading.ack(tag)
        turn(reading)
        [sent] = reading.bench.sent()
        found.append(int(sent.body))
        tag = sent.fields["delivery_tag"]
    assert found == list(range(1, 10))
    assert slow.delivered_total == 10


def test_a_consumer_that_stopped_takes_nothing_more_apart() -> None:
    reading = with_batch(batch_of([b"x"] * 4000))
    consumer = reading.consume(0, prefetch=60000)
    reading.stream.unsubscribe(consumer)
    steps = expansions_of(reading.office).steps_total
    while turn(reading):
        pass
    assert expansions_of(reading.office).steps_total == steps


def test_it_ends_at_the_offset_that_was_asked_for() -> None:
    reading = with_batch(batch_of([b"x"] * 100))
    consumer = reading.consume(10, stop_offset=20)
    assert reading.came() + all_of(reading) == list(range(10, 20))
    assert consumer.ended


# ---- what cannot be taken apart


def entry_of(stored: bytes, count: int, size: int, codec: int = 1) -> bytearray:
    head = struct.pack(">IIQBBHIIIQ", 0, 0, 7, 6, 2, 3, count, 5, len(stored), 1000)
    return bytearray(head + b"\x00\x01s" + bytes([codec]) + struct.pack(">I", size) + stored)


def bodies(data: bytearray) -> list[bytes]:
    return [found[1].body for found in Expansion(data, 0).messages(0) if found is not None]


PARTS = b"".join(struct.pack(">I", 1) + b"%d" % number for number in range(5))
# Without the time, so that the names of tests are the same in each process.
STORED = gzip.compress(PARTS, mtime=0)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (entry_of(STORED, 5, 25), [b"0", b"1", b"2", b"3", b"4"]),
        (entry_of(STORED, 3, 25), [b"0", b"1", b"2"]),
        (entry_of(STORED, 9, 25), [b"0", b"1", b"2", b"3", b"4"]),
        # It becomes more than it says.
        (entry_of(STORED, 5, 12), [b"0", b"1"]),
        (entry_of(STORED[:-12], 5, 25, 1), None),
        (entry_of(STORED, 5, EXPANDED_BYTES_MAX + 1), [STORED]),
        (entry_of(STORED, 5, 1032 * (len(STORED) + 32) + 1), [STORED]),
        (entry_of(b"not gzip", 5, 25), [b"not gzip"]),
        (entry_of(STORED, 5, 25, 4), [STORED]),
        (entry_of(struct.pack(">I", PART_BYTES_MAX + 1), 1, 4, 0), [struct.pack(">I", PART_BYTES_MAX + 1)]),
        (entry_of(PARTS[:-1], 5, 25, 0), [b"0", b"1", b"2", b"3"]),
    ],
)
def test_lies_and_damage(data: bytearray, expected: list[bytes] | None) -> None:
    found = bodies(data)
    assert found == expected if expected is not None else len(found) <= 5


def test_a_long_message_is_decompressed_in_steps() -> None:
    part = bytes(PART_BYTES_MAX)
    octets = struct.pack(">I", len(part)) + part
    expansion = Expansion(entry_of(gzip.compress(octets), 1, len(octets)), 0)
    steps = 0
    while (message := expansion.fetch(0)) is None:
        steps += 1
        assert not expansion.over
    assert message.body_size == PART_BYTES_MAX
    assert steps >= PART_BYTES_MAX // entries.STEP_BYTES


@pytest.mark.parametrize(
    ("batch", "taken"),
    [
        (sub_batch(1, 5, 1, STORED, 25), True),
        (sub_batch(1, 5, 1, STORED, EXPANDED_BYTES_MAX + 1), False),
        (sub_batch(1, 5, 4, STORED, EXPANDED_BYTES_MAX + 1), False),
        (sub_batch(1, 5, 1, STORED, 1032 * (len(STORED) + 32)), True),
        (sub_batch(1, 5, 1, STORED, 1032 * (len(STORED) + 32) + 1), False),
        # Others may grow by more.
        (sub_batch(1, 5, 4, STORED, 1 << 20), True),
    ],
)
def test_a_publisher_cannot_announce_more(batch: bytes, taken: bool) -> None:
    reading = Reading()
    publisher: Any = reading.publisher()
    reading.feed(publish_frame(1, simple(7, b"x"), batch))
    reading.sync()
    answers = reading.sent()
    assert [int.from_bytes(each[:2], "big") for each in answers] == [3] if taken else [4, 3]
    assert reading.stream.next_offset == (6 if taken else 1)
    if not taken:
        assert answers[0][8:] == struct.pack(">IQH", 1, 1, PRECONDITION_FAILED)[3:]
        assert publisher.refused_total == 1


@pytest.mark.parametrize("version", [1, 2])
def test_one_that_is_refused_takes_no_neighbour_along(version: int) -> None:
    reading = Reading()
    publisher: Any = reading.publisher(1, b"me")
    announced = EXPANDED_BYTES_MAX + 1
    if version == 2:
        batch = sub_batch(3, 5, 1, STORED, announced)
        # A filter value stands between id and content.
        batch = batch[:8] + struct.pack(">H", 5) + b"value" + batch[8:]
        entries = [filtered(2, b"v", b"before"), batch, filtered(4, None, b"after")]
    else:
        entries = [simple(2, b"before"), sub_batch(3, 5, 1, STORED, announced), simple(4, b"after")]
    reading.feed(publish_frame(1, *entries, version=version))
    reading.sync()
    refused, confirmed = reading.sent()
    assert refused[4:] == struct.pack(">BIQH", 1, 1, 3, PRECONDITION_FAILED)
    assert confirmed[4:] == struct.pack(">BIQQ", 1, 2, 2, 4)
    assert (reading.stream.next_offset, publisher.refused_total, publisher.published_total) == (2, 1, 2)
    # Once more: the neighbours are known by now, and it is no better than it was.
    reading.feed(publish_frame(1, *entries, version=version))
    reading.sync()
    assert [each[4:] for each in reading.sent()] == [refused[4:], confirmed[4:]]
    assert reading.stream.next_offset == 2


def test_one_that_cannot_be_taken_apart_takes_no_neighbour_along() -> None:
    reading = Reading()
    reading.publisher()
    damaged = sub_batch(2, 5, 1, b"not gzip", 25)
    reading.feed(publish_frame(1, simple(1, b"before"), damaged, sub_batch(3, 5, 1, STORED, 25), simple(4, b"after")))
    reading.sync()
    reading.consume(0, prefetch=100)
    # The damaged one is one message, at the first of its five offsets.
    assert reading.came() + all_of(reading) == [0, 1, 6, 7, 8, 9, 10, 11]
