"""The numbers of RabbitMQ's stream protocol: commands, response codes, kinds of offsets, and which versions we speak.

Nothing here is decided or checked. Used by the stream codec and by session/stream."""

from typing import Final

__all__ = ["CODE_NAMES", "COMMAND_VERSIONS", "Code", "Key", "OffsetType"]

# Set in the key of a frame that answers another one.
RESPONSE_BIT: Final = 0x8000


class Key:
    """What a frame is."""

    DECLARE_PUBLISHER: Final = 1
    PUBLISH: Final = 2
    PUBLISH_CONFIRM: Final = 3
    PUBLISH_ERROR: Final = 4
    QUERY_PUBLISHER_SEQUENCE: Final = 5
    DELETE_PUBLISHER: Final = 6
    SUBSCRIBE: Final = 7
    DELIVER: Final = 8
    CREDIT: Final = 9
    STORE_OFFSET: Final = 10
    QUERY_OFFSET: Final = 11
    UNSUBSCRIBE: Final = 12
    CREATE: Final = 13
    DELETE: Final = 14
    METADATA: Final = 15
    METADATA_UPDATE: Final = 16
    PEER_PROPERTIES: Final = 17
    SASL_HANDSHAKE: Final = 18
    SASL_AUTHENTICATE: Final = 19
    TUNE: Final = 20
    OPEN: Final = 21
    CLOSE: Final = 22
    HEARTBEAT: Final = 23
    ROUTE: Final = 24
    PARTITIONS: Final = 25
    CONSUMER_UPDATE: Final = 26
    EXCHANGE_COMMAND_VERSIONS: Final = 27
    STREAM_STATS: Final = 28
    CREATE_SUPER_STREAM: Final = 29
    DELETE_SUPER_STREAM: Final = 30
    RESOLVE_OFFSET_SPEC: Final = 31


class Code:
    """What a response says."""

    OK: Final = 1
    STREAM_DOES_NOT_EXIST: Final = 2
    SUBSCRIPTION_ID_ALREADY_EXISTS: Final = 3
    SUBSCRIPTION_ID_DOES_NOT_EXIST: Final = 4
    STREAM_ALREADY_EXISTS: Final = 5
    STREAM_NOT_AVAILABLE: Final = 6
    SASL_MECHANISM_NOT_SUPPORTED: Final = 7
    AUTHENTICATION_FAILURE: Final = 8
    SASL_ERROR: Final = 9
    SASL_CHALLENGE: Final = 10
    SASL_AUTHENTICATION_FAILURE_LOOPBACK: Final = 11
    VIRTUAL_HOST_ACCESS_FAILURE: Final = 12
    UNKNOWN_FRAME: Final = 13
    FRAME_TOO_LARGE: Final = 14
    INTERNAL_ERROR: Final = 15
    ACCESS_REFUSED: Final = 16
    PRECONDITION_FAILED: Final = 17
    PUBLISHER_DOES_NOT_EXIST: Final = 18
    NO_OFFSET: Final = 19
    SASL_CANNOT_CHANGE_MECHANISM: Final = 20
    SASL_CANNOT_CHANGE_USERNAME: Final = 21


CODE_NAMES: Final = {value: name.lower().replace("_", " ") for name, value in vars(Code).items() if name.isupper()}


class OffsetType:
    """From where a subscription wants to be served."""

    NONE: Final = 0
    FIRST: Final = 1
    LAST: Final = 2
    NEXT: Final = 3
    OFFSET: Final = 4
    TIMESTAMP: Final = 5


# Least and highest version of each command, by key from 1 on without a gap: clients look them up by position.
COMMAND_VERSIONS: Final = tuple(
    (key, 1, 2 if key in (Key.PUBLISH, Key.DELIVER) else 1) for key in range(1, Key.RESOLVE_OFFSET_SPEC + 1)
)
