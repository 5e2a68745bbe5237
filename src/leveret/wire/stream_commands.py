"""The commands of the stream protocol, one class each, with their fields in the order of the wire.

The names in the annotations are the codec's kinds. Never packs or unpacks anything: that is stream_codec.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from leveret.wire.stream_codes import RESPONSE_BIT, Key

U8 = Annotated[int, "u8"]
U16 = Annotated[int, "u16"]
U32 = Annotated[int, "u32"]
U64 = Annotated[int, "u64"]
String = Annotated[str, "string"]
Octets = Annotated[bytes, "octets"]
Strings = Annotated[list[str], "strings"]
Pairs = Annotated[dict[str, str], "pairs"]


class OffsetSpec(msgspec.Struct, frozen=True):
    """Where to begin; `value` is an offset, or milliseconds since 1970."""

    kind: int
    value: int = 0


class Command(msgspec.Struct, frozen=True):
    """One frame's content."""

    KEY: ClassVar[int] = 0


class Request(Command, frozen=True):
    """A command that is answered with the same correlation id."""

    correlation_id: U32


class Response(Command, frozen=True):
    correlation_id: U32
    code: U16


# ---- opening a connection


class PeerProperties(Request, frozen=True):
    KEY = Key.PEER_PROPERTIES
    properties: Pairs


class PeerPropertiesResponse(Response, frozen=True):
    KEY = Key.PEER_PROPERTIES | RESPONSE_BIT
    properties: Pairs


class SaslHandshake(Request, frozen=True):
    KEY = Key.SASL_HANDSHAKE


class SaslHandshakeResponse(Response, frozen=True):
    KEY = Key.SASL_HANDSHAKE | RESPONSE_BIT
    mechanisms: Strings


class SaslAuthenticate(Request, frozen=True):
    KEY = Key.SASL_AUTHENTICATE
    mechanism: String
    data: Octets


class SaslAuthenticateResponse(Response, frozen=True):
    KEY = Key.SASL_AUTHENTICATE | RESPONSE_BIT


class Tune(Command, frozen=True):
    KEY = Key.TUNE
    frame_max: U32
    heartbeat: U32


class TuneResponse(Tune, frozen=True):
    """Some clients answer with this, others with Tune itself."""

    KEY = Key.TUNE | RESPONSE_BIT


class Open(Request, frozen=True):
    KEY = Key.OPEN
    virtual_host: String


class OpenResponse(Response, frozen=True):
    KEY = Key.OPEN | RESPONSE_BIT
    properties: Pairs


class Close(Request, frozen=True):
    KEY = Key.CLOSE
    code: U16
    reason: String


class CloseResponse(Response, frozen=True):
    KEY = Key.CLOSE | RESPONSE_BIT


class Heartbeat(Command, frozen=True):
    KEY = Key.HEARTBEAT


class ExchangeCommandVersions(Request, frozen=True):
    KEY = Key.EXCHANGE_COMMAND_VERSIONS
    commands: Annotated[list[tuple[int, int, int]], "versions"]


class ExchangeCommandVersionsResponse(Response, frozen=True):
    KEY = Key.EXCHANGE_COMMAND_VERSIONS | RESPONSE_BIT
    commands: Annotated[list[tuple[int, int, int]], "versions"]


# ---- publishing


class DeclarePublisher(Request, frozen=True):
    KEY = Key.DECLARE_PUBLISHER
    publisher_id: U8
    reference: String
    stream: String


class DeclarePublisherResponse(Response, frozen=True):
    KEY = Key.DECLARE_PUBLISHER | RESPONSE_BIT


class DeletePublisher(Request, frozen=True):
    KEY = Key.DELETE_PUBLISHER
    publisher_id: U8


class DeletePublisherResponse(Response, frozen=True):
    KEY = Key.DELETE_PUBLISHER | RESPONSE_BIT


class QueryPublisherSequence(Request, frozen=True):
    KEY = Key.QUERY_PUBLISHER_SEQUENCE
    reference: String
    stream: String


class QueryPublisherSequenceResponse(Response, frozen=True):
    KEY = Key.QUERY_PUBLISHER_SEQUENCE | RESPONSE_BIT
    sequence: U64


class PublishConfirm(Command, frozen=True):
    KEY = Key.PUBLISH_CONFIRM
    publisher_id: U8
    publishing_ids: Annotated[list[int], "u64s"]


class PublishError(Command, frozen=True):
    KEY = Key.PUBLISH_ERROR
    publisher_id: U8
    errors: Annotated[list[tuple[int, int]], "errors"]


# ---- consuming


class Subscribe(Request, frozen=True):
    KEY = Key.SUBSCRIBE
    subscription_id: U8
    stream: String
    offset: Annotated[OffsetSpec, "offset_spec"]
    credit: U16
    properties: Pairs


class SubscribeResponse(Response, frozen=True):
    KEY = Key.SUBSCRIBE | RESPONSE_BIT


class Unsubscribe(Request, frozen=True):
    KEY = Key.UNSUBSCRIBE
    subscription_id: U8


class UnsubscribeResponse(Response, frozen=True):
    KEY = Key.UNSUBSCRIBE | RESPONSE_BIT


class Credit(Command, frozen=True):
    KEY = Key.CREDIT
    subscription_id: U8
    credit: U16


class CreditResponse(Command, frozen=True):
    """Only sent if something is wrong."""

    KEY = Key.CREDIT | RESPONSE_BIT
    code: U16
    subscription_id: U8


class StoreOffset(Command, frozen=True):
    KEY = Key.STORE_OFFSET
    reference: String
    stream: String
    offset: U64


class QueryOffset(Request, frozen=True):
    KEY = Key.QUERY_OFFSET
    reference: String
    stream: String


class QueryOffsetResponse(Response, frozen=True):
    KEY = Key.QUERY_OFFSET | RESPONSE_BIT
    offset: U64


class ResolveOffsetSpec(Request, frozen=True):
    KEY = Key.RESOLVE_OFFSET_SPEC
    stream: String
    offset: Annotated[OffsetSpec, "offset_spec"]
    properties: Pairs


class ResolveOffsetSpecResponse(Response, frozen=True):
    KEY = Key.RESOLVE_OFFSET_SPEC | RESPONSE_BIT
    kind: U16
    offset: U64


class ConsumerUpdate(Request, frozen=True):
    """From the broker: the subscription is active from now on, or no longer."""

    KEY = Key.CONSUMER_UPDATE
    subscription_id: U8
    active: U8


class ConsumerUpdateResponse(Response, frozen=True):
    KEY = Key.CONSUMER_UPDATE | RESPONSE_BIT
    offset: Annotated[OffsetSpec, "last_offset_spec"]


# ---- streams


class Create(Request, frozen=True):
    KEY = Key.CREATE
    stream: String
    arguments: Pairs


class CreateResponse(Response, frozen=True):
    KEY = Key.CREATE | RESPONSE_BIT


class Delete(Request, frozen=True):
    KEY = Key.DELETE
    stream: String


class DeleteResponse(Response, frozen=True):
    KEY = Key.DELETE | RESPONSE_BIT


class CreateSuperStream(Request, frozen=True):
    KEY = Key.CREATE_SUPER_STREAM
    name: String
    partitions: Strings
    binding_keys: Strings
    arguments: Pairs


class CreateSuperStreamResponse(Response, frozen=True):
    KEY = Key.CREATE_SUPER_STREAM | RESPONSE_BIT


class DeleteSuperStream(Request, frozen=True):
    KEY = Key.DELETE_SUPER_STREAM
    name: String


class DeleteSuperStreamResponse(Response, frozen=True):
    KEY = Key.DELETE_SUPER_STREAM | RESPONSE_BIT


class Route(Request, frozen=True):
    KEY = Key.ROUTE
    routing_key: String
    super_stream: String


class RouteResponse(Response, frozen=True):
    KEY = Key.ROUTE | RESPONSE_BIT
    streams: Strings


class Partitions(Request, frozen=True):
    KEY = Key.PARTITIONS
    super_stream: String


class PartitionsResponse(Response, frozen=True):
    KEY = Key.PARTITIONS | RESPONSE_BIT
    streams: Strings


class StreamStats(Request, frozen=True):
    KEY = Key.STREAM_STATS
    stream: String


class StreamStatsResponse(Response, frozen=True):
    KEY = Key.STREAM_STATS | RESPONSE_BIT
    statistics: Annotated[dict[str, int], "statistics"]


class Metadata(Request, frozen=True):
    KEY = Key.METADATA
    streams: Strings


class MetadataResponse(Request, frozen=True):
    """`brokers` are (number, host, port), `streams` (name, code, the leader's number, the replicas' numbers)."""

    KEY = Key.METADATA | RESPONSE_BIT
    brokers: Annotated[list[tuple[int, str, int]], "brokers"]
    streams: Annotated[list[tuple[str, int, int, list[int]]], "streams"]


class MetadataUpdate(Command, frozen=True):
    """From the broker: something has happened to a stream that the client uses."""

    KEY = Key.METADATA_UPDATE
    code: U16
    stream: String


def _commands(base: type[Command]) -> dict[int, type[Command]]:
    found = {} if base.KEY == 0 else {base.KEY: base}
    for kind in base.__subclasses__():
        found.update(_commands(kind))
    return found


# Every command by the key of its frame.
COMMANDS: dict[int, type[Command]] = _commands(Command)
