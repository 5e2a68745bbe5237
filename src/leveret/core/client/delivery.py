"""What a broker delivers: a message with its address, and how it is settled."""

from typing import Any

import cython

from leveret.core.codec.properties import Properties
from leveret.errors import AlreadySettled, StaleDelivery

if not cython.compiled:
    from leveret.core.codec.method_ids import ACK, NACK, REJECT


@cython.final
@cython.freelist(256)
@cython.cclass
class Delivery:
    """A message from a queue. Settle it once with `ack`, `nack` or `reject`: that is written at the end of the loop's
    turn, and nothing needs to be awaited. Properties that the message does not have are None."""

    body: bytes
    delivery_tag: int
    redelivered: bool
    message_count: int
    properties: "Properties"

    __slots__ = (
        "_address",
        "_codec",
        "_settled",
        "_tag",
        "body",
        "delivery_tag",
        "message_count",
        "properties",
        "redelivered",
    )

    def ack(self, multiple: bool = False) -> None:
        """Done with it; with `multiple` also with all that came before it on its channel."""
        self.settle(ACK, 1 if multiple else 0)

    def nack(self, requeue: bool = True, multiple: bool = False) -> None:
        """Not done: back into the queue, or off to the dead letters."""
        self.settle(NACK, (1 if multiple else 0) | (2 if requeue else 0))

    def reject(self, requeue: bool = False) -> None:
        self.settle(REJECT, 1 if requeue else 0)

    def settle(self, method, bits):
        if self._settled or self._codec.is_settled(self.delivery_tag):
            raise AlreadySettled(f"delivery {self.delivery_tag} is settled already")
        if not self._codec.is_open:
            raise StaleDelivery(f"the channel of delivery {self.delivery_tag} is gone: it will come again")
        self._settled = True
        self._codec.write_settlement(method, self.delivery_tag, bits)
        self._codec.note_settled(self.delivery_tag, method != REJECT and (bits & 1) == 1, method == ACK)
        return 0

    def mark_settled(self) -> None:
        """The broker expects no word about this one."""
        if not self._settled:
            self._settled = True
            self._codec.close_tag(self.delivery_tag)

    @property
    def is_settled(self) -> bool:
        """By itself, or with a later one that was settled with `multiple`."""
        return self._settled or self._codec.is_settled(self.delivery_tag)

    @property
    def is_stale(self) -> bool:
        """Its channel is gone: it can be settled no more, and will be delivered again."""
        return not self._codec.is_open

    @property
    def codec(self):
        return self._codec

    @property
    def consumer_tag(self) -> str:
        return self._tag.decode("utf-8", "surrogateescape")

    @property
    def exchange(self) -> str:
        return self._address[1 : 1 + self._address[0]].decode("utf-8", "surrogateescape")

    @property
    def routing_key(self) -> str:
        return self._address[2 + self._address[0] :].decode("utf-8", "surrogateescape")

    @property
    def headers(self) -> "dict[str, Any]":
        """Decoded once and then shared: not to be changed."""
        return self.properties.headers()

    @property
    def content_type(self) -> "str | None":
        return self.properties.content_type

    @property
    def content_encoding(self) -> "str | None":
        return self.properties.content_encoding

    @property
    def delivery_mode(self) -> "int | None":
        return self.properties.delivery_mode

    @property
    def priority(self) -> int:
        """0 if it has none."""
        return self.properties.priority

    @property
    def correlation_id(self) -> "str | None":
        return self.properties.correlation_id

    @property
    def reply_to(self) -> "str | None":
        return _text(self.properties.reply_to)

    @property
    def expiration(self) -> "str | None":
        return _text(self.properties.expiration)

    @property
    def message_id(self) -> "str | None":
        return self.properties.message_id

    @property
    def timestamp(self) -> "int | None":
        """Seconds since 1970."""
        return self.properties.timestamp

    @property
    def type(self) -> "str | None":
        return self.properties.type

    @property
    def user_id(self) -> "str | None":
        return _text(self.properties.user_id)

    @property
    def app_id(self) -> "str | None":
        return self.properties.app_id

    def __repr__(self) -> str:
        return (
            f"<Delivery {self.delivery_tag} from {self.exchange!r} with key {self.routing_key!r}, "
            f"{len(self.body)} bytes{', redelivered' if self.redelivered else ''}>"
        )


def _text(octets):
    return None if octets is None else octets.decode("utf-8", "surrogateescape")
