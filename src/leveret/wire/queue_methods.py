"""Class queue (50): declare, bind, purge, delete, unbind."""

from typing import ClassVar

import msgspec

from leveret.wire.constants import CLASS_QUEUE
from leveret.wire.method import Bit, Method, ShortStr, Table, UInt32, combine_ids


class QueueDeclare(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_QUEUE, 10)
    RESERVED_BEFORE: ClassVar[tuple[str, ...]] = ("uint16",)
    queue: ShortStr = ""
    passive: Bit = False
    durable: Bit = False
    exclusive: Bit = False
    auto_delete: Bit = False
    nowait: Bit = False
    arguments: Table = msgspec.field(default_factory=dict)


class QueueDeclareOk(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_QUEUE, 11)
    queue: ShortStr
    message_count: UInt32
    consumer_count: UInt32


class QueueBind(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_QUEUE, 20)
    RESERVED_BEFORE: ClassVar[tuple[str, ...]] = ("uint16",)
    queue: ShortStr
    exchange: ShortStr
    routing_key: ShortStr = ""
    nowait: Bit = False
    arguments: Table = msgspec.field(default_factory=dict)


class QueueBindOk(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_QUEUE, 21)


class QueuePurge(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_QUEUE, 30)
    RESERVED_BEFORE: ClassVar[tuple[str, ...]] = ("uint16",)
    queue: ShortStr
    nowait: Bit = False


class QueuePurgeOk(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_QUEUE, 31)
    message_count: UInt32


class QueueDelete(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_QUEUE, 40)
    RESERVED_BEFORE: ClassVar[tuple[str, ...]] = ("uint16",)
    queue: ShortStr
    if_unused: Bit = False
    if_empty: Bit = False
    nowait: Bit = False


class QueueDeleteOk(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_QUEUE, 41)
    message_count: UInt32


class QueueUnbind(Method, frozen=True):
    """Has no nowait, unlike exchange.unbind."""

    METHOD: ClassVar[int] = combine_ids(CLASS_QUEUE, 50)
    RESERVED_BEFORE: ClassVar[tuple[str, ...]] = ("uint16",)
    queue: ShortStr
    exchange: ShortStr
    routing_key: ShortStr = ""
    arguments: Table = msgspec.field(default_factory=dict)


class QueueUnbindOk(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_QUEUE, 51)
