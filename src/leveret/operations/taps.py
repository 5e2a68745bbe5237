"""Live views of what is published to an exchange or arrives in a queue, for people who watch.

Sampled and bounded: a tap shows at most so many messages a second, keeps only the beginning of a payload, holds a small
buffer for its reader, and ends by itself. The broker never waits for it; what it does not show it counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from leveret.auth.access import READ
from leveret.broker.broker import Broker
from leveret.broker.topology import Requester, check_owner, exchange_text, queue_text
from leveret.core.codec.names import name_octets
from leveret.core.matching.topic_trie import TopicMatcher
from leveret.core.observe.tap import Tap, with_tap, without_tap
from leveret.core.queue.classic_queue import ClassicQueue
from leveret.errors import SoftError

TAPS_MAX = 32
RATE_MAX = 1000.0
TRUNCATE_MAX = 65536
# What waits for a reader at most.
BUFFER_COUNT = 1000
BUFFER_BYTES = 1024 * 1024
# How often a tap is emptied.
LOOK_S = 0.1
# How long it shows nothing before it says that it is still there, and how long it lasts.
QUIET_S = 10.0
LIFE_S_MAX = 3600.0


@dataclass(frozen=True, slots=True)
class TapSpec:
    """`key` is a routing key, or a pattern of words as a topic exchange has it; None for all. `rate` is messages a
    second, `count` how many in all; 0 is no limit for that."""

    key: str | None = None
    rate: float = 20.0
    count: int = 0
    truncate: int = 4096
    life_s: float = 300.0


@dataclass(frozen=True, slots=True)
class Tapped:
    exchange: bytes
    routing_key: bytes
    properties: Any
    body: bytes
    body_size: int


@dataclass(frozen=True, slots=True)
class Tally:
    """How many messages passed, and how many of them were not shown."""

    matched: int
    missed: int


class Taps:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._count = 0
        self._closed = False
        self.opened_total = 0

    def __len__(self) -> int:
        return self._count

    def of_queue(self, who: Requester, name: str) -> Any:
        """What can be tapped, if it may be read; not what belongs to another connection alone."""
        who.access.check_queue(READ, name)
        queue = who.vhost.queues.get(name_octets(name))
        if queue is None:
            raise SoftError(404, f"no {queue_text(who.vhost.name, name)}")
        check_owner(who, queue.record)
        if not isinstance(queue, ClassicQueue):
            raise SoftError(406, f"{queue_text(who.vhost.name, name)} cannot be tapped; look into it by its offsets")
        return queue

    def of_exchange(self, who: Requester, name: str) -> Any:
        """As binding a queue to it would take READ."""
        who.access.check_exchange(READ, name)
        exchange = who.vhost.exchanges.get(name_octets(name))
        if exchange is None:
            raise SoftError(404, f"no {exchange_text(who.vhost.name, name)}")
        return exchange

    async def watch(self, place: Any, spec: TapSpec, may: Callable[[], bool]) -> AsyncIterator[Tapped | Tally | None]:
        """None at once, when it is there; then messages as they come; a Tally when some were not shown, and as the last
        word; None now and then when nothing comes. Ends when the queue or exchange is gone, when `may` says no more,
        and after its time."""
        if self._count >= TAPS_MAX or self._closed:
            raise SoftError(406, f"there are {TAPS_MAX} taps already, and there may not be more")
        tap = Tap(_wanted(spec.key), spec.truncate, BUFFER_COUNT, BUFFER_BYTES)
        place.tap = with_tap(place.tap, tap)
        self._count += 1
        self.opened_total += 1
        try:
            # It is there.
            yield None
            async for event in self._show(place, tap, spec, may):
                yield event
            yield Tally(tap.matched_total, tap.missed_total)
        finally:
            place.tap = without_tap(place.tap, tap)
            self._count -= 1

    async def _show(
        self, place: Any, tap: Tap, spec: TapSpec, may: Callable[[], bool]
    ) -> AsyncIterator[Tapped | Tally | None]:
        clock = self._broker.clock
        begun = spoken = clock.monotonic()
        # A bucket that holds a second's worth, and is full at first.
        bucket = max(1.0, spec.rate)
        budget, told, shown = bucket, 0, 0
        tap.take(int(budget))
        while True:
            await asyncio.sleep(LOOK_S)
            # Before anything is shown: the user may have lost the right to see it.
            if self._is_over(place, begun, spec, may):
                return
            seen = tap.take(0)
            budget = min(bucket, budget - len(seen) + spec.rate * LOOK_S)
            tap.take(int(budget))
            for one in seen:
                yield Tapped(*one)
                shown += 1
                if spec.count and shown >= spec.count:
                    return
            now = clock.monotonic()
            if tap.missed_total > told and now - spoken >= 1.0:
                told, spoken = tap.missed_total, now
                yield Tally(tap.matched_total, tap.missed_total)
            elif seen:
                spoken = now
            elif now - spoken >= QUIET_S:
                spoken = now
                yield None

    def _is_over(self, place: Any, begun: float, spec: TapSpec, may: Callable[[], bool]) -> bool:
        if self._closed or self._broker.clock.monotonic() - begun >= spec.life_s or not may():
            return True
        vhost = self._broker.vhosts.get(place.record.vhost)
        if vhost is None:
            return True
        live = (vhost.queues if isinstance(place, ClassicQueue) else vhost.exchanges).get(place.name)
        return live is not place

    def close(self) -> None:
        self._closed = True


def _wanted(key: str | None) -> Callable[[bytes], bool] | None:
    if key is None:
        return None
    matcher = TopicMatcher()
    matcher.add(name_octets(key), {}, _ANYWHERE)

    def wanted(given: bytes) -> bool:
        found: list[object] = []
        matcher.collect(given, None, found)
        return bool(found)

    return wanted


class _Anywhere:
    """Stands for the destination of a pattern that leads nowhere."""


_ANYWHERE = _Anywhere()
