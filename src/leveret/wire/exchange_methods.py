"""Class exchange (40): declare, delete, and RabbitMQ's bind and unbind between exchanges."""

from typing import ClassVar

import msgspec

from leveret.wire.constants import CLASS_EXCHANGE
from leveret.wire.method import Bit, Method, ShortStr, Table, combine_ids


class ExchangeDeclare(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_EXCHANGE, 10)
    RESERVED_BEFORE: ClassVar[tuple[str, ...]] = ("uint16",)
    exchange: ShortStr
    type: ShortStr = "direct"
    passive: Bit = False
    durable: Bit = False
    auto_delete: Bit = False
    internal: Bit = False
    nowait: Bit = False
    arguments: Table = msgspec.field(default_factory=dict)


class ExchangeDeclareOk(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_EXCHANGE, 11)


class ExchangeDelete(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_EXCHANGE, 20)
    RESERVED_BEFORE: ClassVar[tuple[str, ...]] = ("uint16",)
    exchange: ShortStr
    if_unused: Bit = False
    nowait: Bit = False


class ExchangeDeleteOk(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_EXCHANGE, 21)


class ExchangeBind(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_EXCHANGE, 30)
    RESERVED_BEFORE: ClassVar[tuple[str, ...]] = ("uint16",)
    destination: ShortStr
    source: ShortStr
    routing_key: ShortStr = ""
    nowait: Bit = False
    arguments: Table = msgspec.field(default_factory=dict)


class ExchangeBindOk(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_EXCHANGE, 31)


class ExchangeUnbind(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_EXCHANGE, 40)
    RESERVED_BEFORE: ClassVar[tuple[str, ...]] = ("uint16",)
    destination: ShortStr
    source: ShortStr
    routing_key: ShortStr = ""
    nowait: Bit = False
    arguments: Table = msgspec.field(default_factory=dict)


class ExchangeUnbindOk(Method, frozen=True):
    # 51, not 41: RabbitMQ chose it so and every client follows.
    METHOD: ClassVar[int] = combine_ids(CLASS_EXCHANGE, 51)
