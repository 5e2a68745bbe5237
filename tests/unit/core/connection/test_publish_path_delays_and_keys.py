"""What the publish path does with messages that wait for their time, and with those that it has seen before."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.core.codec.message import Message
from leveret.core.codec.properties import Properties
from leveret.core.matching.matcher import FanoutMatcher
from leveret.core.queue.contract import Queue
from leveret.core.queue.dedup import DedupWindow
from leveret.core.queue.office import Office
from leveret.errors import SoftError
from tests.unit.core.fake_disk import FakeDisk
from tests.unit.core.takers import ready_bodies
from tests.unit.queues.dataplane import OpenGate, Workbench, publish_frames

NOW = 1_700_000_000_000
PERSISTENT = {"delivery_mode": 2}


class Catching(Queue):
    """Keeps what it is given, and answers as it is told."""

    def __init__(self, name: bytes, answer: int = 0) -> None:
        Queue.__init__(self, name, None)
        self.answer = answer
        self.caught: list[Message] = []

    def publish(self, message: Message) -> int:
        self.caught.append(message)
        return self.answer


def opened(journal: Any = None) -> Workbench:
    bench = Workbench(journal=journal, office=Office(NOW))
    bench.queues[b"q"] = Catching(b"q")
    bench.open_channel()
    return bench


def caught(bench: Workbench, name: bytes = b"q") -> list[Message]:
    queue: Any = bench.queues[name]
    messages: list[Message] = queue.caught
    return messages


def confirms(bench: Workbench) -> list[tuple[str, int]]:
    return [(sent.name, sent.fields["delivery_tag"]) for sent in bench.sent()]


# ---- time


def test_a_message_is_stamped_when_it_comes() -> None:
    bench = opened()
    bench.feed(publish_frames(1, "", "q"))
    bench.office.now += 7
    bench.feed(publish_frames(1, "", "q"))
    assert [message.stamp for message in caught(bench)] == [NOW, NOW + 7]


def test_what_a_transaction_holds_is_stamped_when_it_is_committed() -> None:
    bench = Workbench(office=Office(NOW))
    bench.queues[b"q"] = Catching(b"q")
    channel = bench.open_channel()
    channel.start_transaction()
    bench.feed(publish_frames(1, "", "q"))
    bench.feed(publish_frames(1, "", "q", properties={"headers": {"x-delay": 50}}))
    bench.office.now += 7
    channel.commit()
    assert [message.stamp for message in caught(bench)] == [NOW + 7, NOW + 57]


def test_a_delayed_message_is_stamped_with_when_it_is_due_and_goes_on_as_the_gate_says() -> None:
    bench = opened()
    bench.feed(publish_frames(1, "", "q", b"x", {"headers": {"x-delay": 5000, "a": 1}}))
    (message,) = caught(bench)
    assert message.stamp == NOW + 5000
    assert message.properties.headers() == {"a": 1}


def test_the_gate_is_asked_once_for_delays_that_repeat() -> None:
    bench = opened()
    frames = publish_frames(1, "", "q", b"x", {"headers": {"x-delay": 5000}})
    bench.feed(frames * 3)
    bench.feed(publish_frames(1, "", "q", b"x", {"headers": {"x-delay": 6000}}) + frames)
    assert [message.stamp - NOW for message in caught(bench)] == [5000, 5000, 5000, 6000, 5000]
    assert len(bench.gate.delayed) == 3


def test_what_asks_for_no_delay_is_not_shown_to_the_gate() -> None:
    bench = opened()
    bench.feed(publish_frames(1, "", "q", b"x", {"headers": {"a": 1}}))
    assert bench.gate.delayed == []


def test_a_delay_that_the_gate_refuses_is_not_published() -> None:
    class StrictGate(OpenGate):
        def delay(self, properties: Properties) -> tuple[Properties, int]:
            raise SoftError(406, "too long")

    bench = Workbench(office=Office(NOW))
    bench.gate = StrictGate()
    bench.queues[b"q"] = Catching(b"q")
    bench.open_channel()
    with pytest.raises(SoftError, match="too long"):
        bench.feed(publish_frames(1, "", "q", b"x", {"headers": {"x-delay": 5000}}))
    assert caught(bench) == []


# ---- exchanges that hold what is delayed


def holding() -> tuple[Workbench, Catching]:
    bench, holder = opened(), Catching(b"holder")
    exchange = bench.add_exchange("x", FanoutMatcher())
    exchange.bind(b"", {}, bench.queues[b"q"])
    exchange.holder = holder
    bench.router.changed()
    return bench, holder


def test_a_delayed_message_waits_with_its_exchange_before_it_is_routed() -> None:
    bench, holder = holding()
    bench.feed(publish_frames(1, "x", "key", b"x", {"headers": {"x-delay": 10}}))
    assert (len(holder.caught), caught(bench)) == (1, [])
    assert (holder.caught[0].stamp, holder.caught[0].routing_key) == (NOW + 10, b"key")


def test_one_without_a_delay_goes_through_at_once() -> None:
    bench, holder = holding()
    bench.feed(publish_frames(1, "x", "key", b"1") + publish_frames(1, "x", "key", b"2", {"headers": {"x-delay": 0}}))
    assert (holder.caught, [message.body for message in caught(bench)]) == ([], [b"1", b"2"])


def test_copies_of_a_delayed_message_are_found_when_it_is_due() -> None:
    """The gate of this test could not even be asked for them."""
    bench, holder = holding()
    bench.feed(publish_frames(1, "x", "key", b"1", {"headers": {"x-delay": 10, "CC": ["other"]}}))
    assert holder.caught[0].properties.has_cc


def test_what_waits_with_its_exchange_is_never_returned() -> None:
    bench, holder = holding()
    bench.exchanges[b"x"].unbind(b"", {}, bench.queues[b"q"])
    bench.router.changed()
    bench.feed(publish_frames(1, "x", "key", b"1", {"headers": {"x-delay": 10}}, mandatory=True))
    assert (len(holder.caught), bench.sent()) == (1, [])


# ---- exchanges that have seen it


def deduplicating(disk: FakeDisk | None = None, answer: int = 0) -> Workbench:
    """A confirming channel, and an exchange with a window that leads to one queue."""
    bench = opened(None if disk is None else disk.journal)
    queue = (
        bench.add_queue("q", paging_context=disk.paging_context, queue_log=disk.queue_log())
        if disk is not None
        else Catching(b"q", answer)
    )
    bench.queues[b"q"] = queue
    exchange = bench.add_exchange("x", FanoutMatcher())
    exchange.bind(b"", {}, queue)
    exchange.window = DedupWindow(2, None if disk is None else disk.journal, 10, 1000)
    bench.router.changed()
    bench.connection.find(1).publish_path.start_confirming()
    return bench


def test_an_exchange_takes_each_message_once_and_confirms_it_each_time() -> None:
    bench = deduplicating()
    for message_id in ("a", "a", "b"):
        bench.feed(publish_frames(1, "x", "", message_id.encode(), {"message_id": message_id}))
    assert [message.body for message in caught(bench)] == [b"a", b"b"]
    assert confirms(bench) == [("basic.ack", 1), ("basic.ack", 2), ("basic.ack", 3)]


def test_without_a_key_every_message_is_new() -> None:
    bench = deduplicating()
    bench.feed(publish_frames(1, "x", "", b"x") * 2)
    assert len(caught(bench)) == 2


def test_a_key_is_new_again_when_its_time_is_over() -> None:
    bench = deduplicating()
    frames = publish_frames(1, "x", "", b"x", {"message_id": "a"})
    bench.feed(frames)
    bench.office.now += 999
    bench.feed(frames)
    bench.office.now += 1
    bench.feed(frames)
    assert len(caught(bench)) == 2


def test_a_key_may_say_itself_how_long() -> None:
    bench = deduplicating()
    frames = publish_frames(1, "x", "", b"x", {"message_id": "a", "headers": {"x-cache-ttl": 100}})
    bench.feed(frames)
    bench.office.now += 100
    bench.feed(frames)
    assert len(caught(bench)) == 2


def test_the_key_of_a_message_that_was_refused_is_not_remembered() -> None:
    bench = deduplicating(answer=1)
    frames = publish_frames(1, "x", "", b"x", {"message_id": "a"})
    bench.feed(frames * 2)
    assert len(caught(bench)) == 2
    assert confirms(bench) == [("basic.nack", 1), ("basic.nack", 2)]


def test_a_duplicate_that_is_mandatory_is_not_returned() -> None:
    bench = deduplicating()
    frames = publish_frames(1, "x", "", b"x", {"message_id": "a"}, mandatory=True)
    bench.feed(frames)
    bench.exchanges[b"x"].unbind(b"", {}, bench.queues[b"q"])
    bench.router.changed()
    bench.feed(frames)
    assert [sent.name for sent in bench.sent()] == ["basic.ack", "basic.ack"]


def test_a_duplicate_is_confirmed_only_when_the_first_is_on_disk() -> None:
    disk = FakeDisk()
    bench = deduplicating(disk)
    frames = publish_frames(1, "x", "", b"x", {**PERSISTENT, "message_id": "a"})
    bench.feed(frames)
    first = disk.journal.take_batch()
    bench.feed(frames)
    assert confirms(bench) == []
    disk.complete(first)
    assert confirms(bench) == [("basic.ack", 1)]
    disk.complete(disk.journal.take_batch())
    assert confirms(bench) == [("basic.ack", 2)]
    assert ready_bodies(bench.queues[b"q"]) == [b"x"]


def test_a_duplicate_of_another_channel_waits_for_the_first_as_well() -> None:
    disk = FakeDisk()
    bench = deduplicating(disk)
    bench.open_channel(2).publish_path.start_confirming()
    for channel in (1, 2):
        bench.feed(publish_frames(channel, "x", "", b"x", {**PERSISTENT, "message_id": "a"}))
    assert confirms(bench) == []
    disk.commit()
    assert sorted(sent.channel for sent in bench.sent()) == [1, 2]


def test_a_duplicate_sees_that_there_is_a_sync() -> None:
    disk = FakeDisk()
    bench = deduplicating(disk)
    frames = publish_frames(1, "x", "", b"x", {**PERSISTENT, "message_id": "a"})
    bench.feed(frames)
    disk.commit()
    disk.wakes.clear()
    bench.feed(frames)
    assert disk.wakes == [True]


# ---- queues that have seen it


def test_a_queue_that_knows_the_message_is_confirmed_when_the_first_is_on_disk() -> None:
    disk = FakeDisk()
    bench = Workbench(journal=disk.journal, office=Office(NOW))
    window = DedupWindow(1, disk.journal, 10, 0)
    queue = bench.add_queue(
        paging_context=disk.paging_context, queue_log=disk.queue_log(), window=window, office=bench.office
    )
    bench.open_channel().publish_path.start_confirming()
    bench.feed(publish_frames(1, "", "q", b"x", {**PERSISTENT, "message_id": "a"}) * 2)
    assert confirms(bench) == []
    disk.commit()
    assert confirms(bench) == [("basic.ack", 2)]
    assert ready_bodies(queue) == [b"x"]
