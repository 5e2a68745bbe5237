"""Publisher confirms: which publishes are told of, in which frames, and not before they are on disk."""

from __future__ import annotations

from typing import Any

from leveret.core.queue.classic_queue import ClassicQueue
from tests.unit.core.fake_disk import FakeDisk
from tests.unit.queues.dataplane import Workbench, body_frame, header_frame, method_frame, publish_frames


def opened() -> Workbench:
    bench = Workbench()
    bench.add_queue()
    bench.open_channel()
    return bench


class FullQueue(ClassicQueue):
    """Refuses everything, as a queue with reject-publish does."""

    def publish(self, message: Any) -> int:
        return 1


def confirming(bench: Workbench) -> list[tuple[str, int, bool]]:
    return [(sent.name, sent.fields["delivery_tag"], sent.fields["multiple"]) for sent in bench.sent()]


def test_confirms_of_a_chunk_are_one_ack() -> None:
    bench = opened()
    bench.connection.find(1).publish_path.start_confirming()
    bench.feed(publish_frames(1, "", "q") * 3)
    bench.feed(publish_frames(1, "", "unroutable"))
    assert confirming(bench) == [("basic.ack", 3, True), ("basic.ack", 4, False)]


def test_a_message_is_confirmed_when_it_is_whole() -> None:
    bench = opened()
    bench.connection.find(1).publish_path.start_confirming()
    bench.feed(method_frame(1, "basic.publish", routing_key="q") + header_frame(1, 2) + body_frame(1, b"a"))
    assert confirming(bench) == []
    bench.feed(body_frame(1, b"b"))
    assert confirming(bench) == [("basic.ack", 1, False)]


def test_a_refused_message_is_nacked_after_what_came_before_it() -> None:
    bench = opened()
    bench.queues[b"full"] = FullQueue(b"full", None)
    bench.router.changed()
    bench.connection.find(1).publish_path.start_confirming()
    bench.feed(publish_frames(1, "", "q") * 2 + publish_frames(1, "", "full") + publish_frames(1, "", "q"))
    assert confirming(bench) == [("basic.ack", 2, True), ("basic.nack", 3, False), ("basic.ack", 4, False)]


# ---- confirms that wait for the disk

PERSISTENT = {"delivery_mode": 2}


def opened_on_disk() -> tuple[FakeDisk, Workbench]:
    """A confirming channel, a durable queue "q" and one that refuses everything."""
    disk = FakeDisk()
    bench = Workbench(journal=disk.journal)
    bench.add_queue(paging_context=disk.paging_context, queue_log=disk.queue_log())
    bench.queues[b"full"] = FullQueue(b"full", None)
    bench.open_channel().publish_path.start_confirming()
    return disk, bench


def test_nothing_persistent_is_confirmed_before_it_is_synced() -> None:
    disk, bench = opened_on_disk()
    bench.feed(publish_frames(1, "", "q", b"x", PERSISTENT) * 3)
    assert confirming(bench) == []
    batch = disk.journal.take_batch()
    disk.write(batch)
    disk.journal.batch_written(batch)
    assert confirming(bench) == [], "written is not synced"
    disk.journal.batch_synced(batch)
    assert confirming(bench) == [("basic.ack", 3, True)]


def test_a_sync_confirms_only_what_its_batch_holds() -> None:
    disk, bench = opened_on_disk()
    bench.feed(publish_frames(1, "", "q", b"x", PERSISTENT) * 2)
    first = disk.journal.take_batch()
    bench.feed(publish_frames(1, "", "q", b"x", PERSISTENT))
    disk.complete(first)
    assert confirming(bench) == [("basic.ack", 2, True)]
    disk.complete(disk.journal.take_batch())
    assert confirming(bench) == [("basic.ack", 3, False)]


def test_a_transient_message_waits_behind_a_persistent_one() -> None:
    """Else one ack with `multiple` would confirm what is not safe."""
    disk, bench = opened_on_disk()
    bench.feed(publish_frames(1, "", "q", b"transient"))
    assert confirming(bench) == [("basic.ack", 1, False)]
    bench.feed(publish_frames(1, "", "q", b"x", PERSISTENT) + publish_frames(1, "", "q", b"transient"))
    batch = disk.journal.take_batch()
    bench.feed(publish_frames(1, "", "q", b"transient") + publish_frames(1, "", "nowhere", b"", PERSISTENT))
    assert confirming(bench) == []
    disk.complete(batch)
    assert confirming(bench) == [("basic.ack", 5, True)], "with what followed and needs no disk"
    bench.feed(publish_frames(1, "", "q", b"transient"))
    assert confirming(bench) == [("basic.ack", 6, False)]


def test_a_batch_without_anything_of_a_channel_confirms_nothing_of_it() -> None:
    disk, bench = opened_on_disk()
    bench.open_channel(2).publish_path.start_confirming()
    bench.feed(publish_frames(1, "", "q", b"x", PERSISTENT))
    first = disk.journal.take_batch()
    bench.feed(publish_frames(2, "", "q", b"x", PERSISTENT))
    disk.complete(first)
    assert [(sent.channel, sent.name) for sent in bench.sent()] == [(1, "basic.ack")]
    disk.complete(disk.journal.take_batch())
    assert [(sent.channel, sent.name) for sent in bench.sent()] == [(2, "basic.ack")]


def test_a_nack_does_not_confirm_what_waits_before_it() -> None:
    disk, bench = opened_on_disk()
    bench.feed(publish_frames(1, "", "q", b"x", PERSISTENT) + publish_frames(1, "", "full", b"x", PERSISTENT))
    assert confirming(bench) == [("basic.nack", 2, False)]
    disk.commit()
    assert confirming(bench) == [("basic.ack", 1, False)]
    bench.feed(publish_frames(1, "", "full"))
    assert confirming(bench) == [("basic.nack", 3, False)]


def test_what_goes_straight_through_without_acks_is_confirmed_at_once() -> None:
    disk, bench = opened_on_disk()
    bench.consume(bench.open_channel(2), bench.queues[b"q"], no_ack=True)
    bench.feed(publish_frames(1, "", "q", b"x", PERSISTENT))
    assert [sent.name for sent in bench.sent()] == ["basic.deliver", "basic.ack"]
    assert disk.wakes == []


def test_nothing_is_confirmed_on_an_abandoned_channel() -> None:
    disk, bench = opened_on_disk()
    bench.feed(publish_frames(1, "", "q", b"x", PERSISTENT))
    bench.connection.find(1).publish_path.abandon()
    disk.commit()
    assert confirming(bench) == []
