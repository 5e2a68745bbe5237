"""The exchange types there are, by name. Called by broker/ at declarations and by management/ for its list."""

from __future__ import annotations

from leveret.catalog.records import ExchangeRecord
from leveret.errors import HardError
from leveret.routing import delayed
from leveret.routing.consistent_hash import ConsistentHash
from leveret.routing.deduplicating import Deduplicating
from leveret.routing.direct import Direct
from leveret.routing.exchange_type import ExchangeType
from leveret.routing.fanout import Fanout
from leveret.routing.headers import Headers
from leveret.routing.modulus_hash import ModulusHash
from leveret.routing.random import Random
from leveret.routing.super_stream import SuperStream
from leveret.routing.topic import Topic

__all__ = ["EXCHANGE_TYPE_NAMES", "exchange_type", "routing_type"]

_TYPES: dict[str, ExchangeType] = {
    known.name: known
    for known in (
        Direct(),
        Fanout(),
        Topic(),
        Headers(),
        ConsistentHash(),
        ModulusHash(),
        Random(),
        Deduplicating(),
        SuperStream(),
    )
}
_TYPES[delayed.NAME] = delayed.Delayed(_TYPES.get)
EXCHANGE_TYPE_NAMES: tuple[str, ...] = tuple(sorted(_TYPES))


def exchange_type(name: str) -> ExchangeType:
    """The type of this name; as in RabbitMQ an unknown one ends the connection."""
    if name not in _TYPES:
        raise HardError(503, f"unknown exchange type '{name}'")
    return _TYPES[name]


def routing_type(record: ExchangeRecord) -> ExchangeType:
    """The type that an exchange routes by: its own, or the one that a delayed exchange was given."""
    kind = record.arguments[delayed.DELAYED_TYPE] if record.kind == delayed.NAME else record.kind
    return exchange_type(kind)
