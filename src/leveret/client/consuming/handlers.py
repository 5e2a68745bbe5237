"""How a handler is called: a coroutine function in the loop, a plain one in a thread, each with what it asks for."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

from leveret.client.deadline import within
from leveret.client.payload import Typed

__all__ = ["Caller", "Handler"]

# Takes a delivery; of a typed consumer the payload, or the payload and the delivery.
Handler = Callable[..., Any]
# What surrounds the handler's work on a message or a batch.
Spans = Callable[[Any], AbstractContextManager[Any]]


class Caller:
    """`threads` None finds out by itself whether the handler is a coroutine function; plain ones get threads then."""

    def __init__(
        self,
        handler: Handler,
        *,
        is_typed: bool,
        concurrency: int,
        threads: bool | None,
        deadline_s: float | None,
        spans: Spans | None = None,
    ) -> None:
        if not callable(handler):
            raise TypeError(f"the handler is {handler!r}, which cannot be called")
        self._handler = handler
        self._is_typed = is_typed
        self._takes_two = is_typed and _takes_two(handler)
        self._deadline_s = deadline_s
        # What is traced around each call, if anything is.
        self._spans = spans
        in_threads = not _is_async(handler) if threads is None else threads
        self._threads = ThreadPoolExecutor(concurrency, "leveret-handler") if in_threads else None

    async def call(self, message: Any) -> Any:
        """What the handler gives. Raises what it raises."""
        if self._spans is None:
            return await self._timed(message)
        with self._spans(message):
            return await self._timed(message)

    async def _timed(self, message: Any) -> Any:
        if self._deadline_s is None:
            return await self._call(message)
        return await within(self._deadline_s, "the handler", self._call(message))

    async def _call(self, message: Any) -> Any:
        arguments: tuple[Any, ...] = (message,)
        if self._is_typed and isinstance(message, Typed):
            arguments = (message.payload, message.delivery) if self._takes_two else (message.payload,)
        if self._threads is None:
            result = self._handler(*arguments)
        else:
            # With its context: what is current here, a span for example, is so in the thread.
            run = contextvars.copy_context().run
            result = await asyncio.get_running_loop().run_in_executor(self._threads, run, self._handler, *arguments)
        return await result if inspect.isawaitable(result) else result

    def close(self, is_idle: bool) -> None:
        """A thread that is at work cannot be stopped: then it is left to end by itself."""
        if self._threads is not None:
            self._threads.shutdown(wait=is_idle, cancel_futures=True)


def _is_async(handler: Handler) -> bool:
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004


def _takes_two(handler: Handler) -> bool:
    """Whether it can be called with a payload and a delivery. One that says nothing of itself gets the payload."""
    try:
        inspect.signature(handler).bind(None, None)
    except (TypeError, ValueError):
        return False
    return True
