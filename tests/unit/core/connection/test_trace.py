"""A trace notes what its channel publishes and is sent, within bounds."""

from __future__ import annotations

from leveret.core.connection.trace import NOTE_WORK, TRACE_EXCHANGE, Notes, Trace
from leveret.core.queue.classic_queue import ClassicQueue
from leveret.core.queue.office import Office
from tests.unit.queues.dataplane import Workbench, message, publish_frames


class Worker:
    def go_on(self) -> None: ...


def notes(office: Office, count_max: int = 100, bytes_max: int = 1000) -> Notes:
    return Notes(office, Worker(), count_max, bytes_max)


def test_what_is_noted_comes_out_in_its_order() -> None:
    office = Office()
    noted = notes(office)
    trace = Trace(noted, "origin")
    queue = ClassicQueue(b"q", None)
    trace.published(message(b"1"), (queue,))
    trace.delivered(queue, message(b"1"), b"1", True)
    first, second = noted.take(), noted.take()
    assert first is not None and second is not None
    assert (first[0], first[2:]) == ("origin", (b"1", (queue,), None, False))
    assert second[2:] == (b"1", None, b"q", True)
    assert (noted.take(), noted.noted_total, noted.waiting_bytes) == (None, 2, 0)


def test_the_worker_is_woken_once_and_the_turn_is_charged() -> None:
    office = Office()
    trace = Trace(notes(office), None)
    before = office.meter.spent
    for _ in range(3):
        trace.published(message(b"x"), ())
    assert len(office.take_unfinished()) == 1
    assert office.meter.spent - before == 3 * NOTE_WORK


def test_notes_are_bounded_in_number_and_in_octets() -> None:
    for noted in (notes(Office(), count_max=2), notes(Office(), bytes_max=8)):
        trace = Trace(noted, None)
        for _ in range(5):
            trace.published(message(b"octet"), ())
        assert (noted.noted_total, noted.missed_total) == (2, 3)
        noted.take()
        trace.published(message(b"octet"), ())
        assert (noted.noted_total, noted.missed_total) == (3, 3)


def test_copies_are_not_traced_themselves() -> None:
    noted = notes(Office())
    queue = ClassicQueue(b"q", None)
    Trace(noted, None).delivered(queue, message(b"x", exchange=TRACE_EXCHANGE.decode()), b"x", False)
    assert noted.noted_total == 0


def test_a_channel_notes_only_while_it_has_a_trace() -> None:
    bench = Workbench()
    noted = notes(Office())
    queue = bench.add_queue("q")
    channel = bench.open_channel()
    consumed = bench.add_queue("consumed")
    bench.consume(channel, consumed)
    for trace in (None, Trace(noted, None), None):
        channel.publish_path.trace = trace
        bench.feed(publish_frames(1, "", "q", b"got"))
        bench.get(channel, queue)
        bench.feed(publish_frames(1, "", "q", b"taken"))
        bench.get(channel, queue, no_ack=True)
        bench.feed(publish_frames(1, "", "consumed", b"sent"))
    found = [(note[2], note[4]) for note in iter(noted.take, None) if note is not None]
    assert found == [
        (b"got", None),
        (b"got", b"q"),
        (b"taken", None),
        (b"taken", b"q"),
        (b"sent", None),
        (b"sent", b"consumed"),
    ]
