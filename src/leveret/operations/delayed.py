"""Delayed messages as operators see them: how many wait where, which is next, and the end of one that is not wanted.

Looks into the delays of queues and exchanges and holds nothing itself. A message is named by its position as text: it
has 64 bits, more than a number in JSON keeps. Used by whatever serves operators."""

from __future__ import annotations

import msgspec

from leveret.broker.broker import Broker
from leveret.broker.topology import exchange_text, queue_text
from leveret.broker.vhost import LiveVhost
from leveret.core.codec.names import name_octets
from leveret.core.queue.classic_queue import ClassicQueue
from leveret.core.queue.delays import Delays
from leveret.errors import SoftError
from leveret.queues.holder import ExchangeHolder

LIMIT_DEFAULT = 100
LIMIT_MAX = 1000
POSITION_MAX = 2**64 - 1
# As many digits as the highest position has: no longer text can be one.
POSITION_DIGITS_MAX = 20


class Summary(msgspec.Struct, frozen=True):
    """What waits in one place. `next_due_ms` is a moment of the wall clock, None if nothing waits."""

    count: int
    bytes: int
    next_due_ms: int | None


class Waiting(msgspec.Struct, frozen=True):
    """One message that waits; `bytes` is the size of its body."""

    id: str
    due_ms: int
    bytes: int


NOTHING = Summary(0, 0, None)


class Delayed:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def of_queue(self, vhost: str, name: str) -> Summary:
        return _summary(self._delays(vhost, name, None))

    def of_exchange(self, vhost: str, name: str) -> Summary:
        return _summary(self._delays(vhost, None, name))

    def list(
        self,
        vhost: str,
        *,
        queue: str | None = None,
        exchange: str | None = None,
        after: str | None = None,
        limit: int = LIMIT_DEFAULT,
    ) -> list[Waiting]:
        """Those of one queue or exchange in the order of their time, from the one behind `after` on, which may have
        gone meanwhile: the last id of one page begins the next."""
        if not 1 <= limit <= LIMIT_MAX:
            raise SoftError(406, f"a page has 1 to {LIMIT_MAX} messages, not {limit}")
        start = 0
        if after is not None:
            last = _position(after)
            if last is None:
                raise SoftError(406, f"not the id of a delayed message: '{after}'")
            start = last + 1
        delays = self._delays(vhost, queue, exchange)
        if delays is None or start > POSITION_MAX:
            return []
        return [Waiting(str(position), due, size) for position, due, size in delays.waiting(start, limit)]

    def cancel(self, vhost: str, id: str, *, queue: str | None = None, exchange: str | None = None) -> bool:
        """Drops a message before its time: whether it was still waiting."""
        delays = self._delays(vhost, queue, exchange)
        position = _position(id)
        if delays is None or position is None:
            return False
        cancelled: bool = delays.cancel(position)
        return cancelled

    def _delays(self, vhost: str, queue: str | None, exchange: str | None) -> Delays | None:
        """None for what exists but has never delayed anything."""
        if (queue is None) == (exchange is None):
            raise SoftError(406, "delayed messages are those of one queue or of one exchange: name one of the two")
        live = self._broker.vhosts.get(vhost)
        if live is None:
            raise SoftError(404, f"no vhost '{vhost}'")
        return _of_exchange(live, exchange) if queue is None else _of_queue(live, queue)


def _of_queue(vhost: LiveVhost, name: str) -> Delays | None:
    queue = vhost.queues.get(name_octets(name))
    if queue is None:
        raise SoftError(404, f"no {queue_text(vhost.name, name)}")
    return queue.delays if isinstance(queue, ClassicQueue) else None


def _of_exchange(vhost: LiveVhost, name: str | None) -> Delays | None:
    assert name is not None
    exchange = vhost.exchanges.get(name_octets(name))
    if exchange is None:
        raise SoftError(404, f"no {exchange_text(vhost.name, name)}")
    return exchange.holder.delays if isinstance(exchange.holder, ExchangeHolder) else None


def _summary(delays: Delays | None) -> Summary:
    if delays is None or delays.count == 0:
        return NOTHING
    ((_, due, _),) = delays.waiting(0, 1)
    return Summary(delays.count, delays.bytes, due)


def _position(id: str) -> int | None:
    """The position that an id stands for, None if it cannot be one."""
    if not id.isascii() or not id.isdigit() or len(id) > POSITION_DIGITS_MAX:
        return None
    position = int(id)
    return position if position <= POSITION_MAX else None
