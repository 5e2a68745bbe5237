"""Deliveries of one consumer on their way to a channel of another broker: published there, settled here.

Owns which of them are under way and how they are acknowledged at the source. Never waits, never opens anything and
knows no clock. Called by `links.transfer`, once for every chunk that comes from either side."""

import cython

if not cython.compiled:
    from leveret.core.client.outgoing import CONFIRMED, make_outgoing
    from leveret.core.codec.method_ids import ACK

    ON_CONFIRM, ON_PUBLISH, NO_ACK = 0, 1, 2

# Bodies that are kept because they are not confirmed: a prefetch of large messages may be more than memory has.
UNCONFIRMED_BYTES_MAX = 64 * 1024 * 1024


class Relay:
    """`exchange` and `routing_key` are short strings with their length before them; None leaves what the message came
    with. `edit` is called with each delivery and gives its properties as octets, or None to drop it; without one the
    octets go on as they came."""

    def __init__(self, delivery_buffer, source, target, mode, exchange, routing_key, bits, edit):
        self.delivery_buffer = delivery_buffer
        self.source = source
        self.target = target
        self.mode = mode
        self.exchange = exchange
        self.routing_key = routing_key
        self.bits = bits
        self.edit = edit
        # The address that came last and what was made of it: most messages share theirs.
        self.last_address = None
        self.made_address = None
        # How many may still be taken, -1 for any number.
        self.left = -1
        # The tag of the delivery that was taken last, and that delivery.
        self.taken_tag = 0
        self.last = None
        # Published and not answered for.
        self.in_flight = 0
        # Confirmed before others that were published earlier: `multiple` does not cover them yet.
        self.early = []
        # Messages that the target refused. They are published again by `retry`, and nothing else before.
        self.refused = []
        # True while each delivery is acknowledged by itself, because a refused one has to stay behind.
        self.single = False
        # What came back as unroutable: (reply code, reply text, delivery). The run is over then.
        self.returned = None
        self.forwarded_total = 0
        self.forwarded_bytes = 0
        self.confirmed_total = 0
        self.dropped_total = 0
        self.refused_total = 0

    @property
    def is_done(self):
        """Everything that was to be taken is taken and answered for."""
        return self.left == 0 and self.in_flight == 0 and not self.refused

    def transport(self, count_max):
        """Publishes what has come, at most so many, as long as the target's socket takes it. How many it took."""
        count = 0
        size = 0
        out = self.target.write_buffer
        items = self.delivery_buffer.items
        while count < count_max and self.left != 0 and items and not out.congested and not self.refused:
            if self.target.unconfirmed_bytes >= UNCONFIRMED_BYTES_MAX:
                break
            delivery = self.delivery_buffer.take()
            raw = delivery.properties.raw if self.edit is None else self.edit(delivery)
            count += 1
            if self.left > 0:
                self.left -= 1
            if raw is None:
                self.drop(delivery)
                continue
            message = make_outgoing(self.address_of(delivery._address), raw, delivery.body, b"", self.bits)
            message.index = delivery.delivery_tag
            self.target.publish(message)
            self.taken_tag = delivery.delivery_tag
            self.last = delivery
            size += len(delivery.body)
            self.forwarded_total += 1
            if self.mode == ON_CONFIRM:
                self.in_flight += 1
        self.forwarded_bytes += size
        if self.mode == ON_PUBLISH and size + count > 0 and self.taken_tag > self.source.settled_upto:
            self.ack(self.taken_tag, True)
        return count

    def drop(self, delivery):
        """It is not to be forwarded: settled by itself, whatever is under way before it."""
        self.dropped_total += 1
        if self.mode != NO_ACK:
            self.ack(delivery.delivery_tag, False)
        return 0

    def address_of(self, address):
        if address is self.last_address or address == self.last_address:
            return self.made_address
        self.last_address = address
        end = 1 + address[0]
        exchange = address[:end] if self.exchange is None else self.exchange
        self.made_address = exchange + (address[end:] if self.routing_key is None else self.routing_key)
        return self.made_address

    def ack(self, tag, multiple):
        self.source.write_settlement(ACK, tag, 1 if multiple else 0)
        self.source.note_settled(tag, multiple, True)
        return 0

    def answered(self):
        """The target has answered for some: what it confirmed is acknowledged at the source. False if a message came
        back: then nothing more is acknowledged."""
        strays = self.target.take_strays()
        settled = self.target.take_settled()
        if strays:
            self.returned = strays[0]
        if self.returned is not None:
            return False
        self.set_aside(settled)
        lowest = self.target.lowest
        upto = 0
        for message in settled:
            self.in_flight -= 1
            if message.outcome != CONFIRMED:
                continue
            self.confirmed_total += 1
            if self.single:
                self.ack(message.index, False)
            elif message.tag >= lowest:
                self.early.append(message)
            elif message.index > upto:
                upto = message.index
        if self.early:
            upto = self.take_early(lowest, upto)
        if upto > 0:
            self.ack(upto, True)
        if self.single and self.in_flight == 0 and not self.refused:
            self.single = False
        return True

    def set_aside(self, settled):
        """Those that were refused. From then on one ack must not cover another delivery."""
        for message in settled:
            if message.outcome != CONFIRMED:
                self.refused.append(message)
                self.refused_total += 1
        if self.refused and not self.single:
            self.single = True
            for message in self.early:
                self.ack(message.index, False)
            self.early = []
        return 0

    def take_early(self, lowest, upto):
        """Those of them that `multiple` covers by now; the last delivery that it covers in all."""
        waiting = []
        for message in self.early:
            if message.tag >= lowest:
                waiting.append(message)
            elif message.index > upto:
                upto = message.index
        self.early = waiting
        return upto

    def retry(self):
        """Publishes what was refused once more, in the order in which it came."""
        refused = sorted(self.refused, key=_index_of)
        self.refused = []
        for message in refused:
            message.send_again()
            self.target.publish(message)
            self.in_flight += 1
        return 0


def _index_of(message):
    return message.index
