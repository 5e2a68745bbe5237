"""What a stream must have, kept beside the real one: every message, what is tracked, and what of it was safe when.

Random appends, batches, rolls, checkpoints and retention on real files; then a loss of power that leaves any subset of
the pages written since the last sync, or a flipped bit. Recovery is judged by what a reader finds."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NamedTuple

from pytest import MonkeyPatch

from leveret.storage.stream import files as stream_files
from leveret.storage.stream import recovery
from tests.unit.storage.stream_bench import ENTRY, HEAD_BYTES, PAGE_BYTES, Message, Record, StreamBench, records_in

SIZES = (0, 1, 7, 40, 300, 300, 1000, 5000, 20_000)
# Larger than a block of the index, and than some of these segments.
LARGE = 70_000
VALUES = (None, None, b"red", b"green", b"blue")
PRODUCERS = (None, None, b"anna", b"bert", b"c" * 255)
CONSUMERS = (b"one", b"two")


# How recovery changes files.
CHANGES = (
    (recovery, "cut_file"),
    (recovery, "remove_files"),
    (stream_files, "replace_file"),
)


class Interrupted(Exception):
    """The broker was killed while it started."""


class Kept(NamedTuple):
    """A message with its producer's id, as the model has it."""

    message: Message
    producer: bytes | None
    publishing_id: int


@dataclass
class Known:
    """What was there at one moment."""

    count: int = 0
    consumers: dict[bytes, int] = field(default_factory=dict)


def properties_of(flags: int, dice: Random) -> bytes:
    """What the broker itself could have written there: others are damage."""
    if flags == 0:
        return dice.choice([b"\x00\x00", b"\x00\x80\x1b" + dice.randbytes(27)])
    return b"" if flags == 1 else dice.randbytes(5)


class StreamModel:
    def __init__(self, root: Path, dice: Random) -> None:
        self.dice = dice
        self.bench = StreamBench(root, dice.choice([4096, 4096, 20_000, 150_000]))
        # All that was ever appended and counts, whether retention has deleted it or not.
        self.kept: list[Kept] = []
        self.ids: dict[bytes, int] = {}
        self.consumers: dict[bytes, int] = {}
        self.next_offset = 0
        # As of the last sync.
        self.safe = Known()
        # The values that a consumer had since then.
        self.stored: dict[bytes, list[int]] = {}
        self.deleted_below = 0
        # Offsets of messages that were damaged and stay so.
        self.lost: set[int] = set()

    # ---- steps

    def append(self) -> None:
        dice = self.dice
        for _ in range(dice.randint(1, 8)):
            producer = dice.choice(PRODUCERS)
            publishing_id = -1
            if producer is not None:
                publishing_id = max(0, self.ids.get(producer, -1) + dice.choice([0, 1, 1, 1, 5]))
                new = publishing_id > self.ids.get(producer, -1)
                assert self.bench.log.take_id(producer, publishing_id) == new
                if not new:
                    continue
                self.ids[producer] = publishing_id
            size = LARGE if dice.random() < 0.02 else dice.choice(SIZES)
            body = ((b"%d.\0\xff" % len(self.kept)) * (size // 3 + 1))[:size]
            count, flags = dice.choice([(1, 0), (1, 0), (1, 1), (3, 2)])
            value = dice.choice(VALUES)
            self.bench.now += dice.choice([0, 0, 1, 500, -300])
            properties = properties_of(flags, dice)
            offset = self.bench.append(body, value, count, flags, properties)
            assert offset == self.next_offset, "offsets are given without a hole"
            stamp = self.bench.log.last_stamp
            self.kept.append(
                Kept(Message(offset, count, flags, stamp, properties, body, value), producer, publishing_id)
            )
            self.next_offset += count

    def store_offset(self) -> None:
        consumer = self.dice.choice(CONSUMERS)
        offset = self.dice.randrange(self.next_offset + 1)
        self.bench.log.store_offset(consumer, offset)
        self.consumers[consumer] = offset
        self.stored.setdefault(consumer, []).append(offset)

    def commit(self) -> None:
        if self.bench.log.next_offset > self.bench.log.committed_offset or self.dice.random() < 0.5:
            self.bench.commit()
            self.synced()
        else:
            # Only something tracked, or nothing: written, but not synced.
            self.bench.commit(sync=False)

    def evidence(self) -> None:
        """Some time after a batch the log says that it was synced: from then on damage is told from a torn end."""
        self.bench.commit()
        self.bench.commit(evidence=True)
        self.synced()

    def synced(self) -> None:
        self.safe = Known(len(self.kept), dict(self.consumers))
        self.stored = {}
        assert self.bench.log.committed_offset == self.next_offset

    def checkpoint(self) -> None:
        self.bench.commit()
        self.synced()
        self.bench.checkpoint()

    def retain(self) -> None:
        self.bench.commit()
        self.synced()
        log = self.bench.log
        segments = list(log.segments)
        limit = self.dice.randrange(1, log.size_bytes() + 2)
        self.bench.retain(limit)
        gone = segments[: len(segments) - len(log.segments)]
        assert log.segments == segments[len(gone) :], "the oldest go first"
        assert log.size_bytes() <= limit or len(log.segments) <= 1
        assert not gone or log.size_bytes() + gone[-1].end > limit, "no more than needed"
        self.deleted_below = log.first_offset()
        assert all(not segment.path.exists() for segment in gone)

    def restart(self) -> None:
        """A stop in good order."""
        self.bench.stop_cleanly()
        self.synced()
        self.bench.open()
        assert self.lost or not self.bench.report.found
        self.judge(len(self.kept), exact=True)

    # ---- crashes

    def kill(self) -> None:
        """All that was written is there, whether synced or not."""
        if self.dice.random() < 0.7:
            self.append()
            self.bench.write()
        self.bench.die()
        self.spoil_indexes()
        self.bench.open()
        self.after_a_crash()

    def lose_power(self) -> None:
        """Of what was not synced any page may be lost, and so may the end of a file, or all of a new one."""
        if self.dice.random() < 0.8:
            for _ in range(self.dice.randint(1, 4)):
                self.append()
            self.bench.write()
        self.bench.die()
        durable = self.bench.durable
        for path in self.bench.files():
            tear(path, durable.get(path, b""), self.dice)
        # File systems keep the order in which names came.
        new = [path for path in self.bench.files() if path not in durable]
        for path in new[self.dice.randint(0, len(new)) :] if self.dice.random() < 0.3 else []:
            path.unlink()
        self.spoil_indexes()
        for _ in range(self.dice.choice([0, 0, 1, 3])):
            self.interrupt(self.dice.randrange(6))
        self.bench.open()
        self.after_a_crash()

    def interrupt(self, count: int) -> None:
        """A start that ends after so many changes of files, before or after the last of them."""
        left = count

        def interrupted(change: Callable[..., None]) -> Callable[..., None]:
            def changed(*arguments: object) -> None:
                nonlocal left
                left -= 1
                if left >= 0 or self.dice.random() < 0.5:
                    change(*arguments)
                if left < 0:
                    raise Interrupted

            return changed

        with MonkeyPatch.context() as patch, suppress(Interrupted):
            for module, name in CHANGES:
                patch.setattr(module, name, interrupted(getattr(module, name)))
            self.bench.open()
            self.bench.die()

    def spoil_indexes(self) -> None:
        """An index may be lost or damaged: the segment tells all the same."""
        for path in self.bench.indexes():
            fate = self.dice.random()
            if fate < 0.1:
                path.unlink()
            elif fate < 0.2:
                flip(path, self.dice, 0, path.stat().st_size)
            elif fate < 0.25:
                os.truncate(path, self.dice.randrange(path.stat().st_size))

    def after_a_crash(self) -> None:
        # What is damaged is told again by a start that has lost the index.
        assert self.lost or not self.bench.report.found, f"a torn end is no damage: {self.bench.report.found}"
        log = self.bench.log
        count = next((i for i, kept in enumerate(self.kept) if kept.message.offset >= log.next_offset), len(self.kept))
        assert count >= self.safe.count, f"synced up to {self.safe.count}, found {count}"
        end = self.kept[count - 1].message if count else None
        assert log.next_offset == (end.offset + end.count if end else 0), "no message in two parts"
        self.judge(count)

    def judge(self, count: int, exact: bool = False) -> None:
        """The stream has the first so many messages, and what belongs to them, and goes on from there."""
        log = self.bench.log
        del self.kept[count:]
        self.next_offset = log.next_offset
        assert log.committed_offset == log.next_offset
        assert log.first_offset() == self.deleted_below, "the first offset is exact"
        expected = self.expected()
        found = self.bench.read_all()
        assert [one.offset for one in found] == [one.offset for one in expected]
        assert found == expected
        self.ids = {}
        for kept in self.kept:
            if kept.producer is not None:
                self.ids[kept.producer] = kept.publishing_id
        assert log.tracking.producers == self.ids, "a message and its producer's id are there together"
        for consumer in CONSUMERS:
            allowed = [self.safe.consumers.get(consumer, -1), *self.stored.get(consumer, [])]
            assert log.tracking.consumers.get(consumer, -1) in (allowed[-1:] if exact else allowed)
        self.consumers = dict(log.tracking.consumers)
        self.synced()

    def expected(self) -> list[Message]:
        """What a reader of all finds."""
        messages = [kept.message for kept in self.kept if kept.message.offset >= self.deleted_below]
        return [message for message in messages if message.offset not in self.lost]

    # ---- damage

    def damage(self) -> None:
        """One bit of what is synced flips: all but the message in which it is are there, and somebody says so."""
        self.evidence()
        self.bench.checkpoint() if self.dice.random() < 0.3 else None
        bench = self.bench
        before = {
            path: (path.read_bytes(), segment.end)
            for path, segment in zip(bench.files(), bench.log.segments, strict=True)
        }
        bench.die()
        if not before:
            bench.open()
            return
        path = self.dice.choice(list(before))
        data, end = before[path]
        place = flip(path, self.dice, HEAD_BYTES, end)
        record = next(record for record in records_in(data, end) if record.place <= place < record.end)
        if record.sequence in self.lost and record.kind == ENTRY:
            path.write_bytes(data)
            bench.open()
            return
        bench.open()
        told = len(bench.report.found)
        found = bench.read_all()
        told += bench.streams._loader.damaged_total  # type: ignore[union-attr]
        self.judge_damage(record, place, told, found)
        # Not in a head: this model must find its way through the file later on.
        in_content = record.kind == ENTRY and record.place + 40 <= place < record.place + record.length
        if in_content and self.dice.random() < 0.7:
            self.lost.add(record.sequence)
            self.judge(len(self.kept))
            return
        path.write_bytes(data)
        for index in bench.indexes():
            index.unlink()
        bench.restart()
        # What recovery did about it is undone, so all is as before.
        self.judge(len(self.kept))

    def judge_damage(self, record: Record, place: int, told: int, found: list[Message]) -> None:
        log = self.bench.log
        expected = self.expected()
        in_padding = place >= record.place + record.length
        assert log.next_offset == self.next_offset, "offsets are never given again"
        assert self.deleted_below <= log.first_offset()
        if in_padding:
            assert found == expected and (told == 0 or self.lost)
        elif record.kind == ENTRY:
            assert found == [one for one in expected if one.offset != record.sequence]
            assert told > 0, "damage is told"
        else:
            assert found == expected
            # A record of what is tracked may be covered by an index or by one that follows.
            assert told > 0 or dict(log.tracking.producers) == self.ids


def flip(path: Path, dice: Random, start: int, end: int) -> int:
    """Flips a bit of a file; where."""
    data = bytearray(path.read_bytes())
    place = dice.randrange(start, end)
    data[place] ^= 1 << dice.randrange(8)
    path.write_bytes(data)
    return place


def tear(path: Path, safe: bytes, dice: Random) -> None:
    """The file as a loss of power may leave it, if this is what was safe of it."""
    written = path.read_bytes()
    kept = bytearray(written)
    everything, nothing = dice.random() < 0.2, dice.random() < 0.2
    for at in range(0, len(written), PAGE_BYTES):
        old = safe[at : at + PAGE_BYTES].ljust(len(written[at : at + PAGE_BYTES]), b"\0")
        if written[at : at + PAGE_BYTES] != old and not everything and (nothing or dice.random() < 0.5):
            kept[at : at + PAGE_BYTES] = old
    size = len(kept) if everything or dice.random() < 0.5 else dice.randint(min(len(safe), len(kept)), len(kept))
    path.write_bytes(kept[:size])
