"""Streams and super streams, read by threads."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Self, TypeVar

from leveret.client.blocking.way import Face
from leveret.client.streams.stream import Stream as AsyncStream
from leveret.client.streams.stream import StreamCounters, StreamMessage
from leveret.client.streams.super_stream import SuperStream as AsyncSuperStream

__all__ = ["Stream", "SuperStream"]

Inner = TypeVar("Inner", AsyncStream, AsyncSuperStream)


class Reader(Face[Inner]):
    """What reading one stream and reading all partitions of a super stream have in common."""

    @property
    def name(self) -> str:
        return self._inner.name

    def start(self, deadline_s: float | None = None) -> Self:
        self._way.call(deadline_s, self._inner.start, deadline_s)
        return self

    def __iter__(self) -> Iterator[StreamMessage]:
        """Message by message, until it is closed. One is done with when the loop comes back for the next. The
        partitions of a super stream take turns."""
        return self._way.bridge.iterate(self._inner)

    def store_offset(self, deadline_s: float | None = None) -> None:
        """Everything that was handed out is done with, the message in hand too, in every partition if there are some;
        returns when that is stored."""
        self._way.call(deadline_s, self._inner.store_offset)

    def close(self, *, store: bool = True) -> None:
        """Stores how far we are, unless told not to, and reads no more."""
        if not self._way.bridge.is_foreign:
            self._way.call(None, _close, self._inner, store)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._way.bridge.is_foreign:
            self._way.call(None, self._inner.__aexit__, kind, error, traceback)


class Stream(Reader[AsyncStream]):
    """Made by `connection.stream(name)`: `with ... as stream: for message in stream`."""

    @property
    def consumer(self) -> str | None:
        return self._inner.consumer

    @property
    def offset(self) -> int | None:
        """Of the message that was handed out last; None if there was none."""
        return self._inner.offset

    @property
    def counters(self) -> StreamCounters:
        return self._inner.counters


class SuperStream(Reader[AsyncSuperStream]):
    """Made by `connection.super_stream(name)`: all partitions of a super stream, read as one."""

    @property
    def offsets(self) -> dict[str, int]:
        """Of the message that was handed out last, by partition."""
        return self._way.bridge.do(lambda: self._inner.offsets)


async def _close(inner: Inner, store: bool) -> None:
    await inner.close(store=store)
