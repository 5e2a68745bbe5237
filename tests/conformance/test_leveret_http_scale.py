"""Ten thousand queues behind the management API: nobody else waits while they are listed.

Bounds are generous, for machines that do other work; the figures are benchmarks/management.py's."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from leveret.catalog import commands
from leveret.catalog.records import QueueRecord
from leveret.testing import Broker

QUEUES = 10_000
STALL_S_MAX = 0.05
TICK_S = 0.002

# In a process of its own: a client beside the broker would hold up its loop by itself.
READER = """
import base64, http.client, json, sys
port, path = int(sys.argv[1]), sys.argv[2]
connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
login = base64.b64encode(b"guest:guest").decode()
for _ in range(3):
    connection.request("GET", path, headers={"Authorization": f"Basic {login}"})
    answer = connection.getresponse()
    body = answer.read()
    assert answer.status == 200, body
found = json.loads(body)
print(len(found["items"] if isinstance(found, dict) else found))
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        for start in range(0, QUEUES, 1000):
            running.call(lambda node, start=start: declare(node, start))
        yield running


def declare(node: Any, start: int) -> None:
    for number in range(start, start + 1000):
        record = QueueRecord("/", f"queue-{number:05}", "classic", False, False, 0, {})
        node.broker.apply(commands.DeclareQueue(record))


class Watchdog:
    """How long the broker's loop has worked without turning, at worst: by the processor's clock, because on a busy
    machine it stands still for others as well."""

    def __init__(self) -> None:
        self.stall_s = 0.0
        self._last = 0.0
        self._loop: Any = None
        self._stopped = threading.Event()

    def start(self, _: Any) -> None:
        self._loop = asyncio.get_running_loop()
        self._last = time.thread_time()
        self._tick()

    def _tick(self) -> None:
        now = time.thread_time()
        self.stall_s = max(self.stall_s, now - self._last)
        self._last = now
        if not self._stopped.is_set():
            self._loop.call_later(TICK_S, self._tick)

    def stop(self) -> None:
        self._stopped.set()


@pytest.mark.parametrize(
    ("path", "count"),
    [
        ("/api/queues?page=1&page_size=100&sort=messages&sort_reverse=true", 100),
        ("/api/queues?page=1&page_size=100&name=99", 100),
        ("/api/queues?page=1&page_size=100&name=%5Equeue-.*7%24&use_regex=true", 100),
        ("/api/queues?page=1&page_size=100&sort=message_stats.publish", 100),
        ("/api/queues?columns=name,messages", QUEUES),
        ("/api/queues", QUEUES),
        ("/api/bindings", QUEUES),
        ("/api/exchanges", 7),
    ],
)
def test_the_loop_goes_on_while_a_long_list_is_made(broker: Broker, path: str, count: int) -> None:
    watchdog = Watchdog()
    broker.call(watchdog.start)
    # A broker has its own thresholds for the collector, and not the objects of a test runner.
    gc.disable()
    try:
        command = [sys.executable, "-c", READER, str(broker.management_port), path]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    finally:
        gc.enable()
        watchdog.stop()
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == count
    assert watchdog.stall_s < STALL_S_MAX
