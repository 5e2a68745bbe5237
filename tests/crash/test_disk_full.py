"""A disk that really fills up: publishers are told in time, consumers go on, and everything comes right by itself."""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Final

import pytest

from tests.crash import checkers
from tests.crash.broker_process import BrokerProcess, Settings
from tests.crash.client import Address, connected
from tests.crash.consumer import Consumer, Manners
from tests.crash.fault_scenarios import names_the_disk
from tests.crash.faults import wait_for
from tests.crash.history import History
from tests.crash.load import drain
from tests.crash.publisher import Publisher
from tests.crash.volume import MIB, Volume, skip_without_volumes

_QUEUE: Final = "filling"
_DISK_BYTES: Final = 64 * MIB
_FREE_BYTES_MIN: Final = 16 * MIB
_SETTINGS: Final[Settings] = {
    "storage": {"segment_bytes": MIB},
    "alarms": {"disk_free_bytes_min": _FREE_BYTES_MIN},
}
_BLOCKED_S_MAX: Final = 30.0
_UNBLOCKED_S_MAX: Final = 60.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture
def small_volume(tmp_path: Path) -> Iterator[Volume]:
    skip_without_volumes()
    with Volume(tmp_path / "disk", _DISK_BYTES) as mounted:
        yield mounted


@pytest.fixture
def broker_on_small_volume(tmp_path: Path, small_volume: Volume) -> Iterator[BrokerProcess]:
    data = small_volume.path / "data"
    running = BrokerProcess(tmp_path, _SETTINGS, data_directory=data, prefix=small_volume.prefix)
    try:
        yield running
    finally:
        running.close()


class Filling:
    """A publisher that would fill any disk, and a consumer that can be called in to empty its queue."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.history = History()
        with connected(port) as client:
            client.call(1, "queue.declare", queue=_QUEUE, durable=True)
            client.leave()
        self.publisher = Publisher(0, Address("", _QUEUE), (_QUEUE,), 20_000.0, self.history, seed=1)
        self.consumer = Consumer("emptying", _QUEUE, Manners.ACK_MULTIPLE, self.history, seed=1)
        self._threads: dict[Publisher | Consumer, Thread] = {}

    def publish(self) -> None:
        self._begin(self.publisher)

    def consume(self) -> None:
        self._begin(self.consumer)

    def _begin(self, worker: Publisher | Consumer) -> None:
        self._threads[worker] = Thread(target=worker.run, args=(self.port,), daemon=True)
        self._threads[worker].start()

    def end(self) -> None:
        # The publisher first: it may just be blocked again, and gets its confirms only if somebody makes room.
        for worker in (self.publisher, self.consumer):
            worker.stopping.set()
            if (thread := self._threads.get(worker)) is not None:
                thread.join(30)
                assert not thread.is_alive(), f"{worker} does not end: are confirms missing?"

    def judge(self) -> None:
        self.end()
        drain(self.port, self.history, (_QUEUE,))
        checkers.check(self.history)


@pytest.fixture
def filling(broker_on_small_volume: BrokerProcess) -> Iterator[Filling]:
    broker_on_small_volume.start()
    made = Filling(broker_on_small_volume.port)
    try:
        yield made
    finally:
        broker_on_small_volume.close()
        with suppress(AssertionError):
            made.end()


def fill_up(volume: Volume, but_bytes: int = 0) -> Path:
    """A file that is not the broker's takes the disk in an instant, but for so many bytes."""
    alien = volume.seen_from_here / "alien"
    with suppress(OSError), alien.open("wb", buffering=0) as file:
        while volume.free_bytes > but_bytes:
            file.write(bytes(max(4096, min(MIB, volume.free_bytes - but_bytes))))
    return alien


def test_publishers_are_blocked_before_the_disk_is_full(
    broker_on_small_volume: BrokerProcess, small_volume: Volume, filling: Filling
) -> None:
    history = filling.history
    filling.publish()
    wait_for("connection.blocked", lambda: history.blocked_count > 0, _BLOCKED_S_MAX)
    # What was under way when the alarm came has been taken; after that the disk is left alone.
    time.sleep(1.0)
    free_when_blocked = small_volume.free_bytes
    assert free_when_blocked > 4 * MIB, f"only {free_when_blocked} bytes were left when publishers were blocked"
    time.sleep(1.0)
    assert abs(small_volume.free_bytes - free_when_blocked) < 2 * MIB
    assert broker_on_small_volume.is_alive, broker_on_small_volume.log_tail()
    filling.consume()
    wait_for("space", lambda: small_volume.free_bytes > _FREE_BYTES_MIN, _BLOCKED_S_MAX)
    wait_for("connection.unblocked", lambda: history.unblocked_count > 0, _UNBLOCKED_S_MAX)
    confirmed = history.confirmed_count
    wait_for("confirms", lambda: history.confirmed_count > confirmed, _UNBLOCKED_S_MAX)
    filling.judge()
    assert not history.refusals, history.refusals


def test_an_alien_file_that_leaves_a_little(
    broker_on_small_volume: BrokerProcess, small_volume: Volume, filling: Filling
) -> None:
    """Below the limit, but not full: nothing breaks, and the alarm ends when the file is gone."""
    filling.publisher.rate = 2000.0
    filling.publish()
    wait_for("confirms", lambda: filling.history.confirmed_count > 200)
    alien = fill_up(small_volume, but_bytes=8 * MIB)
    wait_for("connection.blocked", lambda: filling.history.blocked_count > 0, _BLOCKED_S_MAX)
    alien.unlink()
    wait_for("connection.unblocked", lambda: filling.history.unblocked_count > 0, _UNBLOCKED_S_MAX)
    filling.judge()
    assert broker_on_small_volume.is_alive and not filling.history.refusals


def test_an_alien_file_that_leaves_nothing(
    broker_on_small_volume: BrokerProcess, small_volume: Volume, filling: Filling
) -> None:
    """Full from one moment to the next: the broker blocks, or ends as with any failed write; nothing is lost."""
    filling.publisher.rate = 2000.0
    filling.publish()
    wait_for("confirms", lambda: filling.history.confirmed_count > 200)
    alien = fill_up(small_volume)
    wait_for(
        "connection.blocked or the end of the broker",
        lambda: filling.history.blocked_count > 0 or not broker_on_small_volume.is_alive,
        _BLOCKED_S_MAX,
    )
    time.sleep(1.0)
    blocked = broker_on_small_volume.is_alive
    alien.unlink()
    if blocked and broker_on_small_volume.is_alive:
        wait_for("connection.unblocked", lambda: filling.history.unblocked_count > 0, _UNBLOCKED_S_MAX)
    else:
        assert broker_on_small_volume.exit_status(10.0) == 1, broker_on_small_volume.log_tail()
        filling.history.life += 1
        broker_on_small_volume.start()
    confirmed = filling.history.confirmed_count
    wait_for("confirms", lambda: filling.history.confirmed_count > confirmed)
    filling.judge()
    assert all(map(names_the_disk, filling.history.refusals)), filling.history.refusals


def restart_with_backlog(broker: BrokerProcess, volume: Volume, filling: Filling, but_bytes: int) -> Path:
    """Kills a broker that has something in its queue, fills its disk, and starts it again; gives the alien file."""
    filling.publisher.rate = 2000.0
    filling.publish()
    wait_for("confirms", lambda: filling.history.confirmed_count > 500)
    broker.kill()
    filling.history.life += 1
    alien = fill_up(volume, but_bytes)
    broker.start()
    return alien


def test_a_restart_below_the_limit(
    broker_on_small_volume: BrokerProcess, small_volume: Volume, filling: Filling
) -> None:
    """It boots, blocks whoever publishes, and lets consumers empty the queue; space ends the alarm."""
    alien = restart_with_backlog(broker_on_small_volume, small_volume, filling, but_bytes=4 * MIB)
    history = filling.history
    wait_for("connection.blocked", lambda: history.blocked_count > 0, _BLOCKED_S_MAX)
    filling.consume()
    wait_for("the backlog to be consumed", lambda: not checkers.lost(history), _BLOCKED_S_MAX)
    assert history.unblocked_count == 0
    alien.unlink()
    wait_for("connection.unblocked", lambda: history.unblocked_count > 0, _UNBLOCKED_S_MAX)
    filling.judge()
    assert broker_on_small_volume.is_alive and not history.refusals


def test_a_restart_without_a_byte_to_spare(
    broker_on_small_volume: BrokerProcess, small_volume: Volume, filling: Filling
) -> None:
    """It boots and can be looked at. If somebody makes it write, it may end as with any failed write."""
    alien = restart_with_backlog(broker_on_small_volume, small_volume, filling, but_bytes=0)
    filling.publisher.stopping.set()
    alien.unlink()
    if not broker_on_small_volume.is_alive:
        filling.history.life += 1
        broker_on_small_volume.start()
    filling.judge()
