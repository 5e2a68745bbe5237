"""Class connection (10): the handshake, the close, and RabbitMQ's blocked, unblocked and update-secret.

Only the shapes; who may send what and when is session/'s and client/'s business."""

from typing import ClassVar

from leveret.wire.constants import CLASS_CONNECTION
from leveret.wire.method import LongStr, Method, ShortStr, Table, UInt8, UInt16, UInt32, combine_ids


class ConnectionStart(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_CONNECTION, 10)
    version_major: UInt8
    version_minor: UInt8
    server_properties: Table
    mechanisms: LongStr
    locales: LongStr


class ConnectionStartOk(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_CONNECTION, 11)
    client_properties: Table
    mechanism: ShortStr
    response: LongStr
    locale: ShortStr


class ConnectionSecure(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_CONNECTION, 20)
    challenge: LongStr


class ConnectionSecureOk(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_CONNECTION, 21)
    response: LongStr


class ConnectionTune(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_CONNECTION, 30)
    channel_max: UInt16
    frame_max: UInt32
    heartbeat: UInt16


class ConnectionTuneOk(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_CONNECTION, 31)
    channel_max: UInt16
    frame_max: UInt32
    heartbeat: UInt16


class ConnectionOpen(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_CONNECTION, 40)
    RESERVED_AFTER: ClassVar[tuple[str, ...]] = ("shortstr", "bit")
    virtual_host: ShortStr


class ConnectionOpenOk(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_CONNECTION, 41)
    RESERVED_AFTER: ClassVar[tuple[str, ...]] = ("shortstr",)


class ConnectionClose(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_CONNECTION, 50)
    CUT_TO_FIT: ClassVar[tuple[str, ...]] = ("reply_text",)
    reply_code: UInt16
    reply_text: ShortStr
    # The class and method that caused it, 0 if none did.
    class_id: UInt16 = 0
    method_id: UInt16 = 0


class ConnectionCloseOk(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_CONNECTION, 51)


class ConnectionBlocked(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_CONNECTION, 60)
    reason: ShortStr


class ConnectionUnblocked(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_CONNECTION, 61)


class ConnectionUpdateSecret(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_CONNECTION, 70)
    new_secret: LongStr
    reason: ShortStr


class ConnectionUpdateSecretOk(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_CONNECTION, 71)
