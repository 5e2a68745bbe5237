"""The bytes waiting to go out on one connection.

Small things are copied into one growing buffer, large bodies are referred to, so that a big message to a hundred
consumers exists once. Past `CONGESTED_BYTES` the write buffer is congested and queues stop handing messages to its
consumers; it is calm again once the socket has taken most of it. Never touches a socket: the network shell takes
`views`, sends them, and says how much was `sent`."""

import cython

if not cython.compiled:
    from leveret.core.codec.pure_octets import copy_octets

# Above the first, consumers of this connection get nothing more; below the second they do again.
CONGESTED_BYTES = 262144
CALM_BYTES = 65536
# A client that asks and asks without reading the answers is read no further above this; deliveries stop long before.
FLOODED_BYTES = 16777216
FIRST_BUFFER_BYTES = 512
# Buffers of this size are passed on from one write buffer to the next instead of being freed.
SPARE_BYTES = 327680
SPARES_MAX = 16


class WriteBuffer:
    def __init__(self, dirty_list, spares):
        self.data = bytearray(0)
        self.p = self.data
        self.start = 0
        self.end = 0
        self.capacity = 0
        self.pieces = None
        self.piece_bytes = 0
        # Parallel to pieces: whether it is the body of a delivery; and how many octets that is together.
        self.delivered = None
        self.delivered_bytes = 0
        self.congested = False
        # True while this write buffer stands in dirty_list, the node's list of connections with something to send.
        self.dirty = False
        self.dirty_list = dirty_list
        self.spares = spares
        self.owner = None
        # Nothing is sent before this batch of the log is on disk; 0 if nothing is held back.
        self.barrier = 0
        self.bytes_sent = 0
        self.sends_total = 0

    def reserve(self, count):
        """Makes room for `count` octets at p[end:]."""
        if self.end + count <= self.capacity:
            return 0
        size = self.end - self.start
        old = self.data
        source = self.p
        if size + count > FIRST_BUFFER_BYTES and size + count <= SPARE_BYTES and self.spares:
            self.data = self.spares.pop()
        else:
            capacity = FIRST_BUFFER_BYTES
            while capacity < size + count:
                capacity *= 2
            if capacity > 16384 and capacity < SPARE_BYTES:
                capacity = SPARE_BYTES
            self.data = bytearray(capacity)
        self.p = self.data
        self.capacity = len(self.data)
        copy_octets(self.p, 0, source, self.start, size)
        self.start = 0
        self.end = size
        # A sealed piece may still point into the old buffer: then it must not be written again.
        if len(old) == SPARE_BYTES and not self.pieces and len(self.spares) < SPARES_MAX:
            self.spares.append(old)
        return 0

    def wrote(self, count):
        """`count` octets were written at p[end:]."""
        self.end += count
        if not self.dirty:
            self.dirty = True
            self.dirty_list.append(self)
        if self.end - self.start + self.piece_bytes > CONGESTED_BYTES:
            self.congested = True
        return 0

    def refer(self, body, start, end, delivered=False):
        """Sends body[start:end] without copying it. Deliveries are held back by congestion and do not flood."""
        if self.pieces is None:
            self.pieces = []
            self.delivered = []
        if self.end > self.start:
            self.pieces.append(memoryview(self.data)[self.start : self.end])
            self.delivered.append(False)
            self.piece_bytes += self.end - self.start
            # The sealed part keeps its buffer alive; writing goes on in the rest of the same buffer.
            self.start = self.end
        self.pieces.append(memoryview(body)[start:end])
        self.delivered.append(delivered)
        self.piece_bytes += end - start
        if delivered:
            self.delivered_bytes += end - start
        self.wrote(0)
        return 0

    def write(self, data):
        source = data
        self.reserve(len(data))
        copy_octets(self.p, self.end, source, 0, len(data))
        self.wrote(len(data))

    def pending(self):
        """How many octets wait here."""
        return self.end - self.start + self.piece_bytes

    def flooded(self):
        """Whether far more answers wait here than a client that reads them would let gather."""
        return self.end - self.start + self.piece_bytes - self.delivered_bytes > FLOODED_BYTES

    def views(self, pieces_max):
        """What to send next, as memoryviews, oldest first."""
        views = self.pieces[:pieces_max] if self.pieces else []
        if len(views) < pieces_max and self.end > self.start:
            views.append(memoryview(self.data)[self.start : self.end])
        return views

    def sent(self, count):
        """The socket took the first `count` octets."""
        self.bytes_sent += count
        self.sends_total += 1
        left = count
        done = 0
        while left > 0 and self.pieces is not None and done < len(self.pieces):
            size = min(len(self.pieces[done]), left)
            self.piece_bytes -= size
            if self.delivered[done]:
                self.delivered_bytes -= size
            if size < len(self.pieces[done]):
                self.pieces[done] = self.pieces[done][size:]
            else:
                done += 1
            left -= size
        if done > 0:
            # At once: there may be tens of thousands, and each deletion moves all that follow.
            del self.pieces[:done]
            del self.delivered[:done]
        self.start += left
        if self.start == self.end and not self.pieces:
            self.drop_buffer()

    def drop_buffer(self):
        """All is sent: small buffers are kept, large ones go to whoever needs one next."""
        self.start = 0
        self.end = 0
        self.pieces = None
        self.delivered = None
        self.delivered_bytes = 0
        if self.capacity > 4096:
            if self.capacity == SPARE_BYTES and len(self.spares) < SPARES_MAX:
                self.spares.append(self.data)
            self.data = bytearray(0)
            self.p = self.data
            self.capacity = 0
        return 0

    def calm_down(self):
        """Leaves the dirty list; true if this write buffer was congested and no longer is."""
        self.dirty = False
        if self.congested and self.end - self.start + self.piece_bytes < CALM_BYTES:
            self.congested = False
            return True
        return False

    def discard(self):
        """The connection is gone: nothing will be sent any more."""
        self.pieces = None
        self.piece_bytes = 0
        self.drop_buffer()
