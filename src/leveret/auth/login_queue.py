"""The line of logins that wait for their slow hash: fair between addresses, bounded, and worked off by a few threads.

Each address has a line of its own and the addresses are served in turn, so that an address waits for one login of every
other address and not for all that a storm has sent before. An address whose line is full is refused, and so is a login
of the longest line when all lines together are; a login leaves when its client disconnects. The threads have a lower
priority than the rest of the broker, and Argon2 lets the interpreter run meanwhile, so that a storm costs messages
little."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from leveret.auth.backoff import network_of
from leveret.errors import LoginRefused
from leveret.runtime.threads import give_way, start_threads, usable_cores

Result = TypeVar("Result")

# Each takes 19 MiB while it hashes.
THREADS_MAX = 4
# More would not be served before their handshakes are over. Workers of one machine with the same credentials are one.
WAITING_PER_ADDRESS_MAX = 512
WAITING_MAX = 4096
BUSY = "too many logins wait to be checked"


class _Work:
    def __init__(self, done: asyncio.Future[Any], call: Callable[..., Any], given: tuple[object, ...]) -> None:
        self.done = done
        self.call = call
        self.given = given


class LoginQueue:
    def __init__(self, threads: int | None = None) -> None:
        self._thread_count = min(THREADS_MAX, usable_cores()) if threads is None else threads
        self._threads = ThreadPoolExecutor(self._thread_count, "leveret-login", initializer=give_way)
        # By address, the one whose turn is next at the front.
        self._lines: OrderedDict[str, deque[_Work]] = OrderedDict()
        self.waiting = 0
        self._running: set[Future[Any]] = set()
        self.refused_total = 0

    def start(self) -> None:
        """Raises OSError if there are no threads to be had."""
        start_threads(self._threads, self._thread_count)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def run(self, host: str, call: Callable[..., Result], *given: object, has_waited: bool = False) -> Result:
        """Calls it in a thread when it is this address' turn; raises LoginRefused if too many wait. `has_waited` is for
        the further steps of a login, which are not refused any more."""
        address = network_of(host)
        loop = asyncio.get_running_loop()
        work = _Work(loop.create_future(), call, given)
        if not has_waited:
            self._make_room(address)
        self._lines.setdefault(address, deque()).append(work)
        self.waiting += 1
        self._serve(loop)
        try:
            result: Result = await work.done
            return result
        finally:
            self._leave(address, work)

    def _make_room(self, address: str) -> None:
        own = len(self._lines.get(address, ()))
        if own >= WAITING_PER_ADDRESS_MAX:
            self.refused_total += 1
            raise LoginRefused(BUSY)
        if self.waiting < WAITING_MAX:
            return
        self.refused_total += 1
        longest = max(self._lines, key=lambda name: len(self._lines[name]))
        if len(self._lines[longest]) <= own + 1:
            raise LoginRefused(BUSY)
        # Its last one, who would have waited longest.
        last = self._lines[longest].pop()
        self.waiting -= 1
        last.done.set_exception(LoginRefused(BUSY))

    def _leave(self, address: str, work: _Work) -> None:
        """If it still waits: its client is gone."""
        line = self._lines.get(address)
        if line is not None and work in line:
            line.remove(work)
            self.waiting -= 1
            if not line:
                del self._lines[address]

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        self._running = {running for running in self._running if not running.done()}
        while self._lines and len(self._running) < self._thread_count:
            address, line = self._lines.popitem(last=False)
            work = line.popleft()
            self.waiting -= 1
            if line:
                self._lines[address] = line
            running = self._threads.submit(work.call, *work.given)
            self._running.add(running)
            asyncio.wrap_future(running, loop=loop).add_done_callback(
                lambda ended, work=work: self._ended(loop, work, ended)  # type: ignore[misc]
            )

    def _ended(self, loop: asyncio.AbstractEventLoop, work: _Work, ended: asyncio.Future[Any]) -> None:
        error = None if ended.cancelled() else ended.exception()
        if not work.done.done():
            if ended.cancelled():
                work.done.cancel()
            elif error is not None:
                work.done.set_exception(error)
            else:
                work.done.set_result(ended.result())
        if not ended.cancelled():
            # Else the threads are being closed.
            self._serve(loop)
