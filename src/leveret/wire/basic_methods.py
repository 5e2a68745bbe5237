"""Class basic (60): publishing, consuming, settling.

The broker's data plane packs and unpacks publish, deliver, get-ok, return and the settling methods in core/; their
shapes are here for the client, the tests and whatever is off the hot path."""

from typing import ClassVar

import msgspec

from leveret.wire.constants import CLASS_BASIC
from leveret.wire.method import Bit, Method, ShortStr, Table, UInt16, UInt32, UInt64, combine_ids


class BasicQos(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_BASIC, 10)
    prefetch_size: UInt32 = 0
    prefetch_count: UInt16 = 0
    # The wire's name is `global`, which Python keeps for itself.
    global_: Bit = False


class BasicQosOk(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_BASIC, 11)


class BasicConsume(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_BASIC, 20)
    RESERVED_BEFORE: ClassVar[tuple[str, ...]] = ("uint16",)
    queue: ShortStr
    consumer_tag: ShortStr = ""
    no_local: Bit = False
    no_ack: Bit = False
    exclusive: Bit = False
    nowait: Bit = False
    arguments: Table = msgspec.field(default_factory=dict)


class BasicConsumeOk(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_BASIC, 21)
    consumer_tag: ShortStr


class BasicCancel(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_BASIC, 30)
    consumer_tag: ShortStr
    nowait: Bit = False


class BasicCancelOk(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_BASIC, 31)
    consumer_tag: ShortStr


class BasicPublish(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_BASIC, 40)
    RESERVED_BEFORE: ClassVar[tuple[str, ...]] = ("uint16",)
    TEXT_IS_UTF8: ClassVar[bool] = False
    exchange: ShortStr
    routing_key: ShortStr
    mandatory: Bit = False
    immediate: Bit = False


class BasicReturn(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_BASIC, 50)
    TEXT_IS_UTF8: ClassVar[bool] = False
    CUT_TO_FIT: ClassVar[tuple[str, ...]] = ("reply_text",)
    reply_code: UInt16
    reply_text: ShortStr
    exchange: ShortStr
    routing_key: ShortStr


class BasicDeliver(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_BASIC, 60)
    TEXT_IS_UTF8: ClassVar[bool] = False
    consumer_tag: ShortStr
    delivery_tag: UInt64
    redelivered: Bit
    exchange: ShortStr
    routing_key: ShortStr


class BasicGet(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_BASIC, 70)
    RESERVED_BEFORE: ClassVar[tuple[str, ...]] = ("uint16",)
    queue: ShortStr
    no_ack: Bit = False


class BasicGetOk(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_BASIC, 71)
    TEXT_IS_UTF8: ClassVar[bool] = False
    delivery_tag: UInt64
    redelivered: Bit
    exchange: ShortStr
    routing_key: ShortStr
    message_count: UInt32


class BasicGetEmpty(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_BASIC, 72)
    RESERVED_AFTER: ClassVar[tuple[str, ...]] = ("shortstr",)


class BasicAck(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_BASIC, 80)
    delivery_tag: UInt64
    multiple: Bit = False


class BasicReject(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_BASIC, 90)
    delivery_tag: UInt64
    requeue: Bit = True


class BasicRecoverAsync(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_BASIC, 100)
    requeue: Bit = False


class BasicRecover(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_BASIC, 110)
    requeue: Bit = False


class BasicRecoverOk(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_BASIC, 111)


class BasicNack(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_BASIC, 120)
    delivery_tag: UInt64
    multiple: Bit = False
    requeue: Bit = True
