"""A broker's octets in: frames are cut out of chunks, and messages and confirms handled, a whole chunk in one call.

`feed` gives the control methods of the chunk as (channel, method id, arguments), in their order; what a get gave comes
in the place of its arguments. Never touches a socket."""

import cython

from leveret.core.client.delivery import Delivery
from leveret.core.codec.carry import Carry
from leveret.core.codec.wording import frame_problem
from leveret.errors import HardError

if not cython.compiled:
    from leveret.core.client.outgoing import CONFIRMED, REFUSED
    from leveret.core.codec.method_ids import ACK, DELIVER, GET_OK, NACK, RETURN
    from leveret.core.codec.pure_octets import read_u16, read_u32, read_u64, take

FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_HEARTBEAT, FRAME_END = 1, 2, 3, 8, 0xCE
# Octets of a frame beside its payload: type, channel, size; and the end mark.
FRAME_HEAD, FRAME_OVERHEAD = 7, 8


class Reader(Carry):
    def __init__(self, frame_max):
        Carry.__init__(self)
        self.frame_max = frame_max
        self.codecs = {}
        self.last_number = 0
        self.last_lane = None
        # Delivery buffers that got deliveries, and channel codecs whose publishes were answered for, since they were
        # taken last.
        self.woken = []
        self.answered = []
        self.frames_received = 0

    def feed(self, data, size):
        """Takes the first `size` octets of data, which must stay as they are until this returns."""
        self.take_chunk(data, size)
        events = []
        while True:
            if self.partial_size > 0:
                if not self.complete_partial():
                    break
                p = self.partial
                size = self.partial_size
                self.partial_size = 0
                self.frame(p, 0, size, events)
            else:
                p = self.p
                at = self.at
                if self.end - at < FRAME_HEAD:
                    break
                size = self.check_frame(p, at)
                if self.end - at < size:
                    break
                self.at = at + size
                self.frame(p, at, at + size, events)
        self.keep_partial()
        return events

    def check_frame(self, p, at):
        size = read_u32(p, at + 3)
        if size > self.frame_max:
            raise HardError(501, f"the broker sent a frame of {size} bytes, where {self.frame_max} were agreed on")
        return size + FRAME_OVERHEAD

    def complete_partial(self):
        return self.fill_partial(FRAME_HEAD) and self.fill_partial(self.check_frame(self.partial, 0))

    def frame(self, p, at, end, events):
        kind = p[at]
        if p[end - 1] != FRAME_END:
            raise HardError(501, frame_problem(kind, take(p, at + FRAME_HEAD, end - 1), "no end of a frame"))
        self.frames_received += 1
        number = read_u16(p, at + 1)
        at += FRAME_HEAD
        end -= 1
        if kind == FRAME_HEARTBEAT:
            return 0
        if kind == FRAME_METHOD:
            if end - at < 4:
                raise HardError(501, "the broker sent a method without its number")
            return self.on_method(number, read_u32(p, at), p, at + 4, end, events)
        if kind != FRAME_HEADER and kind != FRAME_BODY:
            raise HardError(501, f"the broker sent a frame of the unknown type {kind}")
        codec = self.find(number)
        if codec is None:
            # Of a channel that was closed meanwhile.
            return 0
        if kind == FRAME_HEADER:
            if codec.header(p, at, end):
                self.complete(codec, b"", events)
        else:
            body = codec.body(p, at, end)
            if body is not None:
                self.complete(codec, body, events)
        return 0

    def on_method(self, number, method, p, at, end, events):
        codec = self.find(number)
        if codec is not None:
            if method == DELIVER or method == GET_OK or method == RETURN:
                codec.begin(method, p, at, end)
                return 0
            if codec.confirming and (method == ACK or method == NACK):
                if end - at != 9:
                    raise HardError(501, "the broker sent a confirm of a wrong size")
                codec.confirm(read_u64(p, at), p[at + 8] & 1, CONFIRMED if method == ACK else REFUSED)
                self.note(codec)
                return 0
        events.append((number, method, take(p, at, end)))
        return 0

    def note(self, codec):
        if not codec.noted:
            codec.noted = True
            self.answered.append(codec)
        return 0

    def complete(self, codec, body, events):
        method = codec.method
        delivery = make_delivery(codec, body)
        if method != RETURN:
            codec.delivered_upto = codec.tag
        if method == DELIVER:
            delivery_buffer = codec.delivery_buffer
            # What comes for a consumer that was cancelled is of nobody: it goes back into the queue with the channel.
            if delivery_buffer is not None:
                delivery_buffer.items.append(delivery)
                delivery_buffer.received_total += 1
                if delivery.redelivered:
                    delivery_buffer.redelivered_total += 1
                if delivery_buffer.counts_bytes:
                    delivery_buffer.waiting_bytes += len(body)
                if delivery_buffer.no_ack:
                    delivery.mark_settled()
                if not delivery_buffer.noted:
                    delivery_buffer.noted = True
                    self.woken.append(delivery_buffer)
        elif method == GET_OK:
            events.append((codec.number, GET_OK, delivery))
        else:
            codec.give_back(delivery)
            self.note(codec)
        return 0

    # ---- for the connection

    def find(self, number):
        if number != self.last_number or self.last_lane is None:
            self.last_number = number
            self.last_lane = self.codecs.get(number)
        return self.last_lane

    def add_lane(self, codec):
        self.codecs[codec.number] = codec
        self.last_lane = None

    def drop_lane(self, number):
        self.codecs.pop(number, None)
        self.last_lane = None

    def take_woken(self):
        woken = self.woken
        self.woken = []
        for delivery_buffer in woken:
            delivery_buffer.noted = False
        return woken

    def take_answered(self):
        answered = self.answered
        self.answered = []
        return answered


def make_delivery(codec, body):
    made = Delivery.__new__(Delivery)
    made._codec = codec
    made._address = codec.address
    made._tag = b"" if codec.delivery_buffer is None else codec.delivery_buffer.tag
    made.body = body
    made.delivery_tag = codec.tag
    made.redelivered = codec.redelivered
    # What came back to its sender was never in a queue: there is nothing to settle.
    made._settled = codec.method == RETURN
    made.message_count = codec.count
    made.properties = codec.properties
    return made
