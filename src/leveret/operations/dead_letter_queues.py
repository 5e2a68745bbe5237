"""Which queues are there for dead letters, and of which queues: read off the rules, never off messages.

A queue is one if the dead-letter exchange or the parking lot of another leads to it. Waiting rooms are none: queues
from which messages expire back to the queue they came from (retries that are built by hand of queues with a time to
live), and the queue of work behind such a room. Changes nothing. Called by the metrics.

Many queues share a place for their dead letters, and many queues may be bound there. So queues and places are one
graph, whose edges are a queue's place and a place's targets: the time grows with these, not with pairs of queues."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from leveret.broker.broker import Broker
from leveret.broker.vhost import LiveVhost
from leveret.core.codec.names import name_octets
from leveret.core.codec.properties import encode_properties, parse_properties
from leveret.core.queue.classic_queue import ClassicQueue
from leveret.runtime.log import get_logger
from leveret.runtime.time_slice import TimeSlice

log = get_logger(__name__)

# A queue of dead letters names so many of its sources; those beyond are one source called OTHERS.
SOURCES_MAX: Final = 20
OTHERS: Final = "*"
# Targets of all places together; places beyond are left out, which is logged.
TARGETS_MAX: Final = 200_000

_NO_PROPERTIES = parse_properties(encode_properties())


class Place:
    """Where dead letters of some queues go: a parking lot, or an exchange with a key or without."""

    def __init__(self) -> None:
        self.targets: tuple[Any, ...] = ()
        # Some of the queues whose place it is: in its circle or not, with a time to live or not.
        self.sources: dict[tuple[bool, bool], list[Any]] = {}

    def add(self, source: Any, in_circle: bool) -> None:
        some = self.sources.setdefault((in_circle, source.rules.ttl_ms >= 0), [])
        if len(some) <= SOURCES_MAX:
            some.append(source)


class DeadLetterQueues:
    """Of one virtual host at one moment."""

    def __init__(self, broker: Broker, vhost: LiveVhost) -> None:
        self._broker = broker
        self._vhost = vhost
        self._places: dict[tuple[bytes | None, ...], Place] = {}
        self._place_of: dict[Any, Place] = {}

    async def sources(self, turn: TimeSlice) -> dict[Any, list[str]]:
        """Each queue of dead letters with the names of the queues they come from, OTHERS the last if there are more."""
        await self._find_places(turn)
        circles = await self._circles(turn)
        for queue, place in self._place_of.items():
            await turn.rest()
            place.add(queue, queue in circles and circles[queue] == circles.get(place))
        found: dict[Any, list[str]] = {}
        for place in self._places.values():
            for target in place.targets:
                await turn.rest()
                names = found.get(target, [])
                for source in self._leading_to(target, place, circles):
                    if len(names) <= SOURCES_MAX and source is not target:
                        names.append(source.record.name if len(names) < SOURCES_MAX else OTHERS)
                        found[target] = names
        return found

    def _leading_to(self, target: Any, place: Place, circles: dict[Any, int]) -> Iterator[Any]:
        """Sources of the place for which the target is the end, and no part of a retry."""
        circle = circles.get(place)
        back = circle is not None and circles.get(target) == circle
        goes_on = target in self._place_of and bool(self._place_of[target].targets)
        for (in_circle, waits), some in place.sources.items():
            # What waits for its time to end in the source goes on to the queue of work, which has a place for its dead.
            if not (in_circle and back) and not (waits and goes_on):
                yield from some

    async def _find_places(self, turn: TimeSlice) -> None:
        left = TARGETS_MAX
        for queue in list(self._vhost.queues.values()):
            await turn.rest()
            if not isinstance(queue, ClassicQueue) or queue.deleted:
                continue
            rules: Any = queue.rules
            if rules.parking_lot is None and rules.dead_letter_exchange is None:
                continue
            key = (rules.parking_lot, rules.dead_letter_exchange, rules.dead_letter_key)
            place = self._places.get(key)
            if place is None:
                place = self._places[key] = Place()
                if left > 0:
                    reached = dict.fromkeys(self._reached(*key))
                    place.targets = tuple(target for target in reached if isinstance(target, ClassicQueue))
                    left -= len(place.targets)
                    if left <= 0:
                        log.warning("not all queues of dead letters are in the metrics: too many lead to too many",
                                    vhost=self._vhost.name)  # fmt: skip
            self._place_of[queue] = place

    def _reached(self, lot: bytes | None, name: bytes | None, key: bytes | None) -> list[Any]:
        queues = self._vhost.queues
        found = [] if lot is None or lot not in queues else [queues[lot]]
        exchange: Any = None if name is None else self._vhost.exchanges.get(name)
        if exchange is None:
            return found
        if key is not None and exchange.matcher.by_key_only:
            return [*found, *self._vhost.router.resolve(exchange, [key], _NO_PROPERTIES)]
        # Without a key each letter goes by its own: any binding may be meant. The default exchange has no bindings that
        # could be listed, and leads back to where a letter was published first.
        bindings = self._broker.catalog.topologies[self._vhost.name].bindings_from
        for binding in bindings.get(exchange.record.name, {}).values():
            if binding.to_queue:
                destination = queues.get(name_octets(binding.destination))
                if destination is not None:
                    found.append(destination)
        return found

    # ---- circles

    def _next(self, node: Any) -> tuple[Any, ...]:
        if isinstance(node, Place):
            return node.targets
        place = self._place_of.get(node)
        return () if place is None else (place,)

    async def _circles(self, turn: TimeSlice) -> dict[Any, int]:
        """The number of its strongly connected component for every queue and place (Tarjan's algorithm, with a stack of
        its own): two of the same number lead to each other."""
        order: dict[Any, int] = {}
        low: dict[Any, int] = {}
        found: dict[Any, int] = {}
        open_: list[Any] = []
        for root in self._place_of:
            walk = [] if root in order else [(root, iter(self._next(root)))]
            if walk:
                order[root] = low[root] = len(order)
                open_.append(root)
            while walk:
                await turn.rest()
                node, following = walk[-1]
                step = next((one for one in following if one not in found), None)
                if step is None:
                    walk.pop()
                    if walk:
                        low[walk[-1][0]] = min(low[walk[-1][0]], low[node])
                    if low[node] == order[node]:
                        self._close(node, open_, found)
                elif step in order:
                    low[node] = min(low[node], order[step])
                else:
                    order[step] = low[step] = len(order)
                    open_.append(step)
                    walk.append((step, iter(self._next(step))))
        return found

    @staticmethod
    def _close(node: Any, open_: list[Any], found: dict[Any, int]) -> None:
        number = len(found)
        while True:
            member = open_.pop()
            found[member] = number
            if member is node:
                return
