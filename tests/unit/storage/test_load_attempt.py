"""What becomes of a load whose reads fail: waiting, reading record by record, giving up single records, or the end."""

from __future__ import annotations

import errno

import pytest

from leveret.core.log.load import Load
from leveret.storage.load_attempt import MEDIUM_TRIES, RETRY_S_MAX, Attempt, Verdict, owner_name
from leveret.storage.quarantine import DAMAGED, UNREADABLE
from tests.unit.core.fake_disk import FakeDisk
from tests.unit.queues.dataplane import message


def attempt_of(count: int = 3) -> tuple[Attempt, Load, FakeDisk]:
    disk = FakeDisk()
    queue = disk.queue(lazy=True)
    for number in range(count):
        queue.publish(message(b"%d" % number * 50, delivery_mode=2))
    disk.commit()
    load = queue.take_load(disk.journal)
    assert load is not None
    return Attempt(queue, load), load, disk


def test_what_was_read_is_done() -> None:
    attempt, load, _ = attempt_of()
    assert [read[2:] for read in attempt.reads] == load.extents
    assert attempt.judge(dict.fromkeys(attempt.reads, 0)) is Verdict.READ and attempt.tries == 0


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_a_shortage_is_waited_for_without_end(number: int) -> None:
    attempt, load, _ = attempt_of()
    waits = []
    for _ in range(100):
        assert attempt.judge(dict.fromkeys(attempt.reads, number)) is Verdict.WAIT
        waits.append(attempt.wait_s)
    assert waits == sorted(waits) and waits[-1] == RETRY_S_MAX
    assert load.lost == {} and load.unread


@pytest.mark.parametrize("number", [errno.EBADF, errno.ESPIPE, errno.EISDIR, errno.EINVAL])
def test_an_error_that_is_none_of_the_disk_stops(number: int) -> None:
    attempt, load, _ = attempt_of()
    assert attempt.judge(dict.fromkeys(attempt.reads, number)) is Verdict.STOP
    assert load.lost == {}


def test_what_the_disk_cannot_read_is_read_record_by_record() -> None:
    attempt, load, disk = attempt_of()
    for _ in range(MEDIUM_TRIES - 1):
        assert attempt.judge(dict.fromkeys(attempt.reads, errno.EIO)) is Verdict.WAIT
    assert attempt.judge(dict.fromkeys(attempt.reads, errno.EIO)) is Verdict.RECORDS
    attempt.split()
    assert [read.record for read in attempt.reads] == [0, 1, 2]
    errors = {read: errno.EIO if read.record == 1 else 0 for read in attempt.reads}
    assert attempt.judge(errors) is Verdict.UNREADABLE
    attempt.give_up_failed()
    disk.read(load)
    assert [one and one.body[:1] for one in load.messages] == [b"0", None, b"2"]
    (line,) = attempt.given_up({1: "log/1"})
    assert (line.position, line.file, line.reason) == (2, "log/1", UNREADABLE)
    assert (line.offset, line.length) == (load.slot(1)[1] & 0xFFFFFFFF, load.slot(1)[2])


def test_a_shortage_while_records_are_read_gives_none_up() -> None:
    attempt, load, _ = attempt_of()
    for _ in range(MEDIUM_TRIES):
        attempt.judge(dict.fromkeys(attempt.reads, errno.EIO))
    attempt.split()
    assert attempt.judge(dict.fromkeys(attempt.reads, errno.ENOMEM)) is Verdict.WAIT
    assert attempt.judge(dict.fromkeys(attempt.reads, 0)) is Verdict.READ
    assert load.lost == {}


def test_damage_is_written_down_as_that() -> None:
    attempt, load, disk = attempt_of(1)
    disk.images[1][disk.images[1].index(b"0" * 50)] ^= 1
    disk.read(load)
    assert [line.reason for line in attempt.given_up({})] == [DAMAGED]
    assert owner_name(attempt.queue)
