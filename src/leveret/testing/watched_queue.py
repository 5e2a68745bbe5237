"""One queue of a broker in a test: what is in it, what came to it, and assertions that show it when they fail.

Looking changes nothing: no order, no counter, no mark of redelivery."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from leveret.broker.streams import StreamService
from leveret.core.codec.names import name_octets
from leveret.core.codec.properties import PROPERTY_BITS
from leveret.core.observe.tap import Tap, with_tap
from leveret.core.queue.classic_queue import ClassicQueue
from leveret.core.queue.contract import Queue
from leveret.core.stream.queue import StreamQueue
from leveret.operations.browsing import Browsing, Seen
from leveret.testing.seen_message import SeenMessage, differences

if TYPE_CHECKING:
    from leveret.node.node import Node
    from leveret.testing.broker import Broker

__all__ = ["WatchedQueue"]

WITHIN_S = 2.0
LOOK_S = 0.01
# How many of its messages a failure shows.
SHOWN_MAX = 10
# What is remembered of what came, for one watch.
ARRIVALS_MAX = 100_000
ARRIVALS_BYTES_MAX = 1 << 28


class WatchedQueue:
    """Remembers what arrives from the moment it is made, so that also what a consumer took at once is seen; if there is
    no such queue yet, from the first look at it."""

    def __init__(self, broker: Broker, name: str, vhost: str = "/") -> None:
        self._broker = broker
        self.name = name
        self.vhost = vhost
        self._tapped: Queue | None = None
        self._tap: Tap | None = None
        self._came: list[SeenMessage] = []
        broker.run(self._watch)

    # ---- what there is

    @property
    def count(self) -> int:
        """Messages that wait; those that consumers hold are not among them."""
        return self._broker.call(lambda node: 0 if (queue := self._find(node)) is None else int(queue.ready_count()))

    @property
    def unacked_count(self) -> int:
        """Messages that consumers hold and have not acknowledged."""
        return self._broker.call(lambda node: 0 if (queue := self._find(node)) is None else int(queue.unacked_count))

    def messages(self) -> list[SeenMessage]:
        """All that wait, in the order of delivery; of a stream all that it has."""
        return self._broker.run(self._messages)

    def arrivals(self) -> list[SeenMessage]:
        """Everything that came while it was watched, in order, wherever it is now; and what waited when that began."""
        self._broker.run(self._watch)
        return list(self._came)

    def __repr__(self) -> str:
        return f"<queue {self.name!r} in vhost {self.vhost!r}>"

    # ---- what should be

    def expect(
        self, count: int | None = None, *, bodies: Sequence[Any] | None = None, within_s: float = WITHIN_S
    ) -> list[SeenMessage]:
        """Waits until so many messages wait in it, or those with these bodies in this order; gives them."""
        __tracebackhide__ = True
        if (count is None) == (bodies is None):
            raise TypeError("expect either a count or bodies")
        wanted = count if bodies is None else len(bodies)
        assert wanted is not None
        found: list[SeenMessage] = []

        def is_so() -> bool:
            found[:] = self.messages() if self.count == wanted else []
            return len(found) == wanted and not any(
                differences(message, {"body": body}) for message, body in zip(found, bodies or (), strict=False)
            )

        if self._wait(is_so, within_s):
            return found
        raise AssertionError(self._told(f"expected {_messages(wanted)} within {within_s:g} s", self.messages(), bodies))

    def assert_empty(self, within_s: float = WITHIN_S) -> None:
        """Waits until nothing waits in it and nobody holds anything of it."""
        __tracebackhide__ = True
        if not self._wait(lambda: self.count == 0 and self.unacked_count == 0, within_s):
            raise AssertionError(self._told(f"expected to be empty within {within_s:g} s", self.messages(), None))

    def assert_published(
        self,
        *,
        body: Any = None,
        routing_key: str | None = None,
        exchange: str | None = None,
        headers: dict[str, Any] | None = None,
        within_s: float = WITHIN_S,
        **properties: Any,
    ) -> SeenMessage:
        """Waits until a message came that is like this, and gives it; it may be gone again. A body is octets, text, or
        what its JSON says; of headers those that are named count; properties have their names in AMQP, such as
        message_id."""
        __tracebackhide__ = True
        unknown = properties.keys() - set(PROPERTY_BITS)
        if unknown:
            raise TypeError(f"there is no property {', '.join(sorted(unknown))}")
        given = {"body": body, "routing_key": routing_key, "exchange": exchange, "headers": headers, **properties}
        wanted = {name: value for name, value in given.items() if value is not None}
        found: list[SeenMessage] = []

        def has_come() -> bool:
            found[:] = [message for message in self.arrivals() if not differences(message, wanted)]
            return bool(found)

        if self._wait(has_come, within_s):
            return found[0]
        raise AssertionError(self._missed(wanted, within_s))

    @staticmethod
    def _wait(is_so: Callable[[], bool], within_s: float) -> bool:
        end = time.monotonic() + within_s
        while not is_so():
            if time.monotonic() >= end:
                return False
            time.sleep(LOOK_S)
        return True

    # ---- what a failure says

    def _told(self, expected: str, found: list[SeenMessage], bodies: Sequence[Any] | None) -> str:
        if self._broker.call(self._find) is None:
            return f"there is no queue {self.name!r} in vhost {self.vhost!r}; {expected}"
        held = self.unacked_count
        lines = [f"queue {self.name!r} has {_messages(len(found))}, {expected}"]
        if held:
            lines.append(f"  consumers hold {held} more, and have not acknowledged them")
        for number, message in enumerate(found[:SHOWN_MAX], 1):
            lines.append(f"  {number}. {message}")
            if bodies is not None and number <= len(bodies):
                lines += [f"       {line}" for line in differences(message, {"body": bodies[number - 1]})]
        lines += [f"  and {len(found) - SHOWN_MAX} more"] if len(found) > SHOWN_MAX else []
        lines += [
            f"  {number}. is missing: {body!r}" for number, body in list(enumerate(bodies or (), 1))[len(found) :]
        ]
        return "\n".join(lines)

    def _missed(self, wanted: dict[str, Any], within_s: float) -> str:
        if self._broker.call(self._find) is None:
            return f"there is no queue {self.name!r} in vhost {self.vhost!r}, so nothing can have come to it"
        told = ", ".join(f"{name} {value!r}" for name, value in wanted.items()) or "anything"
        came = self.arrivals()
        lines = [
            f"no message with {told} came to queue {self.name!r} within {within_s:g} s; {_messages(len(came))} came"
        ]
        if came:
            nearest = min(came, key=lambda message: _distance(differences(message, wanted)))
            lines.append(f"  the nearest: {nearest}")
            lines += [f"    {line}" for line in differences(nearest, wanted)]
            lines += [f"  also: {message}" for message in came[:SHOWN_MAX] if message is not nearest]
        return "\n".join(lines)

    # ---- on the broker's thread

    def _find(self, node: Node) -> Any:
        """The queue, None if there is none."""
        live = node.broker.vhosts.get(self.vhost)
        return None if live is None else live.queues.get(name_octets(self.name))

    async def _messages(self, node: Node) -> list[SeenMessage]:
        queue = self._find(node)
        return [] if queue is None else await _waiting_in(node, queue)

    async def _watch(self, node: Node) -> None:
        """Takes what came since the last time. A queue that was not there then, or was another one, is watched from
        now on."""
        queue = self._find(node)
        if isinstance(queue, StreamQueue):
            # Nobody takes anything away from a stream.
            self._came = await _waiting_in(node, queue)
            return
        if self._tap is not None:
            self._came += [SeenMessage.of(*seen[:4]) for seen in self._tap.take(ARRIVALS_MAX)]
        if queue is not None and queue is not self._tapped:
            assert isinstance(queue, ClassicQueue)
            self._tapped = queue
            self._tap = Tap(None, ARRIVALS_BYTES_MAX, ARRIVALS_MAX, ARRIVALS_BYTES_MAX)
            self._tap.take(ARRIVALS_MAX)
            queue.tap = with_tap(queue.tap, self._tap)
            # Both in one turn of the loop: nothing is seen twice, and nothing missed.
            self._came += await _waiting_in(node, queue)


async def _waiting_in(node: Node, queue: Queue) -> list[SeenMessage]:
    browsing = Browsing(node.broker, StreamService(node.broker, node.topology), node.http_leases)
    count = queue.ready_count()
    seen = browsing.stream(queue, "first", count) if isinstance(queue, StreamQueue) else browsing.ready(queue, 0, count)
    return [_message(one) async for one in seen]


def _message(seen: Seen) -> SeenMessage:
    message = seen.message
    return SeenMessage.of(message.exchange, message.routing_key, message.properties, seen.body, seen.redelivered)


def _distance(told: list[str]) -> int:
    """In how many things two messages differ; lines within a body are one."""
    return sum(not line.startswith(" ") for line in told)


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count} messages"
