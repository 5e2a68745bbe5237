"""From a transaction to its effect, while relays and consumers are killed: each effect once, and in order."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from leveret.client.outbox import Outbox
from leveret.testing import Broker
from tests.client.exactly_once.queues import declare
from tests.client.exactly_once.scene import ROOT, Database
from tests.client.waiting import until_blocking

# `LEVERET_CRASH_CYCLES=20` for the long form.
KILLS = int(os.environ.get("LEVERET_CRASH_CYCLES", "5"))
RELAYS = 2
KEYS = ("a", "b", "c", "d")
WAIT_S = 60.0


class Processes:
    """Relays and consumers, each with a file for what it says."""

    def __init__(self, database: Database, broker: Broker, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        self.running: dict[subprocess.Popen[bytes], Path] = {}
        relay = ["leveret.client.outbox", "--database", database.url, "--broker", broker.url]
        self.commands = {
            "relay": [*relay, "--create", "--batch=20", "--poll=0.05"],
            "consumer": ["tests.client.exactly_once.consumer_process", database.kind, database.place, broker.url],
        }

    def start(self, what: str) -> subprocess.Popen[bytes]:
        self._count += 1
        path = self._folder / f"{what}-{self._count}.log"
        with path.open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-W", "error", "-m", *self.commands[what]], cwd=ROOT, stdout=log, stderr=log
            )
        self.running[process] = path
        return process

    def active_relay(self) -> subprocess.Popen[bytes] | None:
        for process, path in self.running.items():
            assert process.poll() is None, path.read_text()
            if "relay is active" in path.read_text():
                return process
        return None

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait(WAIT_S)
        del self.running[process]

    def stop(self, process: subprocess.Popen[bytes]) -> str:
        process.terminate()
        assert process.wait(WAIT_S) == 0, self.running[process].read_text()
        return self.running.pop(process).read_text()

    def kill_all(self) -> None:
        for process in list(self.running):
            self.kill(process)


@pytest.fixture
def processes(database: Database, broker: Broker, tmp_path: Path) -> Iterator[Processes]:
    processes = Processes(database, broker, tmp_path)
    try:
        yield processes
    finally:
        processes.kill_all()


class Shop:
    """Commits orders together with their messages; now and then it changes its mind and rolls back."""

    def __init__(self, database: Database, dice: random.Random) -> None:
        self._database = database
        self._dice = dice
        self._outbox = Outbox()
        self.committed: dict[str, list[int]] = defaultdict(list)
        self._number = 0

    @contextmanager
    def open(self) -> Iterator[Callable[[], None]]:
        with closing(self._database.connect()) as connection:

            def order() -> None:
                key = self._dice.choice(KEYS)
                numbers = range(self._number, self._number + self._dice.randint(1, 3))
                self._number = numbers.stop
                for number in numbers:
                    self._outbox.add(connection, f"{key} {number}", routing_key="orders", ordering_key=key)
                if self._dice.random() < 0.1:
                    connection.rollback()
                else:
                    connection.commit()
                    self.committed[key] += numbers

            yield order


def until(condition: Callable[[], bool], meanwhile: Callable[[], None] = lambda: None) -> None:
    def look() -> bool:
        if condition():
            return True
        meanwhile()
        return False

    until_blocking(look, seconds=WAIT_S)


def effects_by_key(database: Database) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for key, number in database.effects():
        found[key].append(number)
    return found


def test_every_committed_order_has_its_effect_once_and_in_order(
    database: Database, broker: Broker, processes: Processes
) -> None:
    seed = int(os.environ.get("LEVERET_CRASH_SEED") or random.randrange(2**32))
    print(f"LEVERET_CRASH_SEED={seed}")  # noqa: T201 - pytest shows it with a failure
    dice = random.Random(seed)
    declare(broker.url, "orders")
    shop = Shop(database, dice)
    for _ in range(RELAYS):
        processes.start("relay")
    consumer = processes.start("consumer")
    until(lambda: processes.active_relay() is not None)
    with shop.open() as order:
        for round_number in range(KILLS):
            end = time.monotonic() + dice.uniform(0.05, 0.3)
            until(lambda end=end: time.monotonic() > end, order)
            until(lambda: processes.active_relay() is not None, order)
            relay = processes.active_relay()
            assert relay is not None
            processes.kill(relay)
            processes.start("relay")
            if round_number % 2:
                processes.kill(consumer)
                consumer = processes.start("consumer")
        until(lambda: processes.active_relay() is not None, order)
    expected = sum(len(numbers) for numbers in shop.committed.values())
    until(lambda: len(database.effects()) >= expected)
    until(lambda: database.execute("SELECT count(*) FROM leveret_outbox") == [(0,)])
    assert effects_by_key(database) == shop.committed


def test_a_relay_process_stops_cleanly(database: Database, broker: Broker, processes: Processes) -> None:
    declare(broker.url, "orders")
    relay = processes.start("relay")
    until(lambda: processes.active_relay() is relay)
    database.add(("a", 1), ("a", 2))
    until(lambda: database.execute("SELECT count(*) FROM leveret_outbox") == [(0,)])
    said = processes.stop(relay)
    assert "outbox relay stopped published=2 failed=0" in said
