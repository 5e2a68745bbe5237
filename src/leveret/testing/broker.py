"""The broker that runs in a thread of a test's process, and the ways to reach into it."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, TypeVar

import msgspec
import uvloop

from leveret.node.config.loading import load_settings
from leveret.node.config.settings import Settings
from leveret.node.node import Node
from leveret.testing.watched_queue import WatchedQueue

__all__ = ["Broker"]

T = TypeVar("T")
START_DEADLINE_S = 30.0
STOP_DEADLINE_S = 10.0
# A test's clients are often gone without a word; nobody wants to wait for them.
CLIENTS_DEADLINE_S = 0.5
# Any free port for everything. A test's own process may well be larger than what a broker should be, and its disk
# fuller. A temporary directory may be too long a path for a socket.
TEST_SETTINGS: dict[str, object] = {
    "listen.port": 0,
    "listen.management_port": 0,
    "listen.metrics_port": 0,
    "listen.socket": "off",
    "alarms.memory_watermark": 1.0,
    "alarms.disk_free_bytes_min": 0,
    # A test's streams are small.
    "streams.segment_bytes_min": 1,
}


class Broker:
    """`settings` are those of the configuration file, such as Broker({"limits.heartbeat_s": 1}). Its data is in a
    temporary directory that goes with it, unless "data_dir" names one."""

    def __init__(self, settings: dict[str, object] | None = None) -> None:
        self._settings: Settings = load_settings(None, {**TEST_SETTINGS, **(settings or {})})
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Event | None = None
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self.node: Node
        self.host = ""
        self.port = 0
        # Of the stream protocol; 0 if it is off.
        self.stream_port = 0
        # Of the management API and of metrics; 0 if they are off.
        self.management_port = 0
        self.metrics_port = 0
        # Of AMQP and of the stream protocol over TLS; 0 unless "listen.tls_port" and "listen.stream_tls_port" say so.
        self.tls_port = 0
        self.stream_tls_port = 0

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"amqp://guest:guest@{host}:{self.port}/"

    @property
    def management_url(self) -> str:
        """Of the HTTP API, without /api."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.management_port}"

    # ---- starting and stopping

    def start(self) -> Broker:
        assert self._thread is None, "the broker is running"
        if not self._settings.data_dir:
            self._temporary = tempfile.TemporaryDirectory(prefix="leveret-")
            self._settings = msgspec.structs.replace(self._settings, data_dir=self._temporary.name)
        self._started.clear()
        self._failure = None
        self._thread = threading.Thread(target=self._run, name="leveret-broker", daemon=True)
        self._thread.start()
        if not self._started.wait(START_DEADLINE_S):
            raise TimeoutError(f"the broker did not start within {START_DEADLINE_S} s")
        if self._failure is not None:
            self._thread.join()
            self._thread = self._loop = None
            self._remove_data()
            raise self._failure
        return self

    def stop(self) -> None:
        thread, loop, stopped = self._thread, self._loop, self._stopped
        if thread is None or loop is None or stopped is None:
            return
        self._thread = self._loop = None
        loop.call_soon_threadsafe(stopped.set)
        thread.join(STOP_DEADLINE_S)
        self._remove_data()
        if thread.is_alive():
            raise TimeoutError(f"the broker did not stop within {STOP_DEADLINE_S} s")
        if self._failure is not None:
            raise self._failure

    def _remove_data(self) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None
            self._settings = msgspec.structs.replace(self._settings, data_dir="")

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve())
        except Exception as failure:  # noqa: BLE001 - it is raised again where the test can see it
            self._failure = failure
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        self.node = Node(self._settings)
        self.node.start()
        self.host, self.port = self.node.host, self.node.port or 0
        self.stream_port = self.node.stream_port or 0
        self.management_port = self.node.management_port or 0
        self.metrics_port = self.node.metrics_port or 0
        self.tls_port = self.node.tls_port or 0
        self.stream_tls_port = self.node.stream_tls_port or 0
        self._started.set()
        await self._stopped.wait()
        await self.node.stop(CLIENTS_DEADLINE_S)

    # ---- reaching into it

    def call(self, function: Callable[[Node], T]) -> T:
        """Runs function(node) on the broker's own thread and gives its result: the safe way to look inside."""

        async def run(node: Node) -> T:
            return function(node)

        return self.run(run)

    def run(self, function: Callable[[Node], Coroutine[Any, Any, T]]) -> T:
        """The same for a coroutine function."""
        assert self._loop is not None, "the broker is not running"

        async def run() -> T:
            try:
                return await function(self.node)
            finally:
                self.node.kick()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(START_DEADLINE_S)

    def queue(self, name: str, vhost: str = "/") -> WatchedQueue:
        """A queue to be looked at and asserted about: broker.queue("orders").expect(count=3). Changes nothing in it."""
        return WatchedQueue(self, name, vhost)

    def close_connections(self, reason: str = "closed for a test") -> None:
        """Makes the broker close every connection with 320, as an operator would."""
        self.call(lambda node: node.broker.close_connections(reason))

    def raise_alarm(self, source: str) -> None:
        """Makes the broker behave as if it were short of memory or disk: publishers are blocked until cleared."""
        self.call(lambda node: node.broker.raise_alarm(source, f"low on {source}"))

    def clear_alarm(self, source: str) -> None:
        self.call(lambda node: node.broker.clear_alarm(source))

    # ---- context managers

    def __enter__(self) -> Broker:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Broker:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)
