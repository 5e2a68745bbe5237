"""Readers of a stream against a model: many at random places, with and without filters, while the stream grows, rolls
and retention deletes: each sees every message that it wants from its start on, once and in order; it jumps only where
retention deleted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from leveret.core.stream.segment import make_bloom
from tests.conftest import PURE
from tests.fuzz.effort import scaled
from tests.unit.storage.stream_bench import Message, Reader, StreamBench

VALUES = (None, b"red", b"green", b"blue")
SIZES = (0, 10, 400, 400, 3000, 20_000)


class Wanting:
    """A reader with what it wants, and where it must go on."""

    def __init__(self, bench: StreamBench, dice: Random, number: int) -> None:
        self.number = number
        self.bench = bench
        self.values: set[bytes] | None = None
        self.unfiltered = False
        self.expected = dice.randint(0, bench.log.next_offset + 3)
        if dice.random() < 0.5:
            self.values = set(dice.sample([b"red", b"green", b"blue"], dice.randint(1, 2)))
            self.unfiltered = dice.random() < 0.3
        self.expected = max(self.expected, bench.log.first_offset())
        self.reader = Reader(bench, self.expected, credit=0)
        if self.values is not None:
            self.reader.cursor.blooms = [make_bloom(value) for value in sorted(self.values)]
            self.reader.cursor.unfiltered = self.unfiltered
        self.checked = 0

    def wants(self, message: Message) -> bool:
        if self.values is None:
            return True
        return self.unfiltered if message.filter_value is None else message.filter_value in self.values

    def judge(self, history: list[Message], deleted_below: int) -> None:
        """All that came is what should have come, in order; what it did not get was deleted before it could."""
        for message in self.reader.got[self.checked :]:
            if self.wants(message):
                assert message == history[message.offset], "a message is what was appended"
                assert message.offset >= self.expected, "nothing twice, nothing reordered"
                skipped = [one for one in history[self.expected : message.offset] if self.wants(one)]
                assert all(one.offset < deleted_below for one in skipped), (
                    f"reader {self.number} jumps from {self.expected} to {message.offset}, {deleted_below=}"
                )
                self.expected = message.offset + 1
        self.checked = len(self.reader.got)

    def finish(self, history: list[Message], deleted_below: int) -> None:
        self.judge(history, deleted_below)
        missing = [one.offset for one in history[self.expected :] if self.wants(one) and one.offset >= deleted_below]
        assert not missing, f"reader {self.number} never got {missing}"


class Race:
    def __init__(self, root: Path, dice: Random) -> None:
        self.dice = dice
        self.bench = StreamBench(root, dice.choice([4096, 30_000, 200_000]))
        self.history: list[Message] = []
        self.readers: list[Wanting] = []
        self.deleted_below = 0

    def append(self) -> None:
        dice, bench = self.dice, self.bench
        # Values come in stretches, so that whole blocks and segments have none that somebody wants.
        values = [dice.choice(VALUES)] if dice.random() < 0.5 else VALUES
        for _ in range(dice.randint(1, 12)):
            value = dice.choice(values)
            body = b"%d" % len(self.history) * (dice.choice(SIZES) // 2)
            offset = bench.append(body, value)
            self.history.append(Message(offset, 1, 0, bench.log.last_stamp, b"\x00\x00", body, value))

    def commit(self) -> None:
        self.bench.commit()
        self.judge()

    def attach(self) -> None:
        if len(self.readers) < 12:
            self.readers.append(Wanting(self.bench, self.dice, len(self.readers)))

    def read(self) -> None:
        for one in self.readers:
            if self.dice.random() < 0.5:
                one.reader.give(self.dice.choice([1, 2, 10, 100]))
        self.judge()

    def turn(self) -> None:
        """The loop goes on for a moment: the disk has read something, or not yet."""
        self.bench.loop.run_until_complete(asyncio.sleep(self.dice.choice([0, 0, 0.001])))
        self.judge()

    def retain(self) -> None:
        self.bench.commit()
        self.bench.retain(self.dice.randint(1, self.bench.log.size_bytes() + 1))
        self.deleted_below = self.bench.log.first_offset()
        self.judge()

    def detach(self) -> None:
        if self.readers and self.dice.random() < 0.3:
            one = self.readers.pop(self.dice.randrange(len(self.readers)))
            one.judge(self.history, self.deleted_below)
            one.reader.cursor.close()

    def judge(self) -> None:
        committed = self.bench.log.committed_offset
        for one in self.readers:
            one.judge(self.history, self.deleted_below)
            assert all(message.offset < committed for message in one.reader.got[-1:]), "only what is safe is seen"

    def finish(self) -> None:
        self.bench.commit()
        for one in self.readers:
            one.reader.give(10**9)
        self.bench.wait(lambda: all(one.reader.cursor.waiting for one in self.readers), "all readers at the tail")
        for one in self.readers:
            one.finish(self.history, self.deleted_below)
        # A message for those at the tail: all come for it.
        self.append()
        self.bench.commit()
        self.bench.wait(lambda: all(one.reader.cursor.offset == len(self.history) for one in self.readers), "the last")
        for one in self.readers:
            one.finish(self.history, self.deleted_below)
        assert not self.bench.failures


STEPS = {"append": 20, "commit": 15, "attach": 6, "read": 25, "turn": 25, "retain": 2, "detach": 2}


@pytest.mark.parametrize("seed", range(scaled(8 if PURE else 16)))
def test_every_reader_sees_everything_in_order(tmp_path: Path, seed: int) -> None:
    dice = Random(seed)
    race = Race(tmp_path, dice)
    try:
        for step in ["append", "commit", "attach", *dice.choices(list(STEPS), list(STEPS.values()), k=150)]:
            getattr(race, step)()
        race.finish()
    except AssertionError as error:
        error.add_note(f"seed {seed}")
        raise
    finally:
        race.bench.close()
