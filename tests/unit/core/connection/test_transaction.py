"""Transactions as a whole: what one holds takes effect together, or nothing of it does."""

from __future__ import annotations

import pytest

from leveret.core.matching.matcher import FanoutMatcher
from leveret.core.queue.classic_queue import ClassicQueue
from leveret.core.queue.dedup import DedupWindow
from leveret.core.queue.office import Office
from leveret.core.queue.rules import Rules
from leveret.errors import SoftError
from tests.unit.core.takers import ready_bodies
from tests.unit.queues.dataplane import Workbench, publish_frames

NOW = 1_700_000_000_000
REFUSE, REFUSE_AND_BURY = 1, 2


class Stage:
    """A transaction on a channel, a queue that refuses what is too much, and one that takes everything."""

    def __init__(self, overflow: int = REFUSE, window: DedupWindow | None = None, **limits: int) -> None:
        self.office = Office(NOW)
        self.bench = Workbench(office=self.office)
        self.full: ClassicQueue = self.bench.add_queue("full", office=self.office, window=window)
        grave = b"" if overflow == REFUSE_AND_BURY else None
        self.full.set_rules(Rules(overflow=overflow, dead_letter_exchange=grave, **limits))
        self.other: ClassicQueue = self.bench.add_queue("other", office=self.office)
        self.channel = self.bench.open_channel()
        self.channel.start_transaction()

    def publish(self, queue: str, body: bytes, **properties: object) -> None:
        self.bench.feed(publish_frames(1, "", queue, body, properties))

    def refused(self) -> str:
        with pytest.raises(SoftError) as caught:
            self.channel.commit()
        assert (caught.value.code, caught.value.method) == (406, 0x005A0014)
        return caught.value.text


@pytest.mark.parametrize("overflow", [REFUSE, REFUSE_AND_BURY])
def test_a_queue_that_refuses_undoes_all_of_it(overflow: int) -> None:
    stage = Stage(overflow, length_max=2)
    stage.bench.feed(publish_frames(1, "", "other", b"to be acked"))
    stage.channel.commit()
    assert stage.bench.get(stage.channel, stage.other)
    stage.publish("other", b"before")
    for body in (b"1", b"2", b"3"):
        stage.publish("full", body)
    stage.publish("other", b"after")
    stage.channel.settle(1, False, 0, 0x003C0050)
    assert "queue 'full' is full" in stage.refused()
    assert (ready_bodies(stage.full), ready_bodies(stage.other)) == ([], [])
    assert (stage.other.settled_total, stage.other.unacked_count, stage.full.published_total) == (0, 1, 0)
    assert stage.full.refused_total == 1
    assert stage.office.letters == [], "nor is anything dead-lettered"
    stage.channel.requeue_all()
    assert ready_bodies(stage.other) == [b"to be acked"]


def test_what_fits_is_taken_up_to_the_limit() -> None:
    stage = Stage(length_max=3, bytes_max=6)
    for body in (b"1", b"22", b"333"):
        stage.publish("full", body)
    stage.channel.commit()
    assert ready_bodies(stage.full) == [b"1", b"22", b"333"]


def test_octets_are_added_up_over_the_transaction() -> None:
    stage = Stage(bytes_max=6)
    for body in (b"1", b"22", b"3333"):
        stage.publish("full", body)
    assert "queue 'full'" in stage.refused()
    assert ready_bodies(stage.full) == []


def test_a_message_to_several_queues_is_in_all_of_them_or_in_none() -> None:
    stage = Stage(length_max=0)
    exchange = stage.bench.add_exchange("all", FanoutMatcher())
    for queue in (stage.other, stage.full):
        exchange.bind(b"", {}, queue)
    stage.bench.router.changed()
    stage.bench.feed(publish_frames(1, "all", "", b"x"))
    stage.refused()
    assert (ready_bodies(stage.other), ready_bodies(stage.full)) == ([], [])


def test_duplicates_need_no_room() -> None:
    """A transaction is repeated, because nobody knows whether it was committed: the queue is full of it."""
    stage = Stage(length_max=2, window=DedupWindow(1, None, 10, 0))
    for _ in range(2):
        for key in ("a", "b"):
            stage.publish("full", key.encode(), message_id=key)
        stage.channel.commit()
    assert ready_bodies(stage.full) == [b"a", b"b"]
    assert stage.channel.publish_path.met_known
    assert stage.full.window.duplicates_total == 2, "counted once each"


def test_no_queue_refuses_what_it_said_it_would_take() -> None:
    """A window of one key forgets "a" for "b" in the middle of the transaction, and takes "a" once more."""
    stage = Stage(length_max=2, window=DedupWindow(1, None, 1, 0))
    stage.publish("full", b"a", message_id="a")
    stage.channel.commit()
    stage.publish("other", b"x")
    stage.publish("full", b"b", message_id="b")
    stage.publish("full", b"a", message_id="a")
    stage.channel.commit()
    assert (ready_bodies(stage.full), ready_bodies(stage.other)) == ([b"a", b"b", b"a"], [b"x"])
    stage.publish("full", b"c", message_id="c")
    stage.refused()


def test_a_deleted_queue_refuses_nothing() -> None:
    stage = Stage(length_max=0)
    stage.publish("full", b"x")
    stage.publish("other", b"y")
    stage.full.close()
    stage.channel.commit()
    assert ready_bodies(stage.other) == [b"y"]
