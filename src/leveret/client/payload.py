"""Bodies into typed values, and the message that carries one.

What does not decode is poison: it will not decode the next time either. Who calls this decides what becomes of it."""

from __future__ import annotations

from typing import Any, Final, Generic, TypeVar, cast

import msgspec

from leveret.client.errors import ClientError
from leveret.core.client.delivery import Delivery

__all__ = ["Decoder", "Typed", "Undecodable"]

T = TypeVar("T")

JSON: Final = "application/json"
MSGPACK_TYPES: Final = frozenset({"application/msgpack", "application/x-msgpack", "application/vnd.msgpack"})
# Names of character sets stand here by the habit of some publishers; a body that is compressed cannot be read.
PLAIN_ENCODINGS: Final = frozenset({"", "utf-8", "utf8", "us-ascii", "ascii", "binary", "identity"})


class Undecodable(ClientError, ValueError):
    """A message's body is not what its reader expects."""


class Typed(Generic[T]):
    """A delivery with its body decoded: `payload`. Settled like the delivery, of which `delivery` has the rest."""

    __slots__ = ("delivery", "payload")

    def __init__(self, payload: T, delivery: Delivery) -> None:
        self.payload = payload
        self.delivery = delivery

    def ack(self, multiple: bool = False) -> None:
        self.delivery.ack(multiple)

    def nack(self, requeue: bool = True, multiple: bool = False) -> None:
        self.delivery.nack(requeue, multiple)

    def reject(self, requeue: bool = False) -> None:
        self.delivery.reject(requeue)

    @property
    def is_settled(self) -> bool:
        return self.delivery.is_settled

    @property
    def is_stale(self) -> bool:
        return self.delivery.is_stale

    @property
    def headers(self) -> dict[str, Any]:
        return self.delivery.headers

    @property
    def message_id(self) -> str | None:
        return self.delivery.message_id

    @property
    def routing_key(self) -> str:
        return self.delivery.routing_key

    @property
    def redelivered(self) -> bool:
        return self.delivery.redelivered

    def __repr__(self) -> str:
        return f"<Typed {self.payload!r}, {self.delivery!r}>"


class Decoder(Generic[T]):
    """By the content type: MessagePack where it says so, else JSON. Where `bytes` are wanted the body is taken as it
    is, and so is text where a `str` is, unless it is JSON."""

    def __init__(self, type: type[T]) -> None:
        self._type = type
        self._json = msgspec.json.Decoder(type)
        self._msgpack = msgspec.msgpack.Decoder(type)

    def decode(self, delivery: Delivery) -> Typed[T]:
        """Raises Undecodable."""
        content_type, encoding = delivery.content_type, delivery.content_encoding
        if encoding is not None and encoding.lower() not in PLAIN_ENCODINGS:
            raise Undecodable(f"the content encoding {encoding!r} is none that can be read here")
        kind = "" if content_type is None else content_type.partition(";")[0].strip().lower()
        try:
            return Typed(self._decoded(kind, delivery.body), delivery)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Undecodable(f"a body of {len(delivery.body)} bytes is no {self._name}: {error}") from error

    def _decoded(self, kind: str, body: bytes) -> T:
        if self._type is bytes:
            return cast("T", body)
        if kind in MSGPACK_TYPES or kind.endswith("+msgpack"):
            return self._msgpack.decode(body)
        if self._type is str and kind != JSON:
            return cast("T", body.decode("utf-8"))
        return self._json.decode(body)

    @property
    def _name(self) -> str:
        return getattr(self._type, "__name__", str(self._type))
