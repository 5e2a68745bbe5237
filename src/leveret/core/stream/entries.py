"""What the stream protocol put into a stream, as AMQP 0-9-1 messages.

Its messages are AMQP 1.0 encoded, one a record or many in a sub-batch, which may be compressed: a few octets can become
gigabytes. So a sub-batch is taken apart message by message, as they are wanted; no more than a window of it is kept,
and readers at the same place share it. Plain Python: an entry that is read by the other protocol's clients is the
exception."""

import zlib
from collections import deque
from copy import copy

from leveret.core.codec.amqp10 import from_amqp10
from leveret.core.codec.message import make_message
from leveret.core.codec.properties import parse_properties

HEAD_BYTES = 40
SUBBATCH = 2
UNCOMPRESSED = 0
GZIP = 1
# Nothing that says it is larger is taken apart; nor what says that it grows by more than the format can.
EXPANDED_BYTES_MAX = 64 * 1024 * 1024
GZIP_RATIO_MAX = 1032
GZIP_HEAD_BYTES = 32
# So much is decompressed at once.
STEP_BYTES = 65536
# What is kept of one sub-batch for readers that follow, and what a message costs there beside its body.
WINDOW_BYTES = 262144
MESSAGE_BYTES = 512
# One that is longer, or in a sub-batch that ends within it, is not read: a reader would hold it in memory.
PART_BYTES_MAX = 4 * 1024 * 1024


class Expansion:
    """The messages of the entry at data[at], from the first that is wanted on. One that cannot be taken apart, because
    it is damaged, or too large, or compressed in a way that we cannot read, is one message with the octets as they are;
    if that shows only behind some messages, these are all there are."""

    def __init__(self, data, at):
        self.first = int.from_bytes(data[at + 8 : at + 16], "big")
        self._count = int.from_bytes(data[at + 20 : at + 24], "big")
        address_end = at + HEAD_BYTES + int.from_bytes(data[at + 18 : at + 20], "big")
        body_at = address_end + int.from_bytes(data[at + 24 : at + 28], "big")
        self._body = bytes(data[body_at : body_at + int.from_bytes(data[at + 28 : at + 32], "big")])
        self._address = bytes(data[at + HEAD_BYTES : address_end])
        self._stamp = int.from_bytes(data[at + 32 : at + 40], "big")
        self._is_single = not data[at + 17] & SUBBATCH
        if not self._is_single:
            self._codec = data[address_end]
            self._size = int.from_bytes(data[address_end + 1 : address_end + 5], "big")
        self._begin()

    def _begin(self):
        body = self._body
        self._parts = iter([body]) if self._is_single else split(body, self._codec, self._size, self._count)
        # The window: messages from number `base` on, and what they cost.
        self.base = 0
        self._made = deque()
        self._bytes = 0
        self.over = False

    def from_start(self):
        """The same anew, for a reader that is too far behind the others."""
        again = copy(self)
        again._begin()
        return again

    def fetch(self, number):
        """The message with this number, which is at least `base`. None if there is none, and then it is `over`, or if
        that takes more steps: then it is asked for again."""
        while self.base + len(self._made) <= number and not self.over:
            part = next(self._parts, self)
            if part is self:
                self.over = True
            elif part is None:
                return None
            elif self.base < number and not self._made:
                # Nobody wants it: who came to be here wants to go on behind it.
                self.base += 1
            else:
                self._keep(foreign_message(self._address, part, self._stamp))
        return self._made[number - self.base] if number < self.base + len(self._made) else None

    def _keep(self, message):
        self._made.append(message)
        self._bytes += MESSAGE_BYTES + message.body_size
        while self._bytes > WINDOW_BYTES and len(self._made) > 1:
            self._bytes -= MESSAGE_BYTES + self._made.popleft().body_size
            self.base += 1

    def messages(self, offset):
        """The messages from this offset on as (offset, message); None wherever others should have their turn."""
        number = max(offset - self.first, 0)
        while True:
            message = self.fetch(number)
            if message is not None:
                yield self.first + number, message
                number += 1
            elif self.over:
                return
            else:
                yield None


def split(body, codec, size, count):
    """The parts of a sub-batch; None after every step that gave none."""
    if codec == UNCOMPRESSED:
        source = _Octets(body)
    elif codec == GZIP and is_believable(codec, size, len(body)):
        source = _Inflated(body, size)
    else:
        yield body
        return
    for number in range(count):
        while not source.has(4):
            yield None
        head = source.take(4)
        length = int.from_bytes(head, "big")
        if len(head) < 4 or length > PART_BYTES_MAX or length > source.left:
            if number == 0:
                yield body
            return
        while not source.has(length):
            yield None
        part = source.take(length)
        if len(part) < length:
            if number == 0:
                yield body
            return
        yield part


def is_believable(codec, size, stored_size):
    """Whether a sub-batch can become as large as it says, and may."""
    if size > EXPANDED_BYTES_MAX:
        return False
    return codec != GZIP or size <= GZIP_RATIO_MAX * (stored_size + GZIP_HEAD_BYTES)


class _Octets:
    def __init__(self, data):
        self._data = data
        self._at = 0

    @property
    def left(self):
        """At most so many octets follow."""
        return len(self._data) - self._at

    def has(self, _size):
        """Whether as much can be taken now, or no more ever comes."""
        return True

    def take(self, size):
        part = self._data[self._at : self._at + size]
        self._at += len(part)
        return part


class _Inflated:
    """The same of what is compressed: decompressed in steps, and never more than was announced."""

    def __init__(self, data, size):
        self._data = data
        self._inflater = zlib.decompressobj(wbits=31)
        self._made = bytearray()
        self._unmade = size
        self._ended = False

    @property
    def left(self):
        return len(self._made) + (0 if self._ended else self._unmade)

    def has(self, size):
        if len(self._made) >= size or self._ended:
            return True
        try:
            made = self._inflater.decompress(self._data, min(STEP_BYTES, self._unmade)) if self._unmade > 0 else b""
        except zlib.error:
            made = b""
        self._data = self._inflater.unconsumed_tail
        self._made += made
        self._unmade -= len(made)
        self._ended = not made
        return False

    def take(self, size):
        part = bytes(self._made[:size])
        del self._made[:size]
        return part


def foreign_message(address, encoded, stamp):
    raw, body = from_amqp10(encoded)
    message = make_message(address, parse_properties(raw), body)
    message.stamp = stamp
    return message
