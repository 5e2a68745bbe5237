"""From threads into the asyncio client: one thread with a loop of its own, and the ways into it.

Every way in has a deadline, may be used by any number of threads at once, and ends the work it began when the caller is
interrupted. Knows nothing of AMQP."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Generic, ParamSpec, TypeVar

from leveret.client.deadline import within
from leveret.client.errors import ClientClosed, ClientError, DeadlineExceeded

__all__ = ["Bridge", "LoopFactory"]

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
LoopFactory = Callable[[], asyncio.AbstractEventLoop]

# What is waited for has deadlines of its own, whose errors say more than ours.
GRACE_S = 0.5
# Beyond all deadlines: the loop itself does not move, because something blocks its thread.
STUCK_S = 5.0
# How long an interrupted call may take to come to its end.
CANCEL_S = 2.0


class Bridge:
    """A thread with a loop. Starts at once; `close` ends it."""

    def __init__(self, loop_factory: LoopFactory | None = None) -> None:
        self._loop_factory = loop_factory
        self._process = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._started = threading.Event()
        self._failure: Exception | None = None
        # Held while somebody enters, so that nobody enters a loop that has been told to end. One thread may
        # hold it twice: a finalizer can run anywhere.
        self._gate = threading.RLock()
        self._is_closed = False
        # What is to be done in the loop and not waited for, in order. Threads append, the loop takes.
        self._errands: deque[Callable[[], None]] = deque()
        self._errands_are_called = False
        # A daemon: a connection that nobody closed must not keep the program from ending.
        self._thread = threading.Thread(target=self._run, name="leveret-client", daemon=True)
        self._thread.start()
        self._started.wait()
        if self._loop is None:
            raise ClientError("no event loop could be made for the client's thread") from self._failure

    # ---- the thread

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=self._loop_factory) as runner:
                runner.run(self._live())
        except Exception as failure:
            log.exception("the client's thread ended")
            self._failure = failure
        finally:
            self._started.set()

    async def _live(self) -> None:
        self._stopping = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._started.set()
        # Whoever came in before the gate was shut has begun by then; the runner cancels what is not done.
        await self._stopping.wait()

    @property
    def is_foreign(self) -> bool:
        """This process is a child of the one that made the bridge: the thread is not here."""
        return os.getpid() != self._process

    def check(self) -> None:
        """Raises ClientError where nobody may enter."""
        if self.is_foreign:
            raise ClientError(
                f"the connection was made by process {self._process}, and this is its child {os.getpid()}: "
                "connect again after a fork"
            )
        if threading.current_thread() is self._thread:
            raise ClientError("a blocking call in the client's own thread would wait for itself")

    def _enter(self, call: Callable[[], None]) -> None:
        with self._gate:
            if self._is_closed or not self._thread.is_alive():
                raise ClientClosed("the connection was closed")
            assert self._loop is not None
            self._loop.call_soon_threadsafe(call)

    # ---- ways in

    def call(
        self,
        deadline_s: float | None,
        function: Callable[P, Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """The result of a coroutine function in the loop. Without a deadline it may take for ever."""
        return self._wait(_Work(deadline_s, lambda: function(*args, **kwargs), _name(function)))

    def acquire(
        self,
        undo: Callable[[T], Coroutine[Any, Any, None]],
        deadline_s: float | None,
        function: Callable[P, Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """The same for what must be given back: `undo` gets it if it is there when the caller is interrupted."""
        work = _Work(deadline_s, lambda: function(*args, **kwargs), _name(function))
        try:
            return self._wait(work)
        except BaseException:
            if work.has_result():
                with contextlib.suppress(ClientError):
                    self.call(CANCEL_S, undo, work.done.result())
            raise

    def do(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of a plain function that must run in the loop's thread, and does not block."""

        async def run() -> T:
            return function(*args, **kwargs)

        return self.call(GRACE_S, run)

    def soon(self, call: Callable[[], None]) -> None:
        """Runs it in the loop, in the order of the calls; nobody waits, and it must not raise. Many of them cost one
        wake-up."""
        self.check()
        self._errands.append(call)
        if not self._errands_are_called:
            self._errands_are_called = True
            self._enter(self._run_errands)

    def _run_errands(self) -> None:
        # First the flag: who appends after this calls again.
        self._errands_are_called = False
        while self._errands:
            self._errands.popleft()()

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """What an asynchronous iterator gives, one by one, until its end or the bridge's."""

        async def following() -> tuple[T] | None:
            try:
                return (await anext(items),)
            except StopAsyncIteration:
                return None

        async def end() -> None:
            close = getattr(items, "aclose", None)
            if close is not None:
                await close()

        try:
            while (item := self.call(None, following)) is not None:
                yield item[0]
        except ClientClosed:
            return
        finally:
            if not self.is_foreign:
                with contextlib.suppress(ClientError):
                    self.call(CANCEL_S, end)

    def _wait(self, work: _Work[T]) -> T:
        self.check()
        patience = None if work.deadline_s is None else work.deadline_s + GRACE_S + STUCK_S
        try:
            self._enter(work.begin)
            return work.done.result(patience)
        except concurrent.futures.CancelledError:
            raise ClientClosed(f"the connection was closed during {work.name}") from None
        except TimeoutError:
            if work.done.done():
                raise
            self._give_up(work)
            raise DeadlineExceeded(
                f"{work.name} took longer than {patience:g} s: the client's thread is stuck"
            ) from None
        except ClientClosed:
            # Nobody is let in any more, or it is what the work came to.
            raise
        except BaseException:
            if not work.done.done():
                # Interrupted. Nothing of it is to go on behind the caller's back.
                self._give_up(work)
            raise

    def _give_up(self, work: _Work[Any]) -> None:
        with contextlib.suppress(ClientClosed):
            self._enter(work.cancel)
        concurrent.futures.wait([work.done], CANCEL_S)

    # ---- the end

    def end_soon(self, last: Callable[[], Coroutine[Any, Any, None]], deadline_s: float) -> None:
        """For finalizers, which run in any thread and must not wait: does one thing more, then ends the thread."""

        async def end() -> None:
            try:
                await within(deadline_s, "the end of a forgotten connection", last())
            except ClientError as error:
                log.warning("a forgotten connection did not end well", extra={"reason": str(error)})
            finally:
                self.close(0)

        with contextlib.suppress(ClientClosed):
            self._enter(_Work(None, end, "end").begin)

    def join(self, deadline_s: float) -> None:
        self._thread.join(deadline_s)

    def close(self, deadline_s: float) -> None:
        """Ends the thread, and what is still under way in it. From the thread itself it is only told to end."""
        if self.is_foreign:
            return
        with self._gate:
            if not self._is_closed and self._loop is not None and self._stopping is not None:
                self._is_closed = True
                with contextlib.suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(self._stopping.set)
        if threading.current_thread() is not self._thread:
            self.join(deadline_s)
            if self._thread.is_alive():
                log.error("the client's thread does not end", extra={"seconds": deadline_s})


class _Work(Generic[T]):
    """One coroutine's way through the loop. A caller's thread makes it and waits until it is `done`; all else happens
    in the loop."""

    def __init__(self, deadline_s: float | None, make: Callable[[], Coroutine[Any, Any, T]], name: str) -> None:
        self.deadline_s = deadline_s
        self.name = name
        self.done: concurrent.futures.Future[T] = concurrent.futures.Future()
        self._make = make
        self._task: asyncio.Task[T] | None = None

    def begin(self) -> None:
        if self.done.done():
            # The caller was interrupted before this.
            return
        self._task = asyncio.get_running_loop().create_task(self._bounded(), name=f"leveret-{self.name}")
        self._task.add_done_callback(self._finish)

    async def _bounded(self) -> T:
        seconds = None if self.deadline_s is None else self.deadline_s + GRACE_S
        return await within(seconds, self.name, self._make())

    def _finish(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self._tell_cancelled()
        elif (error := task.exception()) is not None:
            self.done.set_exception(error)
        else:
            self.done.set_result(task.result())

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
        else:
            self._tell_cancelled()

    def _tell_cancelled(self) -> None:
        self.done.cancel()
        # Else nobody who waits for the end is told.
        self.done.set_running_or_notify_cancel()

    def has_result(self) -> bool:
        return self.done.done() and not self.done.cancelled() and self.done.exception() is None


def _name(function: Callable[..., Any]) -> str:
    """For people: Channel.get, also if a function within that does it."""
    return getattr(function, "__qualname__", repr(function)).partition(".<locals>")[0]
