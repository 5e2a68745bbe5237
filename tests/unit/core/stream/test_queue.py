"""A stream as a queue: what it takes, what it knows already, what it refuses, and what it says about itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from leveret.core.queue.contract import Subscriber
from leveret.core.stream.queue import StreamQueue, octets_of
from leveret.errors import HardError
from tests.unit.core.stream_client_bench import StreamBench
from tests.unit.queues.dataplane import Workbench, message, publish_frames

ACCEPTED, KNOWN = 0, 2


def publish(bench: StreamBench, body: bytes = b"x", **headers: Any) -> int:
    answer: int = bench.stream.publish(message(body, headers=headers) if headers else message(body))
    return answer


def test_messages_get_offsets_one_after_the_other() -> None:
    bench = StreamBench()
    assert [publish(bench) for _ in range(3)] == [ACCEPTED] * 3
    stream = bench.stream
    assert (stream.first_offset, stream.next_offset, stream.committed_offset, stream.ready_count()) == (0, 3, 0, 0)
    bench.sync()
    assert (stream.committed_offset, stream.ready_count(), stream.published_total) == (3, 3, 3)


def test_a_confirm_waits_for_the_disk() -> None:
    """Of a message that is known already as well: the first of its kind may not be on disk yet."""
    bench = StreamBench()
    work = Workbench(journal=bench.disk.journal, office=bench.office)
    work.queues[b"s"] = bench.stream
    work.router.changed()
    publish_path = work.open_channel().publish_path
    publish_path.start_confirming()
    for _ in range(2):
        headers = {"x-producer-name": "p", "x-publishing-id": 1}
        work.feed(publish_frames(1, "", "s", b"x", {"headers": headers}))
        publish_path.flush_confirms()
        assert work.sent() == []
    bench.sync()
    assert [(one.name, one.fields["delivery_tag"]) for one in work.sent()] == [("basic.ack", 2)]
    assert bench.stream.next_offset == 1


def test_an_id_that_was_published_is_known() -> None:
    bench = StreamBench()
    ids = {"x-producer-name": "p"}
    answers = [publish(bench, **ids, **{"x-publishing-id": number}) for number in (0, 1, 1, 0, 7)]
    assert answers == [ACCEPTED, ACCEPTED, KNOWN, KNOWN, ACCEPTED]
    assert (bench.stream.next_offset, bench.stream.known_total, bench.stream.last_id(b"p")) == (3, 2, 7)
    assert bench.stream.last_id(b"other") == -1
    assert publish(bench, **{"x-producer-name": "other", "x-publishing-id": 0}) == ACCEPTED


@pytest.mark.parametrize(
    "headers",
    [
        {"x-producer-name": "p"},
        {"x-publishing-id": 1},
        {"x-producer-name": "", "x-publishing-id": 1},
        {"x-producer-name": "p" * 256, "x-publishing-id": 1},
        {"x-producer-name": "p", "x-publishing-id": -1},
        {"x-producer-name": "p", "x-publishing-id": True},
        {"x-producer-name": "p", "x-publishing-id": "1"},
    ],
)
def test_half_a_name_is_none(headers: dict[str, Any]) -> None:
    bench = StreamBench()
    assert [publish(bench, **headers) for _ in range(2)] == [ACCEPTED, ACCEPTED]
    assert bench.log.tracking.producers == {}


def test_the_filter_value_goes_along() -> None:
    bench = StreamBench()
    publish(bench, b"body", **{"x-stream-filter-value": "red"})
    bench.sync()
    image = bytes(bench.stream_store.images[0])
    assert b"bodyred" in image


def test_the_other_protocol_appends_what_it_has() -> None:
    bench = StreamBench()
    assert bench.stream.append_entry(b"raw", 1, 1, b"", None) == 0
    assert bench.stream.append_entry(b"batch", 5, 2, b"\x00\x00\x00\x00\x05", b"v") == 1
    assert bench.stream.next_offset == 6
    assert bench.stream.take_id(b"p", 4) and not bench.stream.take_id(b"p", 4)
    assert (bench.stream.published_total, bench.stream.known_total) == (6, 1)


def test_stored_offsets() -> None:
    bench = StreamBench()
    assert bench.stream.stored_offset(b"c") == -1
    bench.stream.store_offset(b"c", 0)
    assert bench.stream.stored_offset(b"c") == 0


def test_nothing_can_be_given_back() -> None:
    bench = StreamBench()
    record: Any = SimpleNamespace(name="s", vhost="/")
    stream = StreamQueue(b"s", record, bench.log, bench.office)
    assert stream.ack_only
    with pytest.raises(HardError, match=r"basic\.nack and basic\.reject not supported by stream queues queue 's'"):
        stream.refuse_return((60, 90))


class Listener(Subscriber):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def stop(self) -> None:
        self.calls.append("stop")


def test_a_deleted_stream_lets_everybody_go() -> None:
    bench = StreamBench()
    subscriber = Listener()
    bench.stream.subscribe(subscriber)
    publish(bench)
    bench.stream.close()
    assert subscriber.calls == ["stop"] and bench.stream.deleted and bench.log.closed
    bench.sync()
    bench.stream.refuse_return((60, 90))


def test_names_are_octets() -> None:
    assert octets_of("über") == "über".encode()
    assert octets_of(b"\xff") == b"\xff"
    assert octets_of("x" * 255) is not None
    for wrong in ("", "x" * 256, 7, None, ["x"]):
        assert octets_of(wrong) is None
