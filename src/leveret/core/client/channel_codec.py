"""One channel's messages, as the client sees them: publishes and their confirms, deliveries and their settlement.

Writes into the connection's write buffer and never waits; control methods are not its business. What the broker has
answered gathers in `settled`, what it delivers in the sinks of the consumers."""

from collections import deque

import cython

from leveret.core.codec.wording import frame_problem
from leveret.errors import ClientError, HardError

if not cython.compiled:
    from leveret.core.client.outgoing import PENDING, REFUSED, RETURNED
    from leveret.core.codec.body_frames import write_large_body
    from leveret.core.codec.method_ids import BASIC, DELIVER, GET_OK, PUBLISH
    from leveret.core.codec.properties import scan_properties
    from leveret.core.codec.pure_octets import (
        copy_octets,
        read_u16,
        read_u32,
        read_u64,
        take,
        write_u16,
        write_u32,
        write_u64,
    )

    IDLE, WANT_HEADER, WANT_BODY = 0, 1, 2
    BODY_COPIED_MAX = 16384
    BODY_BYTES_MAX = 1 << 40

FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_END = 1, 2, 3, 0xCE
# How many deliveries may be remembered that were settled while an earlier one was not, before it is done otherwise; and
# how far apart they may be then.
BEYOND_MAX = 1024
SPAN_MAX = 1048576


class DeliveryBuffer:
    """Where the deliveries of one consumer gather until somebody takes them."""

    def __init__(self, tag):
        self.tag = tag
        self.items = deque()
        # Stands in the reader's list of those that got something.
        self.noted = False
        # Who is told: set by the consumer.
        self.wake = None
        self.received_total = 0
        self.redelivered_total = 0
        # What comes is settled by coming: the broker expects no word about it.
        self.no_ack = False
        # Whether somebody wants to know how much waits here.
        self.counts_bytes = False
        self.waiting_bytes = 0

    def take(self):
        """The delivery that has waited longest, or None."""
        if not self.items:
            return None
        delivery = self.items.popleft()
        if self.counts_bytes:
            self.waiting_bytes -= len(delivery.body)
        return delivery


class ChannelCodec:
    def __init__(self, number, write_buffer, payload_max):
        self.number = number
        self.write_buffer = write_buffer
        self.payload_max = payload_max
        # Whether something may be written.
        self.is_open = True
        self.is_abandoned = False
        # Publishing. Unconfirmed ones by tag; all below `lowest` are settled.
        self.confirming = False
        self.next_tag = 1
        self.lowest = 1
        # Where the search for what comes back begins: they come back in their order.
        self.returned = 1
        self.unconfirmed = {}
        self.unconfirmed_bytes = 0
        self.settled = []
        # Who is told of what is settled, and of what came back without being known: set by the channel.
        self.owner = None
        # Called before something is written into an write buffer that has nothing to send.
        self.kick = None
        self.noted = False
        self.strays = []
        self.published_total = 0
        # Receiving.
        self.delivery_buffers = {}
        # Deliveries are numbered. All up to `settled_upto` are settled but the `holes`, and those in `settled_beyond`.
        self.delivered_upto = 0
        self.settled_upto = 0
        self.settled_beyond = set()
        self.beyond_max = BEYOND_MAX
        self.holes = set()
        self.acked_total = 0
        self.nacked_total = 0
        self.stage = IDLE
        self.method = 0
        self.delivery_buffer = None
        self.tag = 0
        self.redelivered = False
        self.count = 0
        self.code = 0
        self.text = b""
        self.address = b""
        self.properties = None
        self.body_size = 0
        self.parts = None

    # ---- sending

    def publish(self, message):
        """Writes it, and remembers it until it is confirmed if this channel confirms. Raises ValueError, with nothing
        written, if its properties are too much for a frame: the broker would close the connection for that."""
        if not self.is_open:
            # Its number may be another channel's by now.
            raise ClientError("the channel is closed: nothing can be published on it")
        address = message.address
        address_size = len(address)
        raw = message.raw
        raw_size = len(raw)
        if raw_size + 12 > self.payload_max:
            raise ValueError(
                f"the message's properties have {raw_size} bytes, and a frame at most {self.payload_max - 12}"
            )
        body = message.body
        size = len(body)
        copied = size if size <= BODY_COPIED_MAX and size <= self.payload_max else 0
        out = self.write_buffer
        if not out.dirty:
            self.kick()
        out.reserve(43 + address_size + raw_size + copied)
        p = out.p
        at = out.end
        p[at] = FRAME_METHOD
        write_u16(p, at + 1, self.number)
        write_u32(p, at + 3, 7 + address_size)
        write_u32(p, at + 7, PUBLISH)
        write_u16(p, at + 11, 0)
        source = address
        copy_octets(p, at + 13, source, 0, address_size)
        at += 13 + address_size
        p[at] = message.bits
        p[at + 1] = FRAME_END
        p[at + 2] = FRAME_HEADER
        write_u16(p, at + 3, self.number)
        write_u32(p, at + 5, 12 + raw_size)
        write_u32(p, at + 9, BASIC)
        write_u64(p, at + 13, size)
        source = raw
        copy_octets(p, at + 21, source, 0, raw_size)
        at += 21 + raw_size
        p[at] = FRAME_END
        at += 1
        if copied > 0:
            p[at] = FRAME_BODY
            write_u16(p, at + 1, self.number)
            write_u32(p, at + 3, size)
            source = body
            copy_octets(p, at + 7, source, 0, size)
            at += 7 + size
            p[at] = FRAME_END
            at += 1
        out.wrote(at - out.end)
        if copied == 0 and size > 0:
            write_large_body(out, self.number, body, self.payload_max, False)
        message.sent_count += 1
        self.published_total += 1
        if self.confirming:
            message.tag = self.next_tag
            self.unconfirmed[self.next_tag] = message
            self.unconfirmed_bytes += size
            self.next_tag += 1
        return 0

    def write_settlement(self, method, tag, bits):
        out = self.write_buffer
        if not out.dirty:
            self.kick()
        out.reserve(21)
        p = out.p
        at = out.end
        p[at] = FRAME_METHOD
        write_u16(p, at + 1, self.number)
        write_u32(p, at + 3, 13)
        write_u32(p, at + 7, method)
        write_u64(p, at + 11, tag)
        p[at + 19] = bits
        p[at + 20] = FRAME_END
        out.wrote(21)
        return 0

    def note_settled(self, tag, multiple, is_ack):
        count = 1
        if multiple:
            count = self.unsettled_upto(tag)
            if self.holes:
                self.holes = {other for other in self.holes if other > tag}
            if tag > self.settled_upto:
                self.settled_beyond = {other for other in self.settled_beyond if other > tag}
                self.settled_upto = tag - 1
        self.close_tag(tag)
        if is_ack:
            self.acked_total += count
        else:
            self.nacked_total += count
        return 0

    def close_tag(self, tag):
        if tag <= self.settled_upto:
            self.holes.discard(tag)
            return 0
        if tag != self.settled_upto + 1:
            self.settled_beyond.add(tag)
            if len(self.settled_beyond) > self.beyond_max:
                self.leave_holes()
            return 0
        self.settled_upto = tag
        while self.settled_beyond and self.settled_upto + 1 in self.settled_beyond:
            self.settled_upto += 1
            self.settled_beyond.discard(self.settled_upto)
        return 0

    def unsettled_upto(self, tag):
        """How many deliveries up to this one wait to be settled."""
        count = 0
        if self.holes:
            for other in self.holes:
                if other <= tag:
                    count += 1
        if tag > self.settled_upto:
            count += tag - self.settled_upto
            for other in self.settled_beyond:
                if other <= tag:
                    count -= 1
        return count

    def leave_holes(self):
        """Some delivery is settled late: it is remembered instead of all that were settled after it, since these are
        without end."""
        upto = max(self.settled_beyond)
        if upto - self.settled_upto > SPAN_MAX:
            # No broker counts like this.
            self.beyond_max *= 2
            return 0
        for tag in range(self.settled_upto + 1, upto):
            if tag not in self.settled_beyond:
                self.holes.add(tag)
        self.settled_upto = upto
        self.settled_beyond.clear()
        return 0

    def is_settled(self, tag):
        """Whether it was settled with a later one, if not by itself."""
        return tag <= self.settled_upto and tag not in self.holes

    @property
    def unsettled_count(self):
        settled = len(self.settled_beyond)
        count = len(self.holes)
        if self.delivered_upto > self.settled_upto:
            count += self.delivered_upto - self.settled_upto
        return count - settled if count > settled else 0

    def forget(self, message):
        """Nobody waits for this one any more: it is neither told of nor sent again."""
        if self.unconfirmed.get(message.tag) is message:
            self.unconfirmed[message.tag] = None
            self.unconfirmed_bytes -= len(message.body)

    def abandon(self):
        """The channel is gone: what was never answered for, in the order in which it was published."""
        self.is_open = False
        self.is_abandoned = True
        left = [message for message in self.unconfirmed.values() if message is not None]
        self.unconfirmed = {}
        self.unconfirmed_bytes = 0
        self.stage = IDLE
        self.parts = None
        return left

    # ---- confirms

    def confirm(self, upto, multiple, outcome):
        """basic.ack or basic.nack for this tag, or for all up to it; a tag of 0 with `multiple` means all there are."""
        if self.is_abandoned:
            # The broker does not know it yet: what waited here is waited for elsewhere by now.
            return 0
        if multiple:
            if upto == 0:
                upto = self.next_tag - 1
            if upto >= self.next_tag:
                raise HardError(503, f"the broker confirms message {upto} of {self.next_tag - 1}")
            for tag in range(self.lowest, upto + 1):
                if tag in self.unconfirmed:
                    self.settle(self.unconfirmed.pop(tag), outcome)
            if upto >= self.lowest:
                self.lowest = upto + 1
            return 0
        if upto not in self.unconfirmed:
            raise HardError(503, f"the broker confirms message {upto}, which waits for no confirm")
        self.settle(self.unconfirmed.pop(upto), outcome)
        while self.lowest < self.next_tag and self.lowest not in self.unconfirmed:
            self.lowest += 1
        return 0

    def settle(self, message, outcome):
        if message is None:
            return 0
        self.unconfirmed_bytes -= len(message.body)
        if message.outcome == PENDING or outcome == REFUSED:
            message.outcome = outcome
        self.settled.append(message)
        return 0

    def take_settled(self):
        """What the broker has answered for since this was asked last, in that order."""
        settled = self.settled
        self.settled = []
        self.noted = False
        return settled

    def take_strays(self):
        """What came back and is of nobody who waits: (code, text, delivery)."""
        strays = self.strays
        self.strays = []
        return strays

    # ---- receiving

    def begin(self, method, p, at, end):
        """A method that content follows: its arguments stand from `at` on."""
        if self.stage != IDLE:
            raise HardError(505, "the broker sent a method where content is missing")
        self.method = method
        self.delivery_buffer = None
        if method == DELIVER:
            at = self.begin_deliver(p, at, end)
        elif method == GET_OK:
            if end - at < 9:
                raise cut_off(p, at, end)
            self.tag = read_u64(p, at)
            self.redelivered = p[at + 8] & 1
            at += 9
        else:
            if end - at < 3 or at + 3 + p[at + 2] > end:
                raise cut_off(p, at, end)
            self.tag = 0
            self.redelivered = False
            self.code = read_u16(p, at)
            self.text = take(p, at + 3, at + 3 + p[at + 2])
            at += 3 + p[at + 2]
        address_end = check_address(p, at, end)
        self.address = take(p, at, address_end)
        self.count = 0
        if method == GET_OK:
            if end - address_end < 4:
                raise cut_off(p, at, end)
            self.count = read_u32(p, address_end)
        self.stage = WANT_HEADER
        return 0

    def begin_deliver(self, p, at, end):
        if at >= end or at + 10 + p[at] > end:
            raise cut_off(p, at, end)
        name = take(p, at + 1, at + 1 + p[at])
        self.delivery_buffer = self.delivery_buffers.get(name)
        at += 1 + p[at]
        self.tag = read_u64(p, at)
        self.redelivered = p[at + 8] & 1
        return at + 9

    def header(self, p, at, end):
        """True if the message has no body, and so is complete."""
        if self.stage != WANT_HEADER or end - at < 14 or read_u16(p, at) << 16 != BASIC:
            raise HardError(505, "the broker sent a content header that does not belong here")
        self.body_size = read_u64(p, at + 4)
        if self.body_size > BODY_BYTES_MAX:
            raise HardError(501, f"the broker announces a body of {self.body_size} bytes")
        self.properties = scan_properties(p, at + 12, end)
        self.parts = None
        self.stage = WANT_BODY if self.body_size > 0 else IDLE
        return self.body_size == 0

    def body(self, p, at, end):
        """The message's body once it is whole, else None."""
        if self.stage != WANT_BODY:
            raise HardError(505, "the broker sent a body that does not belong here")
        size = end - at
        wanted = self.body_size
        if self.parts is None:
            if size == wanted:
                self.stage = IDLE
                return take(p, at, end)
            self.parts = bytearray()
        if len(self.parts) + size > wanted:
            raise HardError(501, f"the broker sent more than the {wanted} bytes of a body")
        self.parts += take(p, at, end)
        if len(self.parts) < wanted:
            return None
        self.stage = IDLE
        whole = bytes(self.parts)
        self.parts = None
        return whole

    def give_back(self, delivery):
        """A message came back: whoever waits for it will know."""
        wanted = delivery.message_id
        if wanted is not None:
            octets = wanted.encode("utf-8", "surrogateescape")
            first = self.lowest if self.returned < self.lowest else self.returned
            if self.find_returned(octets, first, self.next_tag) or self.find_returned(octets, self.lowest, first):
                return 0
        self.strays.append((self.code, self.text, delivery))
        return 0

    def find_returned(self, message_id, first, end):
        """Marks the first message with this id that waits among these tags; false if there is none."""
        for tag in range(first, end):
            message = self.unconfirmed.get(tag)
            if message is not None and message.outcome == PENDING and message.message_id == message_id:
                message.outcome = RETURNED
                message.reply_code = self.code
                message.reply_text = self.text
                self.returned = tag + 1
                return True
        return False


def check_address(p, at, end):
    """Where the exchange's name and the routing key end, which stand at `at`."""
    first = at
    for _ in range(2):
        if at >= end or at + 1 + p[at] > end:
            raise cut_off(p, first, end)
        at += 1 + p[at]
    return at


def cut_off(p, at, end):
    return HardError(501, frame_problem(FRAME_METHOD, take(p, at, end), "cut off"))
