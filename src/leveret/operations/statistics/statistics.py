"""What operators ask: the node's totals, the numbers of one object, and how they went lately.

Rates are those of the last interval that is complete, the same for all requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from leveret.broker.broker import Broker
from leveret.core.connection.channel import Channel
from leveret.core.connection.router import Exchange
from leveret.core.queue.contract import Queue
from leveret.core.tally import channel_values, queue_values
from leveret.operations.statistics import views
from leveret.operations.statistics.loop_pauses import Pauses
from leveret.operations.statistics.node_numbers import COUNTERS, GAUGES, NodeNumbers
from leveret.operations.statistics.sampler import Gathered, Sampler, connection_values, exchange_values
from leveret.operations.statistics.series import Series, Shape
from leveret.operations.statistics.shapes import OCTETS, shapes
from leveret.operations.statistics.totals import Totals, spread, totals_of

INTERVAL_S = 5.0
MICROSECOND = 0.000001
# Sampled of the whole node, beside the lengths of its queues.
MESSAGE_STATS = (
    *("ack", "confirm", "deliver", "deliver_get", "deliver_no_ack", "drop_unroutable", "get", "get_empty"),
    *("get_no_ack", "publish", "redeliver", "return_unroutable"),
)
CHURN = (
    *("connection_created", "connection_closed", "channel_created", "channel_closed"),
    *("queue_declared", "queue_created", "queue_deleted"),
)


class Statistics:
    """`overview` and `node` stand for the node where an object is asked for: its messages and what comes and goes, and
    what its process uses. `disk_free` says how much disk is left, None if that is not known."""

    def __init__(
        self, broker: Broker, interval_s: float = INTERVAL_S, disk_free: Callable[[], int | None] = lambda: None
    ) -> None:
        self._broker = broker
        self.interval_s = interval_s
        self.pauses = Pauses(broker.clock.monotonic)
        self.numbers = NodeNumbers(broker, disk_free)
        self._shapes = shapes(interval_s, MESSAGE_STATS + CHURN, COUNTERS, GAUGES)
        self.overview = Gathered(self._overview_values)
        self.node = Gathered(self.numbers.values)
        self._sampler = Sampler(broker, self._shapes, round(interval_s * 1000), self.overview, self.node)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """After recovery: what is there now has not just come."""
        self.pauses.start(loop)
        self._sampler.start(loop)

    def stop(self) -> None:
        self.pauses.stop()
        self._sampler.stop()
        self.numbers.close()

    def sample(self) -> None:
        """Takes the sample that is due, at once; on a loop that happens by itself."""
        self._sampler.sample()

    # ---- as it is now

    def totals(self) -> Totals:
        """Computed now: cheap, but not for each message."""
        totals = totals_of(self._broker)
        totals.times["event_loop_lag"] = spread(self.pauses.loop_lags, MICROSECOND)
        totals.times["gc_pause"] = spread(self.pauses.gc_pauses, MICROSECOND)
        if self._broker.store is not None and self._broker.store.sync_times is not None:
            totals.times["fsync"] = spread(self._broker.store.sync_times, MICROSECOND)
        return totals

    def _overview_values(self) -> tuple[int, ...]:
        totals = totals_of(self._broker)
        counted = {**totals.message_stats, **totals.churn}
        lengths = (totals.messages_ready, totals.messages_unacked)
        return (*(counted[name] for name in MESSAGE_STATS + CHURN), *lengths)

    def queue_stats(self, queue: Queue) -> views.Stats:
        return views.queue_stats(queue)

    def channel_stats(self, channel: Channel) -> views.Stats:
        return views.channel_stats(channel)

    def exchange_stats(self, exchange: Exchange) -> views.Stats:
        return views.exchange_stats(exchange)

    def connection_stats(self, connection: Any) -> views.Stats:
        """Of a connection, or of its compiled part."""
        return dict(zip(OCTETS, connection_values(_compiled(connection)), strict=True))

    def queue_sizes(self, queue: Queue) -> dict[str, int | None]:
        return views.queue_sizes(queue, self._broker.clock.now_ms())

    # ---- as it was

    def rate(self, what: Any, name: str) -> float:
        """The change a second over the last interval. `what` is a queue, an exchange, a channel of the data plane, a
        connection, `overview` or `node`; `name` one of RabbitMQ's."""
        tick = self._sampler.tick
        value, _ = self._history(what, name)
        return (value(0, tick) - value(0, tick - 1)) / self.interval_s

    def details(self, what: Any, name: str, age_s: int | None = None, incr_s: int | None = None) -> dict[str, Any]:
        """What RabbitMQ has under `<name>_details`: the rate, and with an age and an increment also samples, the newest
        first, and averages. Samples are no closer together than they are kept, nor go further back."""
        found: dict[str, Any] = {"rate": self.rate(what, name)}
        if not age_s or not incr_s or age_s < 0 or incr_s < 0:
            return found
        value, shape = self._history(what, name)
        level, step_s = self._level(shape, age_s)
        apart = max(1, round(incr_s / step_s))
        last = self._sampler.tick // shape.levels[level].step
        newest = last - last % apart
        count = min(int(age_s / (apart * step_s)), (shape.levels[level].slots - 1) // apart) + 1
        numbers = [newest - apart * at for at in range(count)]
        samples = [value(level, number) for number in numbers]
        found["samples"] = [
            {"sample": sample, "timestamp": round(number * step_s * 1000)}
            for sample, number in zip(samples, numbers, strict=True)
        ]
        span_s = (count - 1) * apart * step_s
        found["avg_rate"] = (samples[0] - samples[-1]) / span_s if span_s else 0.0
        found["avg"] = sum(samples) / count
        return found

    def with_details(
        self, what: Any, stats: views.Stats, age_s: int | None = None, incr_s: int | None = None
    ) -> dict[str, Any]:
        """Each number followed by its details."""
        found: dict[str, Any] = {}
        for name, value in stats.items():
            found[name] = value
            found[f"{name}_details"] = self.details(what, name, age_s, incr_s)
        return found

    def _level(self, shape: Shape, age_s: int) -> tuple[int, float]:
        """The finest level that goes back so far, and how far apart its samples are."""
        for at, level in enumerate(shape.levels):
            step_s = level.step * self.interval_s
            if (level.slots - 1) * step_s >= age_s:
                return at, step_s
        return at, step_s

    def _history(self, what: Any, name: str) -> tuple[Callable[[int, int], int], Shape]:
        """A function that gives the value of a sample, by level and number, and the shape of such objects."""
        it = _compiled(what)
        shape, values = self._kind(it)
        series = it.series
        if isinstance(series, Series):
            return lambda level, number: series.value(name, level, number), shape
        # At rest for as long as anything is kept, or new and not seen yet.
        now = series if series is not None else values(it)
        total = sum(now[shape.names.index(part)] for part in shape.parts(name))
        return lambda level, number: total, shape

    def _kind(self, it: Any) -> tuple[Shape, Callable[[Any], tuple[int, ...]]]:
        if isinstance(it, Queue):
            return self._shapes.queue, queue_values
        if isinstance(it, Exchange):
            return self._shapes.exchange, exchange_values
        if isinstance(it, Channel):
            return self._shapes.channel, channel_values
        if isinstance(it, Gathered):
            return self._shapes.overview if it is self.overview else self._shapes.node, lambda one: one.values()
        return self._shapes.connection, connection_values


def _compiled(what: Any) -> Any:
    """The object that has the series: of a connection its compiled part."""
    return what if hasattr(what, "series") else what.counted()[0]
