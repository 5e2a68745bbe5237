"""Walks over everything that exists, every few seconds, and writes down what has changed.

A walk is done in short slices, so that it never holds the loop up, however many queues there are. What an object was
like is kept at the object itself, and so goes with it. An object that nothing happens to has no series: what it was
when that ended, at most."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from leveret.broker.broker import Broker
from leveret.core.connection.router import Exchange
from leveret.core.queue.contract import Queue
from leveret.core.tally import channel_values, queue_values
from leveret.operations.statistics.series import Series, Shape
from leveret.operations.statistics.shapes import Shapes

SLICE_S = 0.002
# What others have of the loop between two slices.
REST_S = 0.004
# So many objects are looked at before the clock is.
AT_A_TIME = 8

Values = tuple[int, ...]


class Sampled(Protocol):
    """An object that is sampled: None, its values when it came to rest, or a Series; and its activity then."""

    series: Any
    sampled: int


class Gathered:
    """The node itself, whose numbers are gathered from everywhere."""

    def __init__(self, values: Callable[[], Values]) -> None:
        self.values = values
        self.series: Any = None
        self.sampled = 0


def exchange_values(exchange: Exchange) -> Values:
    return exchange.published_total, exchange.routed_total


def connection_values(core: Any) -> Values:
    return core.bytes_received, core.chunks_received, core.write_buffer.bytes_sent, core.write_buffer.sends_total


class Sampler:
    """`interval_ms` lies between two walks, which are numbered by the clock: walk t is the one of t * interval_ms."""

    def __init__(self, broker: Broker, shapes: Shapes, interval_ms: int, overview: Gathered, node: Gathered) -> None:
        self._broker = broker
        self._shapes = shapes
        self.interval_ms = interval_ms
        self._overview = overview
        self._node = node
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._walk: Iterator[None] | None = None
        self._walking = 0
        # The last walk that is complete.
        self.tick = self._now()

    def _now(self) -> int:
        return self._broker.clock.now_ms() // self.interval_ms

    # ---- when

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.settle()
        self._wait()

    def stop(self) -> None:
        self._loop = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._walk = None

    def _wait(self) -> None:
        assert self._loop is not None
        now_ms = self._broker.clock.now_ms()
        due_ms = (max(self.tick, now_ms // self.interval_ms) + 1) * self.interval_ms
        self._timer = self._loop.call_later((due_ms - now_ms) / 1000, self._begin)

    def _begin(self) -> None:
        tick = self._now()
        if tick <= self.tick:
            # The loop's clock is a little ahead of ours.
            self._wait()
            return
        self._walking = tick
        self._walk = self._steps(tick)
        self._go_on()

    def _go_on(self) -> None:
        assert self._loop is not None and self._walk is not None
        monotonic = self._broker.clock.monotonic
        end = monotonic() + SLICE_S
        for _ in self._walk:
            if monotonic() >= end:
                self._timer = self._loop.call_later(REST_S, self._go_on)
                return
        self._walk = None
        self.tick = self._walking
        self._wait()

    def sample(self) -> None:
        """A whole walk at once, if it is time for one: for callers without a loop."""
        tick = self._now()
        if tick > self.tick:
            for _ in self._steps(tick):
                pass
            self.tick = tick

    # ---- what

    def settle(self) -> None:
        """What a start has found was there before: nothing of it has just come."""
        for vhost in self._broker.vhosts.values():
            for queue in vhost.queues.values():
                queue.sampled = queue.activity()
                values = queue_values(queue)
                queue.series = values if any(values) else None

    def _steps(self, tick: int) -> Iterator[None]:
        self._write(self._node, self._shapes.node, tick, self._node.values())
        yield
        self._write(self._overview, self._shapes.overview, tick, self._overview.values())
        yield
        seen = 0
        for look in (self._queues, self._exchanges, self._connections):
            for _ in look(tick):
                seen += 1
                if seen % AT_A_TIME == 0:
                    yield

    def _queues(self, tick: int) -> Iterator[None]:
        shape = self._shapes.queue
        for vhost in list(self._broker.vhosts.values()):
            queues: list[Queue] = list(vhost.queues.values())
            for queue in queues:
                self._look(queue, queue.activity(), shape, tick, queue_values)
                yield

    def _exchanges(self, tick: int) -> Iterator[None]:
        shape = self._shapes.exchange
        for vhost in list(self._broker.vhosts.values()):
            exchanges: list[Exchange] = list(vhost.exchanges.values())
            for exchange in exchanges:
                self._look(exchange, exchange.published_total + exchange.routed_total, shape, tick, exchange_values)
                yield

    def _connections(self, tick: int) -> Iterator[None]:
        for connection in list(self._broker.connections.values()):
            core, channels = connection.counted()
            octets = core.bytes_received + core.write_buffer.bytes_sent
            self._look(core, octets, self._shapes.connection, tick, connection_values)
            yield
            for channel in channels:
                self._look(channel, channel.activity(), self._shapes.channel, tick, channel_values)
                yield

    def _look(self, it: Any, activity: int, shape: Shape, tick: int, values: Callable[[Any], Values]) -> None:
        if activity != it.sampled:
            it.sampled = activity
            self._write(it, shape, tick, values(it))
        elif isinstance(it.series, Series) and it.series.is_over(tick):
            it.series = it.series.values

    def _write(self, it: Sampled, shape: Shape, tick: int, values: Values) -> None:
        if not isinstance(it.series, Series):
            before = it.series if it.series is not None else (0,) * len(values)
            it.series = Series(shape, tick - 1, before)
        it.series.write(tick, values)
