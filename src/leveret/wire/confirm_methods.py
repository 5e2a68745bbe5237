"""Class confirm (85): RabbitMQ's publisher confirms."""

from typing import ClassVar

from leveret.wire.constants import CLASS_CONFIRM
from leveret.wire.method import Bit, Method, combine_ids


class ConfirmSelect(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_CONFIRM, 10)
    nowait: Bit = False


class ConfirmSelectOk(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_CONFIRM, 11)
