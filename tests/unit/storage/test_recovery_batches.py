"""The last batch of a log after a crash: it counts as a whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from leveret.core.log.record_check import checked_length
from leveret.storage import recovery
from leveret.storage.damage import DamageReport
from leveret.storage.file_head import HEAD_BYTES, SEGMENT, encode_head, file_salt
from leveret.storage.layout import Layout
from leveret.storage.reconcile import open_manifest
from leveret.storage.recovery import RecoveredLog, Recovery, finish_books
from tests.unit.core.fake_disk import FakeDisk, persistent

SALT = 0x5EED
QUEUE = 1


class Log(FakeDisk):
    """A log of batches of messages, written as the committer does, and put into a data directory as a crash left it."""

    def __init__(self, root: Path, segment_bytes: int = 1 << 20) -> None:
        super().__init__(segment_bytes)
        self.layout = Layout(root)
        self.layout.make()
        self.queue_ledger = self.queue_log(QUEUE)
        self._position = 0
        # Where the image of each segment ended before the batch that was written last.
        self.ends: dict[int, int] = {}

    def salt_of(self, number: int) -> int:
        return file_salt(SALT, SEGMENT, number)

    def batch(self, *bodies: bytes, sync: bool = True) -> None:
        self.ends = {number: len(image) for number, image in self.images.items()}
        for body in bodies:
            self._position += 1
            self.journal.keep(self.queue_ledger, persistent(body), self._position)
        self.commit(sync)

    def without_end(self) -> None:
        """The last batch lost the record that ends it, and nothing else."""
        number = self.log_numbers()[-1]
        image, at, last = self.images[number], HEAD_BYTES, HEAD_BYTES
        while length := checked_length(bytes(image), at, len(image), self.salt_of(number)):
            last, at = at, at + (length + 7 & ~7)
        del image[last:]

    def save(self) -> None:
        for number in self.log_numbers():
            self.layout.segment(number).write_bytes(
                encode_head(SEGMENT, number, SALT) + bytes(self.images[number][HEAD_BYTES:])
            )

    def recover(self) -> tuple[RecoveredLog, DamageReport]:
        report = DamageReport(self.layout)
        recovered = Recovery(self.layout, SALT, report, open_manifest(self.layout, SALT, report)).run()
        finish_books(recovered, {QUEUE})
        return recovered, report

    def count(self) -> int:
        """How many messages a start finds, if it finds no damage."""
        recovered, report = self.recover()
        assert report.found == []
        return recovered.books[QUEUE].count if QUEUE in recovered.books else 0

    def files(self) -> dict[str, int]:
        return {path.name: path.stat().st_size for path in sorted(self.layout.log.glob("*.segment"))}


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "data")


def two_segments(tmp_path: Path) -> Log:
    """One whole batch, and one without its end that began in the first segment and goes on in the second."""
    log = Log(tmp_path / "data", segment_bytes=700)
    log.batch(b"1" * 100, b"2" * 100)
    log.provide_spares()
    log.batch(*[b"%d" % number * 100 for number in range(3, 7)])
    assert log.log_numbers() == [1, 2]
    assert [len(log.images[number]) > log.ends[number] for number in (1, 2)] == [True, True]
    log.without_end()
    log.save()
    return log


def test_whole_batches_stay_whether_they_were_synced_or_not(log: Log) -> None:
    log.batch(b"1", b"2")
    log.batch(b"3", sync=False)
    log.save()
    assert log.count() == 3


def test_a_batch_without_its_end_is_dropped_as_a_whole(log: Log) -> None:
    log.batch(b"1", b"2")
    log.batch(b"3", b"4", b"5")
    log.without_end()
    log.save()
    recovered, report = log.recover()
    assert (recovered.books[QUEUE].count, report.found) == (2, [])
    assert log.files() == {"0000000001.segment": log.ends[1]}, "nothing of it is left on disk"
    assert recovered.next_sequence == 4, "two messages and the end of their batch"
    assert log.count() == 2, "a start after that finds the same"


def test_a_batch_that_is_torn_within_a_message_is_dropped_as_a_whole(log: Log) -> None:
    log.batch(b"1")
    log.batch(b"2", b"3" * 100)
    log.without_end()
    del log.images[1][-20:]
    log.save()
    assert log.count() == 1
    assert log.files() == {"0000000001.segment": log.ends[1]}


def test_a_log_with_nothing_but_an_unfinished_batch_is_empty(log: Log) -> None:
    log.batch(b"1", b"2")
    log.without_end()
    log.save()
    assert log.count() == 0
    assert log.files() == {}


def test_reserved_room_behind_an_unfinished_batch_is_no_part_of_it(log: Log) -> None:
    log.batch(b"1")
    log.batch(b"2")
    log.without_end()
    log.images[1] += bytes(4096)
    log.save()
    (log.layout.log / "0000000002.segment").write_bytes(encode_head(SEGMENT, 2, SALT) + bytes(4096))
    assert log.count() == 1


def test_a_batch_over_two_segments_is_dropped_in_both(tmp_path: Path) -> None:
    log = two_segments(tmp_path)
    assert log.count() == 2
    assert log.files() == {"0000000001.segment": log.ends[1]}
    assert log.count() == 2


def test_a_whole_batch_over_two_segments_stays(tmp_path: Path) -> None:
    log = Log(tmp_path / "data", segment_bytes=700)
    log.batch(b"1" * 100, b"2" * 100)
    log.provide_spares()
    log.batch(*[b"%d" % number * 100 for number in range(3, 7)])
    log.save()
    assert (log.count(), len(log.files())) == (6, 2)


def test_a_segment_that_only_the_unfinished_batch_is_in_goes_and_the_one_before_stays(tmp_path: Path) -> None:
    log = Log(tmp_path / "data", segment_bytes=300)
    log.batch(b"1" * 200)
    log.provide_spares()
    log.batch(b"2" * 200)
    assert log.log_numbers() == [1, 2]
    log.without_end()
    log.save()
    assert log.count() == 1
    assert log.files() == {"0000000001.segment": len(log.images[1])}


@pytest.mark.parametrize("step", ["cut", "index"])
def test_a_crash_between_the_discards_and_the_cut_finds_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    log = two_segments(tmp_path)

    class Crashed(Exception):
        pass

    def crash(*_: object) -> None:
        raise Crashed

    with monkeypatch.context() as patched:
        patched.setattr(recovery, "cut_file" if step == "cut" else "replace_file", crash)
        with pytest.raises(Crashed):
            log.recover()
    assert list(log.files()) == ["0000000001.segment"], "the last segment has gone first"
    assert log.count() == 2


def test_a_batch_that_the_log_says_was_synced_is_not_dropped_but_its_end_is_reported(log: Log) -> None:
    log.batch(b"1")
    log.batch(b"2", b"3")
    end = len(log.images[1])
    log.batch()
    log.images[1][end - 10] ^= 1
    log.save()
    recovered, report = log.recover()
    assert recovered.books[QUEUE].count == 3
    assert [damage.what for damage in report.found] == ["records of the log are lost"]


def test_behind_a_synced_batch_whose_end_is_damaged_an_unfinished_one_is_dropped_alone(log: Log) -> None:
    log.batch(b"1", b"2")
    end = len(log.images[1])
    log.batch()
    log.batch(b"3")
    log.without_end()
    log.images[1][end - 10] ^= 1
    log.save()
    recovered, report = log.recover()
    assert recovered.books[QUEUE].count == 2
    assert [damage.what for damage in report.found] == ["records of the log are lost"]
    assert log.files() == {"0000000001.segment": log.ends[1]}
