"""Bodies that are let go while a consumer has them: they come back with their messages, and pages go with theirs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from leveret.core.connection.consumer import Consumer
from leveret.core.queue.classic_queue import ClassicQueue
from leveret.core.queue.contract import Entry
from tests.unit.core.fake_disk import FakeDisk, persistent
from tests.unit.core.takers import Taker
from tests.unit.queues.dataplane import Workbench, message

BODY = b"0123456789" * 100


def held(disk: FakeDisk, durable: bool = False) -> tuple[ClassicQueue, Entry]:
    """One message that a consumer had, which is gone since."""
    queue, taker = disk.queue(1 if durable else None), Taker()
    queue.subscribe(taker)
    queue.publish(persistent(BODY) if durable else message(BODY))
    queue.unsubscribe(taker)
    return queue, taker.held[0]


def requeue_and_purge(queue: ClassicQueue, entry: Entry) -> None:
    queue.requeue(entry)
    queue.purge()


def delete_and_requeue(queue: ClassicQueue, entry: Entry) -> None:
    queue.close()
    queue.requeue(entry)


def requeue_and_delete(queue: ClassicQueue, entry: Entry) -> None:
    queue.requeue(entry)
    queue.close()


ENDS = [ClassicQueue.settle, ClassicQueue.discard, requeue_and_purge, delete_and_requeue, requeue_and_delete]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("durable", [False, True])
def test_a_page_goes_with_its_message(end: Callable[[ClassicQueue, Entry], object], durable: bool) -> None:
    disk = FakeDisk()
    queue, entry = held(disk, durable)
    assert queue.page_entry(entry) == len(BODY)
    assert (disk.live(paging=True), disk.live()) == ((0, 1) if durable else (1, 0))
    disk.commit()
    end(queue, entry)
    assert (disk.live(paging=True), disk.live()) == (0, 0)


@pytest.mark.parametrize("durable", [False, True])
def test_a_body_comes_back_when_its_message_does(durable: bool) -> None:
    disk = FakeDisk()
    queue, entry = held(disk, durable)
    queue.page_entry(entry)
    disk.commit()
    queue.requeue(entry)
    taker = Taker()
    queue.subscribe(taker)
    assert taker.held == []
    assert disk.load(queue)
    assert taker.bodies() == [BODY]
    assert taker.held[0].seen
    queue.settle(taker.held[0])
    assert (disk.live(paging=True), disk.live()) == (0, 0)


def test_a_message_in_two_queues_is_let_go_by_each() -> None:
    disk = FakeDisk()
    queues, takers = [disk.queue(None), disk.queue(None)], [Taker(), Taker()]
    one = message(BODY)
    for queue, taker in zip(queues, takers, strict=True):
        queue.subscribe(taker)
        queue.publish(one)
    queues[0].page_entry(takers[0].held[0])
    assert takers[1].bodies() == [BODY], "the other one has it still"
    queues[1].page_entry(takers[1].held[0])
    assert disk.live(paging=True) == 2
    disk.commit()
    queues[1].settle(takers[1].held[0])
    assert disk.live(paging=True) == 1
    again = Taker()
    queues[0].unsubscribe(takers[0])
    queues[0].requeue(takers[0].held[0])
    queues[0].subscribe(again)
    disk.load(queues[0])
    assert again.bodies() == [BODY]
    assert disk.live(paging=True) == 0


def test_a_channel_lets_go_of_what_its_client_has_had_for_a_while() -> None:
    disk = FakeDisk()
    bench = Workbench(journal=disk.journal)
    channel = bench.open_channel()
    queue = bench.add_queue("q", paging_context=disk.paging_context)
    queue.subscribe(Consumer(channel, queue, b"tag", False, False, 0, 0, 0, {}))
    for _ in range(3):
        queue.publish(message(BODY))
    assert channel.page_out(1 << 20) == 0, "most messages are acknowledged soon"
    queue.publish(message(BODY))
    assert channel.page_out(2 * len(BODY)) == 2 * len(BODY), "a bounded step"
    assert channel.page_out(1 << 20) == len(BODY)
    assert [entry.message.body is None for entry in channel.unacked.entries()] == [True, True, True, False]
    channel.requeue_all()
    assert queue.ready_count() == 4
