"""Messages on their way to a broker, from the publish until the broker has answered for them.

Everything that is needed to send one again is kept here until then: a connection may break at any moment."""

import cython

if not cython.compiled:
    PENDING, CONFIRMED, REFUSED, RETURNED = 0, 1, 2, 3

MANDATORY, IMMEDIATE = 1, 2


class Outgoing:
    """`address` is the exchange and the routing key, each as a short string; `raw` the encoded properties."""

    def __init__(self, address, raw, body, message_id, bits, owner=None):
        self.address = address
        self.raw = raw
        self.body = body
        self.message_id = message_id
        self.bits = bits
        # Whoever waits for it: what it is, is the owner's business.
        self.owner = owner
        # Its number on the channel that it was sent on last.
        self.tag = 0
        self.sent_count = 0
        self.outcome = PENDING
        # Why it came back: reply code and text.
        self.reply_code = 0
        self.reply_text = b""
        # When it is given up, by the loop's clock.
        self.due = 0.0
        # Its place in the batch that it is of.
        self.index = 0

    @property
    def is_confirmed(self):
        return self.outcome == CONFIRMED

    @property
    def is_refused(self):
        return self.outcome == REFUSED

    @property
    def is_returned(self):
        """It reached no queue, although it was to."""
        return self.outcome == RETURNED

    def send_again(self):
        """Whatever was answered counts no more: it is about to be sent once more."""
        self.outcome = PENDING

    def exchange(self):
        return self.address[1 : 1 + self.address[0]].decode("utf-8", "surrogateescape")

    def routing_key(self):
        return self.address[2 + self.address[0] :].decode("utf-8", "surrogateescape")


def make_outgoing(address, raw, body, message_id, bits):
    """The same as Outgoing(...) for those who make many: no arguments are taken apart."""
    made = Outgoing.__new__(Outgoing)
    made.address = address
    made.raw = raw
    made.body = body
    made.message_id = message_id
    made.bits = bits
    made.owner = None
    made.tag = 0
    made.sent_count = 0
    made.outcome = PENDING
    made.reply_code = 0
    made.reply_text = b""
    made.due = 0.0
    made.index = 0
    return made


def make_address(exchange, routing_key):
    """Two short strings one after the other. Raises ValueError naming what is too long."""
    first, second = exchange.encode("utf-8", "surrogateescape"), routing_key.encode("utf-8", "surrogateescape")
    for name, octets in (("exchange", first), ("routing_key", second)):
        if len(octets) > 255:
            raise ValueError(f"{name} has {len(octets)} bytes, more than 255")
    return bytes((len(first),)) + first + bytes((len(second),)) + second
