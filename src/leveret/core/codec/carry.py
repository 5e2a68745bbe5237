"""What a connection carries over from chunk to chunk: the start of a frame whose rest has not come yet.

Owns the chunk while it is worked through, and the copy of what is left of it. Whoever cuts the frames out is a
subclass (connection.py, and its counterpart for streams): the loop over whole frames, and how long one is, are its own.
Never touches a socket."""

import cython

if not cython.compiled:
    from leveret.core.codec.pure_octets import copy_octets

PARTIAL_BYTES_MIN = 512
PARTIAL_BYTES_KEPT = 4096


class Carry:
    def __init__(self):
        self.chunk = None
        self.p = b""
        self.at = 0
        self.end = 0
        self.partial = None
        self.partial_size = 0
        self.bytes_received = 0
        self.chunks_received = 0
        self.series = None
        self.sampled = 0

    def take_chunk(self, data, size):
        self.chunk = data
        self.p = data
        self.at = 0
        self.end = size
        self.bytes_received += size
        self.chunks_received += 1
        return 0

    def fill_partial(self, need):
        """Adds to the frame that began in an earlier chunk; true once it has as many octets as it needs."""
        count = need - self.partial_size
        if count <= 0:
            return True
        count = min(count, self.end - self.at)
        room = len(self.partial)
        if self.partial_size + count > room:
            # As much as has come and as much again, never what a head announces: the rest may never come.
            self.partial.extend(bytes(min(need, max(2 * room, self.partial_size + count)) - room))
        to = self.partial
        copy_octets(to, self.partial_size, self.p, self.at, count)
        self.partial_size += count
        self.at += count
        return self.partial_size == need

    def keep_partial(self):
        """Keeps the start of a frame whose rest will come with a later chunk, and lets go of the chunk."""
        left = self.end - self.at
        if left > 0:
            if self.partial is None or len(self.partial) < left:
                self.partial = bytearray(max(left, PARTIAL_BYTES_MIN))
            to = self.partial
            copy_octets(to, 0, self.p, self.at, left)
            self.partial_size = left
        elif self.partial_size == 0 and self.partial is not None and len(self.partial) > PARTIAL_BYTES_KEPT:
            self.partial = None
        self.let_go()
        return 0

    def detach(self):
        """The caller must wait before it proceeds: copies the unread rest, so that the chunk's buffer is free."""
        self.chunk = bytearray(self.chunk[self.at : self.end]) if self.chunk is not None else bytearray(0)
        self.p = self.chunk
        self.end -= self.at
        self.at = 0

    def let_go(self):
        self.chunk = None
        self.p = b""
        self.at = 0
        self.end = 0
        return 0
