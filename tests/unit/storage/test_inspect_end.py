"""A check tells what a start would find, and changes nothing: held against recovery, for ends of all kinds."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from leveret.core.codec.message import Message
from leveret.core.queue.delays import first_at
from leveret.storage.catalog_log import CatalogLog
from leveret.storage.file_head import SEGMENT, encode_head
from leveret.storage.inspect import Inspection
from leveret.storage.inspect_report import KnownIds, Report
from leveret.storage.layout import Layout, write_format
from leveret.storage.survey import Survey
from tests.unit.core.fake_disk import persistent
from tests.unit.storage.test_recovery_batches import QUEUE, SALT, Log, two_segments


def inspected(log: Log) -> Inspection:
    if not (log.layout.root / "format").exists():
        write_format(log.layout, SALT)
        catalog = CatalogLog(log.layout, SALT)
        catalog.rewrite([b"a command"])
        catalog.close()
    return Inspection(log.layout.root, lambda _payloads, _report: KnownIds({QUEUE}, set(), QUEUE + 1))


def files_of(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def compared(log: Log) -> Report:
    """The check's report, after a dump and a start found the same."""
    inspection = inspected(log)
    before = files_of(log.layout.root)
    report = inspection.check()
    dumped = inspected(log)
    dumped.read_contents()
    bodies = [message.body for message in dumped.messages(QUEUE)]
    assert files_of(log.layout.root) == before, "nothing is changed"
    recovered, found = log.recover()
    count = recovered.books[QUEUE].count if QUEUE in recovered.books else 0
    assert (report.messages, dumped.message_count(QUEUE), len(bodies)) == (count, count, count)
    assert report.damages == found.found
    assert sum(file.live or 0 for file in report.files) == count
    again = inspected(log).check()
    assert again.messages == count and not [note for note in again.notes if "end of the log" in note]
    return report


def notes(report: Report, text: str) -> list[str]:
    return [note for note in report.notes if text in note]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "data")


def test_a_whole_log_has_no_notes(log: Log) -> None:
    log.batch(b"1", b"2")
    log.batch(b"3", sync=False)
    log.save()
    report = compared(log)
    assert (report.messages, report.notes, report.damages) == (3, [], [])


def test_an_unfinished_batch_is_no_damage_and_is_left_out(log: Log) -> None:
    log.batch(b"1", b"2")
    log.batch(b"3", b"4", b"5")
    log.without_end()
    log.save()
    report = compared(log)
    assert (report.messages, report.damages) == (2, [])
    assert report.notes == [
        f"log/0000000001.segment at {log.ends[1]}: unfinished end of the log: 3 records of a batch that is not whole; "
        "the next start cuts them off"
    ]
    (segment,) = [file for file in report.files if file.name.endswith(".segment")]
    assert (segment.records, segment.messages, segment.live, segment.damages) == (3, 2, 2, 0)


def test_an_unfinished_batch_over_two_segments(tmp_path: Path) -> None:
    log = two_segments(tmp_path)
    report = compared(log)
    assert (report.messages, report.damages, len(notes(report, "unfinished end of the log"))) == (2, [], 2)
    (dropped,) = notes(report, "drops the segment")
    assert dropped.startswith("log/0000000002.segment: ")
    assert [(file.messages, file.live) for file in report.files if file.live is not None] == [(2, 2), (0, 0)]


def test_segments_that_do_not_follow_what_was_synced(tmp_path: Path) -> None:
    """The power loss kept the end of the batch, with the record that ends it, and not its start."""
    log = Log(tmp_path / "data", segment_bytes=700)
    log.batch(b"1" * 100, b"2" * 100)
    log.provide_spares()
    log.batch(*[b"%d" % number * 100 for number in range(3, 7)])
    assert log.log_numbers() == [1, 2]
    del log.images[1][log.ends[1] :]
    log.save()
    report = compared(log)
    assert (report.messages, report.damages) == (2, [])
    (note,) = notes(report, "unfinished end of the log")
    assert note.startswith("log/0000000002.segment: ") and note.endswith("the next start drops the segment")


def test_damage_of_what_was_synced_stays_damage(log: Log) -> None:
    log.batch(b"1")
    log.batch(b"2", b"3")
    end = len(log.images[1])
    log.batch()
    log.images[1][end - 10] ^= 1
    log.save()
    report = compared(log)
    assert [damage.what for damage in report.damages] == ["records of the log are lost"]
    assert (report.messages, report.notes) == (3, [])


def test_a_segment_without_one_good_record(log: Log) -> None:
    log.batch(b"1")
    log.save()
    path = log.layout.segment(2)
    path.write_bytes(encode_head(SEGMENT, 2, SALT) + b"never a record")
    report = compared(log)
    assert report.messages == 1 and notes(report, "0000000002.segment: there is not one good record in it")
    assert (log.layout.quarantine / path.name).exists(), "the start kept a copy"


def three_segments(root: Path) -> Log:
    """Whole batches, and one that goes over three segments."""
    log = Log(root, segment_bytes=500)
    log.batch(b"1" * 60)
    log.batch(b"2" * 60, sync=False)
    for bodies in ([b"3" * 150] * 3, [b"4" * 150] * 3, [b"5" * 20] * 2, [b"6" * 20] * 2):
        log.provide_spares()
        log.batch(*bodies)
    assert len(log.log_numbers()) >= 3
    return log


def cut_tail(log: Log, rng: random.Random) -> None:
    number = rng.choice(log.log_numbers())
    del log.images[number][rng.randrange(64, len(log.images[number]) + 1) :]


def blank(log: Log, rng: random.Random) -> None:
    """A page that never reached the disk."""
    image = log.images[rng.choice(log.log_numbers())]
    at = rng.randrange(64, len(image)) & ~7
    image[at : at + 64] = bytes(len(image[at : at + 64]))


def cut_last(log: Log, rng: random.Random) -> None:
    number = log.log_numbers()[-1]
    del log.images[number][rng.randrange(64, len(log.images[number]) + 1) :]


@pytest.mark.parametrize("harm", [cut_tail, blank, cut_last])
def test_whatever_the_end_looks_like(tmp_path: Path, harm: Callable[[Log, random.Random], None]) -> None:
    rng = random.Random(7)
    seen = set()
    for round in range(25):
        log = three_segments(tmp_path / f"{round}")
        for _ in range(rng.randrange(1, 3)):
            harm(log, rng)
        log.save()
        report = compared(log)
        seen.add((bool(report.damages), bool(notes(report, "end of the log")), report.messages))
        shutil.rmtree(log.layout.root)
    assert len(seen) > 2, "the dice hit different places"
    assert any(unfinished for _, unfinished, _ in seen)


def test_the_comparison_finds_a_check_that_judges_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: a dump that took every good record, as one without a survey would."""
    log = two_segments(tmp_path)
    inspected(log)
    with monkeypatch.context() as patched:
        patched.setattr(Survey, "_drop_unfinished", lambda *_: None)
        inspection = inspected(log)
        inspection.read_contents()
        assert inspection.message_count(QUEUE) == 6
    assert compared(log).messages == 2


# ---- what is known of a message


def stamped(body: bytes, stamp: int, **properties: object) -> Message:
    made = persistent(body, **properties)
    made.stamp = stamp
    return made


def test_times_priorities_and_expirations(log: Log) -> None:
    now = 1_800_000_000_123
    made = [
        (2, stamped(b"second", now + 1, priority=7)),
        (first_at(now + 9000) | 1, stamped(b"late", now + 9000)),
        (1, stamped(b"first", now, expiration="60000")),
        (first_at(now + 500) | 2, stamped(b"soon", now + 500, priority=3)),
    ]
    for position, message in made:
        log.journal.keep(log.queue_ledger, message, position)
    log.commit()
    log.save()
    inspection = inspected(log)
    inspection.read_contents()
    found = list(inspection.messages(QUEUE))
    assert [message.body for message in found] == [b"first", b"second", b"soon", b"late"]
    assert [message.is_delayed for message in found] == [False, False, True, True]
    assert [message.due_ms for message in found] == [None, None, now + 500, now + 9000]
    assert [message.stamp_ms for message in found] == [now, now + 1, now + 500, now + 9000]
    assert [message.priority for message in found] == [0, 7, 3, 0]
    assert [message.expiration_ms for message in found] == [60000, None, None, None]
    assert (inspection.message_count(QUEUE), inspection.delayed_count(QUEUE)) == (4, 2)
    assert inspection.message_count(99) == inspection.delayed_count(99) == 0 and inspection.keys(99) == []


def test_a_damaged_delayed_message_still_tells_its_time(log: Log) -> None:
    now = 1_800_000_000_123
    log.journal.keep(log.queue_ledger, stamped(b"late", now), first_at(now) | 1)
    log.commit()
    log.save()
    inspection = inspected(log)
    inspection.read_contents()
    path = Layout(log.layout.root).segment(1)
    octets = bytearray(path.read_bytes())
    octets[octets.index(b"late")] ^= 1
    path.write_bytes(octets)
    (message,) = inspection.messages(QUEUE)
    assert (message.damaged, message.due_ms, message.stamp_ms) == (True, now, None)
