"""Loads, compaction and readers of streams, fed with records whose insides dice have changed and whose checksums are
right.

Compiled, a mistake here may pass unseen: `make fuzz-asan` runs this under sanitizers, for longer."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest

from leveret.core.log.compaction import Compaction
from leveret.core.log.rebuild import Rebuild
from leveret.core.log.records import sealed
from leveret.storage.record_checker import RecordChecker
from tests.fuzz.stored_records import RAW, ROUNDS, SEED, SUBBATCH, entry, log_of, message, mutated
from tests.unit.core.fake_disk import HEAD_BYTES, FakeDisk, persistent
from tests.unit.core.stream.test_consumer import Reading

SALT = 77
# Those that make a stream or a disk for each take longer.
FEWER = max(ROUNDS // 10, 10)


def test_loads() -> None:
    dice = random.Random(SEED)
    for _ in range(FEWER):
        disk = FakeDisk()
        segment = disk.segments[1]
        notes = bytearray()
        for position in range(1, dice.randrange(2, 6)):
            octets = mutated(dice, message(position, body=bytes(dice.randrange(40))))
            length = struct.unpack_from(">I", octets, 4)[0]
            notes += struct.pack(">QQIIII", 1, position, len(disk.images[1]), length, 6, 1)
            disk.images[1] += log_of(segment.salt, octets)
        segment.end = segment.written = len(disk.images[1])
        rebuild = Rebuild()
        rebuild.add_notes(notes, 0, len(notes), 1, {1}, set())
        book = rebuild.books[1]
        book.finish({}, set())
        queue = disk.queue(lazy=True)
        queue.restore(book, False)
        load = queue.take_load(disk.journal)
        disk.read(load)
        for i, one in enumerate(load.messages[: load.count]):
            assert (one is None) == (i in load.lost)
            if one is not None:
                assert len(one.body) == one.body_size
                one.properties.fields()


def test_compaction() -> None:
    dice = random.Random(SEED)
    for _ in range(FEWER):
        disk = FakeDisk()
        queue_log = disk.queue_log()
        ones: list[Any] = [persistent(bytes(dice.randrange(50))) for _ in range(3)]
        for position, one in enumerate(ones, 1):
            disk.journal.keep(queue_log, one, position)
        disk.commit()
        segment = disk.segments[1]
        image = bytearray(disk.images[1])
        place = ones[1].location & 0xFFFFFFFF
        end = ones[2].location & 0xFFFFFFFF
        octets = mutated(dice, image[place:end])
        # Its length is what the index says, or nothing would be looked at.
        octets[4:8] = image[place + 4 : place + 8]
        image[place:end] = sealed(octets, segment.salt)
        index = mutated(dice, bytearray(64) + segment.copy_index())[64:]
        held = {(1, position): (one, 0) for position, one in enumerate(ones, 1)}
        compaction = Compaction(disk.journal, segment, {}, held)
        compaction.run(index, bytes(image))
        disk.commit()
        for number in disk.log_numbers()[1:]:
            assert disk.scan(number).gaps == []


@pytest.mark.parametrize("protocol", ["stream", "amqp"])
def test_readers_of_streams(protocol: str) -> None:
    dice = random.Random(SEED)
    for _ in range(FEWER):
        reading = Reading()
        reading.publish(20)
        subscription = consumer = None
        if protocol == "stream":
            subscription = reading.subscription(version=dice.choice([1, 2]))
            if dice.random() < 0.5:
                subscription.filter([b"value"], dice.random() < 0.5)
            subscription.add_credit(100)
            subscription.begin(0)
            cursor = subscription.cursor
        else:
            consumer = wanting_consumer(reading, dice)
            cursor = consumer.cursor
        hand_over(cursor, entries(dice))
        if subscription is not None:
            reading.sent()
        else:
            reading.bench.sent()


def wanting_consumer(reading: Reading, dice: random.Random) -> Any:
    """One that waits for the disk."""
    read, reading.stream_store.read = reading.stream_store.read, lambda: None  # type: ignore[method-assign]
    consumer = reading.consume(0, stamped=dice.random() < 0.5)
    reading.stream_store.read = read  # type: ignore[method-assign]
    return consumer


def entries(dice: random.Random) -> bytes:
    """Some entries of a stream, one of them changed; compressed ones are whole."""
    records = []
    for offset in range(dice.randrange(2, 6)):
        flags = dice.choice([0, 0, RAW, SUBBATCH])
        body = struct.pack(">I", 3) + b"abc" if flags == SUBBATCH else bytes(dice.randrange(400))
        records.append(entry(offset, flags, body, value=dice.choice([b"", b"value"])))
    changed = dice.randrange(len(records))
    records[changed] = mutated(dice, records[changed])
    return log_of(SALT, *records)


def hand_over(cursor: Any, data: bytes) -> None:
    """As the loader does: what its thread finds good."""
    assert cursor.next_read() is None
    cursor.found(cursor.log.segments[0], HEAD_BYTES)
    window = bytearray(8) + data
    RecordChecker().check(window, 8, len(data), SALT)
    end = struct.unpack_from(">Q", window)[0]
    if end > 8:
        cursor.loaded(window, 8, end)
