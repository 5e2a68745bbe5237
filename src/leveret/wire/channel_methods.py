"""Class channel (20): open, flow, close."""

from typing import ClassVar

from leveret.wire.constants import CLASS_CHANNEL
from leveret.wire.method import Bit, Method, ShortStr, UInt16, combine_ids


class ChannelOpen(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_CHANNEL, 10)
    RESERVED_AFTER: ClassVar[tuple[str, ...]] = ("shortstr",)


class ChannelOpenOk(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_CHANNEL, 11)
    RESERVED_AFTER: ClassVar[tuple[str, ...]] = ("longstr",)


class ChannelFlow(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_CHANNEL, 20)
    active: Bit


class ChannelFlowOk(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_CHANNEL, 21)
    active: Bit


class ChannelClose(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_CHANNEL, 40)
    CUT_TO_FIT: ClassVar[tuple[str, ...]] = ("reply_text",)
    reply_code: UInt16
    reply_text: ShortStr
    # The class and method that caused it, 0 if none did.
    class_id: UInt16 = 0
    method_id: UInt16 = 0


class ChannelCloseOk(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_CHANNEL, 41)
