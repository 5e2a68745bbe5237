"""What a broker delivers: a message with its address, and how it is settled."""

import cython

from leveret.errors import AlreadySettled, StaleDelivery

ACK, NACK, REJECT = 0x003C0050, 0x003C0078, 0x003C005A


@cython.final
@cython.freelist(256)
@cython.cclass
class Delivery:
    """A message from a queue. Settle it once with `ack`, `nack` or `reject`: that is written at the end of the loop's
    turn, and nothing needs to be awaited. Properties that the message does not have are None."""

    __slots__ = (
        "_address",
        "_lane",
        "_tag",
        "body",
        "delivery_tag",
        "is_settled",
        "message_count",
        "properties",
        "redelivered",
    )

    def ack(self, multiple=False):
        """Done with it; with `multiple` also with all that came before it on its channel."""
        self.settle(ACK, 1 if multiple else 0)

    def nack(self, requeue=True, multiple=False):
        """Not done: back into the queue, or off to the dead letters."""
        self.settle(NACK, (1 if multiple else 0) | (2 if requeue else 0))

    def reject(self, requeue=False):
        self.settle(REJECT, 1 if requeue else 0)

    def settle(self, method, bits):
        if self.is_settled:
            raise AlreadySettled(f"delivery {self.delivery_tag} is settled already")
        if not self._lane.is_open:
            raise StaleDelivery(f"the channel of delivery {self.delivery_tag} is gone: it will come again")
        self.is_settled = True
        self._lane.write_settlement(method, self.delivery_tag, bits)
        return 0

    @property
    def is_stale(self):
        """Its channel is gone: it can be settled no more, and will be delivered again."""
        return not self._lane.is_open

    @property
    def lane(self):
        return self._lane

    @property
    def consumer_tag(self):
        return self._tag.decode("utf-8", "surrogateescape")

    @property
    def exchange(self):
        return self._address[1 : 1 + self._address[0]].decode("utf-8", "surrogateescape")

    @property
    def routing_key(self):
        return self._address[2 + self._address[0] :].decode("utf-8", "surrogateescape")

    @property
    def headers(self):
        """Decoded once and then shared: not to be changed."""
        return self.properties.headers()

    @property
    def content_type(self):
        return self.properties.content_type

    @property
    def content_encoding(self):
        return self.properties.content_encoding

    @property
    def delivery_mode(self):
        return self.properties.delivery_mode

    @property
    def priority(self):
        """0 if it has none."""
        return self.properties.priority

    @property
    def correlation_id(self):
        return self.properties.correlation_id

    @property
    def reply_to(self):
        return _text(self.properties.reply_to)

    @property
    def expiration(self):
        return _text(self.properties.expiration)

    @property
    def message_id(self):
        return self.properties.message_id

    @property
    def timestamp(self):
        """Seconds since 1970."""
        return self.properties.timestamp

    @property
    def type(self):
        return self.properties.type

    @property
    def user_id(self):
        return _text(self.properties.user_id)

    @property
    def app_id(self):
        return self.properties.app_id

    def __repr__(self):
        return (
            f"<Delivery {self.delivery_tag} from {self.exchange!r} with key {self.routing_key!r}, "
            f"{len(self.body)} bytes{', redelivered' if self.redelivered else ''}>"
        )


def _text(octets):
    return None if octets is None else octets.decode("utf-8", "surrogateescape")
