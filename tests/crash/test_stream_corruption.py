"""Bits that flip in the files of a stream: each is told or does no harm, and all but the message that it hit is there.

`LEVERET_CRASH_FLIPS` says how many, as for the log of queues."""

import os
import random
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.crash.rounds import seed_of
from tests.unit.storage.stream_bench import ENTRY, HEAD_BYTES, Message, Record, StreamBench, records_in

FLIPS: Final = int(os.environ.get("LEVERET_CRASH_FLIPS", "600")) // 10

pytestmark = [pytest.mark.timeout(600)]


@dataclass
class Specimen:
    """A stream as a stop or a kill left it, and what is in it."""

    root: Path
    messages: list[Message]
    producers: dict[bytes, int]
    consumers: dict[bytes, int]
    # Of each segment's file, up to where it is filled.
    records: dict[str, list[Record]]


def make_specimen(root: Path, killed: bool) -> Specimen:
    bench = StreamBench(root, 12_000)
    dice = random.Random(5)
    for number in range(120):
        bench.now += 1000
        if number % 3:
            assert bench.log.take_id(b"producer %d" % (number % 5), number)
        bench.append(b"%03d" % number * dice.choice([0, 5, 100, 400]), dice.choice([None, b"red", b"blue"]))
        if number % 4 == 0:
            bench.log.store_offset(b"consumer", number)
        if number % 2:
            bench.commit()
    bench.retain(40_000)
    bench.commit(evidence=True)
    messages = bench.read_all()
    ends = {segment.path.name: segment.end for segment in bench.log.segments}
    tracking = bench.log.tracking
    producers, consumers = dict(tracking.producers), dict(tracking.consumers)
    if killed:
        bench.die()
    else:
        bench.stop_cleanly()
    records = {path.name: records_in(path.read_bytes(), ends[path.name]) for path in bench.files()}
    bench.loop.close()
    assert len(records) > 2 and messages[0].offset > 0
    return Specimen(root, messages, producers, consumers, records)


@pytest.fixture(scope="module", params=["stopped", "killed"])
def specimen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Specimen:
    return make_specimen(tmp_path_factory.mktemp("specimen"), request.param == "killed")


def judge(specimen: Specimen, root: Path, path: Path, place: int) -> None:
    """Starts with the damaged file and reads everything."""
    bench = StreamBench(root)
    try:
        found = bench.read_all()
        told = len(bench.report.found) + bench.streams._loader.damaged_total  # type: ignore[union-attr]
        hit = [record for record in specimen.records.get(path.name, []) if record.place <= place < record.end]
        message = hit[0] if hit and hit[0].kind == ENTRY and place < hit[0].place + hit[0].length else None
        lost = -1 if message is None else message.sequence
        assert found == [one for one in specimen.messages if one.offset != lost]
        assert bench.log.next_offset == specimen.messages[-1].offset + 1, "no offset is given again"
        assert bench.log.first_offset() == specimen.messages[0].offset
        assert message is None or told, "a message is lost, and nobody says so"
        if dict(bench.log.tracking.producers) != specimen.producers:
            assert told, "an id is lost, and nobody says so"
        assert not bench.failures
    finally:
        bench.close()


def flipped(path: Path, place: int, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1 << bit
    path.write_bytes(data)


def test_every_flipped_bit_is_told_or_does_no_harm(specimen: Specimen, tmp_path: Path) -> None:
    seed = seed_of(0)
    dice = random.Random(seed)
    for number in range(FLIPS):
        root = tmp_path / str(number)
        shutil.copytree(specimen.root, root)
        files = [path for path in (root / "streams").rglob("*") if path.is_file()]
        path = dice.choice(files)
        end = specimen.records[path.name][-1].end if path.name in specimen.records else path.stat().st_size
        place, bit = dice.randrange(end), dice.randrange(8)
        flipped(path, place, bit)
        try:
            judge(specimen, root, path, place)
        except AssertionError as error:
            error.add_note(f"LEVERET_CRASH_SEED={seed}; bit {bit} of octet {place} in {path.name}, flip {number}")
            raise
        shutil.rmtree(root)


def test_the_head_of_a_file_is_needed_by_nobody(specimen: Specimen, tmp_path: Path) -> None:
    for path in sorted((specimen.root / "streams").rglob("*.segment")):
        root = tmp_path / path.name
        shutil.copytree(specimen.root, root)
        damaged = root / path.relative_to(specimen.root)
        damaged.write_bytes(b"\xff" * HEAD_BYTES + damaged.read_bytes()[HEAD_BYTES:])
        judge(specimen, root, damaged, 0)


def test_a_judge_that_misses_a_message_says_so(specimen: Specimen, tmp_path: Path) -> None:
    """The harness turns red: a flip that is not looked for."""
    root = tmp_path / "copy"
    shutil.copytree(specimen.root, root)
    path = sorted((root / "streams").rglob("*.segment"))[0]
    entry = next(record for record in specimen.records[path.name] if record.kind == ENTRY)
    flipped(path, entry.place + 41, 3)
    with pytest.raises(AssertionError):
        judge(specimen, root, path, 0)
