"""The budget of messages that are not complete or not committed: counted as they come, and always given back."""

from __future__ import annotations

import pytest

from leveret.core.connection.channel import Channel
from leveret.core.connection.publish_path import PublishPath
from leveret.core.connection.unfinished import Unfinished, UnfinishedTotal
from leveret.errors import HardError, SoftError
from tests.unit.queues.dataplane import Workbench, body_frame, header_frame, method_frame

PIECE = b"x" * 1000


class Stage:
    def __init__(self, connection_held_max: int = 0, held_max: int = 0, channels: int = 1) -> None:
        self.total = UnfinishedTotal()
        self.total.connection_held_max = connection_held_max
        self.total.held_max = held_max
        self.account = Unfinished(self.total)
        self.bench = Workbench()
        self.queue = self.bench.add_queue()
        self.channels = [self._open(number) for number in range(1, channels + 1)]

    def _open(self, number: int) -> Channel:
        bench = self.bench
        limits = (bench.frame_max - 8, bench.body_bytes_max)
        publish_path = PublishPath(
            number, bench.write_buffer, bench.router, bench.gate, *limits, None, bench.office, self.account
        )
        channel = Channel(number, bench.write_buffer, publish_path, None)
        bench.connection.put_channel(channel)
        return channel

    def begin(self, number: int = 1, size: int = 10 * len(PIECE)) -> None:
        self.bench.feed(method_frame(number, "basic.publish", routing_key="q") + header_frame(number, size))

    def go_on(self, number: int = 1, pieces: int = 1) -> None:
        self.bench.feed(body_frame(number, PIECE) * pieces)

    def held(self) -> tuple[int, int]:
        return self.account.held, self.total.held


def test_a_body_counts_as_it_comes_and_not_as_it_was_announced() -> None:
    stage = Stage(connection_held_max=10 * len(PIECE), channels=3)
    for number in (1, 2, 3):
        stage.begin(number)
    assert stage.held() == (0, 0)
    for number in (1, 2, 3):
        stage.go_on(number, 3)
    assert stage.held() == (9000, 9000)
    assert stage.queue.ready_count() == 0


def test_a_body_that_is_complete_counts_no_more() -> None:
    stage = Stage(connection_held_max=10 * len(PIECE))
    for _ in range(3):
        stage.begin()
        stage.go_on(pieces=10)
        assert stage.held() == (0, 0)
    assert stage.queue.ready_count() == 3


def test_a_body_in_one_frame_is_never_counted() -> None:
    stage = Stage(connection_held_max=1)
    stage.begin(size=len(PIECE))
    stage.go_on()
    assert (stage.queue.ready_count(), stage.held()) == (1, (0, 0))


def test_what_does_not_fit_is_refused_on_its_channel_and_the_other_completes() -> None:
    stage = Stage(connection_held_max=10 * len(PIECE), channels=2)
    stage.begin(1)
    stage.begin(2)
    stage.go_on(1, 6)
    stage.go_on(2, 4)
    with pytest.raises(SoftError) as refusal:
        stage.go_on(2)
    assert (refusal.value.code, refusal.value.method) == (406, 0x003C0028)
    assert "unfinished messages of this connection are larger than 10000 bytes" in refusal.value.text
    assert stage.held() == (10000, 10000)
    # The session closes the channel.
    stage.channels[1].publish_path.abandon()
    assert stage.held() == (6000, 6000)
    stage.go_on(1, 4)
    assert (stage.queue.ready_count(), stage.held()) == (1, (0, 0))


def test_a_channel_that_closes_gives_back_what_it_had() -> None:
    stage = Stage()
    stage.begin()
    stage.go_on(pieces=5)
    stage.channels[0].publish_path.abandon()
    stage.channels[0].publish_path.abandon()
    assert stage.held() == (0, 0)


def test_the_guardian_is_asked_beyond_the_total_and_may_end_the_connection() -> None:
    stage = Stage(held_max=3000)
    asked: list[Unfinished] = []
    stage.total.guardian = asked.append
    stage.begin()
    stage.go_on(pieces=3)
    assert asked == []
    stage.go_on()
    assert asked == [stage.account]

    def end(account: Unfinished) -> None:
        raise HardError(506, "too much")

    stage.total.guardian = end
    with pytest.raises(HardError):
        stage.go_on()
    assert stage.held() == (4000, 4000)
    stage.channels[0].publish_path.abandon()
    assert stage.held() == (0, 0)


@pytest.mark.parametrize("end", ["commit", "rollback", "abandon"])
def test_a_transaction_counts_until_it_ends(end: str) -> None:
    stage = Stage()
    publish_path = stage.channels[0].publish_path
    publish_path.start_transaction()
    for _ in range(3):
        stage.begin(size=len(PIECE))
        stage.go_on()
    held, total = stage.held()
    assert held == total > 3 * len(PIECE)
    getattr(publish_path, end)()
    assert stage.held() == (0, 0)


def test_a_transaction_that_grows_too_large_is_refused() -> None:
    stage = Stage(connection_held_max=5000)
    stage.channels[0].publish_path.start_transaction()
    with pytest.raises(SoftError, match="unfinished messages"):
        for _ in range(6):
            stage.begin(size=len(PIECE))
            stage.go_on()
    stage.channels[0].publish_path.abandon()
    assert stage.held() == (0, 0)
