"""A long queue is emptied in steps: nobody gets any of it, the log learns of all of it, and who waits is told."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.core.codec.message import Message
from leveret.core.log.compaction import Compaction
from leveret.core.queue.classic_queue import ClassicQueue
from leveret.core.queue.office import Office
from leveret.core.queue.release import Release
from tests.unit.core.fake_disk import FakeDisk, persistent
from tests.unit.core.takers import ready_bodies
from tests.unit.queues.dataplane import message

# As core.queue.release has it.
RELEASED_A_STEP = 16384
MANY = RELEASED_A_STEP + 100


class Stage:
    def __init__(self, window_bytes: int = 1 << 20, **options: Any) -> None:
        self.disk = FakeDisk(segment_bytes=1 << 24, window_bytes=window_bytes)
        self.office = Office(journal=self.disk.journal)
        self.queue = ClassicQueue(
            b"q", None, False, self.disk.paging_context, self.disk.queue_log(), office=self.office, **options
        )
        self.calls: list[str] = []

    def publish(self, one: Message) -> None:
        self.queue.publish(one)

    def fill(self, count: int = MANY) -> None:
        for number in range(count):
            self.publish(persistent(b"%d" % number))

    def step(self) -> int:
        """One turn of those who go on with their work: how many there were."""
        workers = self.office.take_unfinished()
        for worker in workers:
            worker.go_on()
        return len(workers)

    def run(self) -> int:
        steps = 0
        while self.step():
            steps += 1
        return steps


@pytest.mark.parametrize("window_bytes", [1 << 30, 100])
def test_a_purge_lets_go_in_steps(window_bytes: int) -> None:
    stage = Stage(window_bytes)
    stage.fill(2 * RELEASED_A_STEP + 5)
    stage.disk.commit()
    before = stage.office.meter.spent
    assert stage.queue.purge() == 2 * RELEASED_A_STEP + 5
    assert (stage.queue.ready_count(), stage.queue.purged_total) == (0, 2 * RELEASED_A_STEP + 5)
    assert stage.disk.live() == 2 * RELEASED_A_STEP + 5, "the log does not know yet"
    stage.publish(persistent(b"new"))
    assert stage.step() == 1
    assert stage.disk.live() == RELEASED_A_STEP + 5 + 1
    assert stage.office.meter.spent > before
    assert stage.run() == 2
    assert (stage.disk.live(), ready_bodies(stage.queue)) == (1, [b"new"])
    assert stage.office.returning == {}


def test_a_short_queue_is_purged_at_once() -> None:
    stage = Stage()
    stage.fill(RELEASED_A_STEP)
    assert stage.queue.purge() == RELEASED_A_STEP
    assert (stage.disk.live(), stage.step()) == (0, 0)
    assert not stage.queue.await_purge(lambda: stage.calls.append("never"))


def test_who_waits_for_a_purge_is_told_once_the_log_knows() -> None:
    stage = Stage()
    stage.fill()
    stage.queue.purge()
    assert stage.queue.await_purge(lambda: stage.calls.append(f"live {stage.disk.live()}"))
    stage.step()
    assert stage.calls == []
    stage.run()
    assert stage.calls == ["live 0"]
    assert not stage.queue.await_purge(lambda: stage.calls.append("never"))


def test_a_deleted_queue_lets_go_in_steps_and_storage_looks_afterwards() -> None:
    stage = Stage()
    stage.fill()
    stage.disk.commit()
    stage.queue.close()
    assert stage.disk.live() == MANY
    stage.disk.wakes.clear()
    stage.run()
    assert stage.disk.live() == 0
    assert stage.disk.wakes, "a commit, after which storage looks for segments that can go"


def test_transient_messages_and_pages_are_let_go_too() -> None:
    stage = Stage(window_bytes=100)
    for number in range(MANY):
        stage.publish(message(b"%d" % number))
    stage.disk.paging_context.pressed = True
    stage.queue.page_out(1 << 20)
    for number in range(10):
        stage.publish(message(b"%d" % number))
    assert stage.disk.live(paging=True) > 0
    assert stage.queue.purge() == MANY + 10
    stage.run()
    assert stage.disk.live(paging=True) == 0


def test_a_stop_finishes_what_is_left() -> None:
    stage = Stage()
    stage.fill()
    stage.queue.purge()
    assert stage.queue.await_purge(lambda: stage.calls.append("done"))
    (remains,) = stage.office.returning
    assert isinstance(remains, Release)
    remains.finish()
    assert (stage.disk.live(), stage.calls, stage.office.returning) == (0, ["done"], {})
    stage.run()


@pytest.mark.parametrize("priority_max", [0, 3])
def test_every_priority_is_let_go(priority_max: int) -> None:
    stage = Stage(priority_max=priority_max)
    for number in range(2 * MANY):
        stage.publish(persistent(b"x", priority=number % 2))
    assert stage.queue.purge() == 2 * MANY
    stage.run()
    assert (stage.queue.ready_count(), stage.disk.live()) == (0, 0)


def test_compaction_knows_what_is_left_in_memory() -> None:
    """Another queue has the same messages: their one record moves, and both count where it is then."""
    stage = Stage(window_bytes=1 << 30)
    other = ClassicQueue(b"o", None, False, stage.disk.paging_context, stage.disk.queue_log(2), office=stage.office)
    for number in range(MANY):
        assert stage.office.deliver(persistent(b"%d" % number), [stage.queue, other]) == 2
    stage.disk.commit()
    segment = stage.disk.journal.segment
    segment.sealed = True
    stage.disk.journal.use_segment(stage.disk.new_segment())
    stage.queue.purge()
    in_memory: dict[tuple[int, int], object] = {}
    other.collect_located(segment.id, in_memory)
    stage.office.collect_located(segment.id, in_memory)
    queues = {1: stage.queue, 2: other}
    Compaction(stage.disk.journal, segment, queues, in_memory).run(
        segment.copy_index(), bytes(stage.disk.images[segment.id])
    )
    assert (segment.live, stage.disk.journal.segment.live) == (0, 2 * MANY)
    stage.run()
    assert stage.disk.journal.segment.live == MANY
    assert other.purge() == MANY
    stage.run()
    assert stage.disk.live() == 0
