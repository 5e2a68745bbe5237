"""Live exchanges, made from their records: what routes, what waits for its time, and which keys were seen."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from leveret.catalog.records import ExchangeRecord
from leveret.core.matcher import Matcher
from leveret.core.message import Message
from leveret.core.office import Office
from leveret.core.router import Exchange
from leveret.queues.dedup import is_wanted, make_window
from leveret.queues.holder import ExchangeHolder
from leveret.queues.queue_type import Stock
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
    alternate: bytes | None,
    stock: Stock | None,
    office: Office,
    route: Callable[[Exchange, Message, bool], None],
) -> Exchange:
    """`route` takes a message of a delayed exchange when its time has come, and whether it may have had it before."""
    name = record.name.encode("utf-8", "surrogateescape")
    exchange = Exchange(name, matcher, record.internal, alternate, record)
    if keeps_something(record):
        window = make_window(record.arguments, record.id, stock) if deduplicates(record) else None
        exchange.window = window
        exchange.keeper = ExchangeHolder(record, stock, office, window, partial(route, exchange))
        if record.kind == DELAYED:
            exchange.holder = exchange.keeper
    return exchange
