"""Class access (30), a leftover of AMQP 0-8 that old clients still send: RabbitMQ grants ticket 1, no matter what."""

from typing import ClassVar

from leveret.wire.constants import CLASS_ACCESS
from leveret.wire.method import Bit, Method, ShortStr, UInt16, combine_ids


class AccessRequest(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_ACCESS, 10)
    realm: ShortStr
    exclusive: Bit = False
    passive: Bit = True
    active: Bit = True
    write: Bit = True
    read: Bit = True


class AccessRequestOk(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_ACCESS, 11)
    ticket: UInt16 = 1
