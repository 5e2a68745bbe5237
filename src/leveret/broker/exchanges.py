"""Live exchanges, made from their records: what routes, what waits for its time, and which keys were seen."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from leveret.catalog.records import ExchangeRecord
from leveret.core.codec.message import Message
from leveret.core.codec.names import name_octets
from leveret.core.connection.router import Exchange
from leveret.core.matching.matcher import Matcher
from leveret.core.queue.office import Office
from leveret.queues.dedup import is_wanted, make_window
from leveret.queues.holder import ExchangeHolder
from leveret.queues.queue_type import QueueStorage
from leveret.routing.deduplicating import NAME as DEDUPLICATING
from leveret.routing.delayed import NAME as DELAYED


def deduplicates(record: ExchangeRecord) -> bool:
    return record.kind == DEDUPLICATING or is_wanted(record.arguments)


def keeps_something(record: ExchangeRecord) -> bool:
    """Whether an exchange of this kind has something of its own in the log, and needs an id for that."""
    return record.kind == DELAYED or deduplicates(record)


def make_exchange(
    record: ExchangeRecord,
    matcher: Matcher,
    queue_storage: QueueStorage | None,
    office: Office,
    route: Callable[[Exchange, Message, bool], None],
) -> Exchange:
    """`route` takes a message of a delayed exchange when its time has come, and whether it may have had it before."""
    name = name_octets(record.name)
    exchange = Exchange(name, matcher, record.internal, None, record)
    if keeps_something(record):
        window = make_window(record.arguments, record.id, queue_storage) if deduplicates(record) else None
        exchange.window = window
        exchange.exchange_store = ExchangeHolder(record, queue_storage, office, window, partial(route, exchange))
        if record.kind == DELAYED:
            exchange.holder = exchange.exchange_store
    return exchange
