"""The part of a queue that waits on disk: 32 octets a message, first in first out.

    0  u64  position        16 u32  length of the record     24 u32  how often it was handed out before
    8  u64  location        20 u32  octets of body           28 u32  not used

A location of 0 is a message that has no record and waits in memory all the same (the ready list keeps those beside).
Kept in chunks, so that ten million are never copied to make room and go chunk by chunk as they are read. Positions
only grow. Called by the ready list, and by recovery, which fills it."""

import cython

if not cython.compiled:
    from leveret.core.codec.pure_octets import copy_octets, read_u32, read_u64, write_u32, write_u64
    from leveret.core.log.slot_layout import SLOT_BYTES

FIRST_SLOTS = 8
# Slots of a full chunk; a power of two.
CHUNK_SLOTS = 4096
CHUNK_SHIFT = 12
CHUNK_MASK = 4095


class ColdList:
    __slots__ = ("chunks", "count", "head")

    def __init__(self):
        self.chunks = []
        # Slots of the first chunk that are gone.
        self.head = 0
        self.count = 0

    def push(self, position, location, length, body_size, delivery_count):
        end = self.head + self.count
        at = (end & CHUNK_MASK) * SLOT_BYTES
        if end >> CHUNK_SHIFT == len(self.chunks):
            self.chunks.append(bytearray(FIRST_SLOTS * SLOT_BYTES))
        chunk = self.chunks[end >> CHUNK_SHIFT]
        if at == len(chunk):
            chunk.extend(bytes(at))
        write_slot(chunk, at, position, location, length, body_size, delivery_count)
        self.count += 1
        return 0

    def push_first(self, position, location, length, body_size):
        """Before all others: their positions are greater."""
        if self.head == 0:
            self.chunks.insert(0, bytearray(CHUNK_SLOTS * SLOT_BYTES))
            self.head = CHUNK_SLOTS
        self.head -= 1
        self.count += 1
        chunk = self.chunks[0]
        write_slot(chunk, self.head * SLOT_BYTES, position, location, length, body_size, 0)
        return 0

    def drop_first(self):
        """The oldest one is taken care of."""
        self.head += 1
        self.count -= 1
        if self.count == 0:
            self.clear()
        elif self.head == CHUNK_SLOTS:
            del self.chunks[0]
            self.head = 0
        return 0

    def clear(self):
        self.chunks = []
        self.head = 0
        self.count = 0

    def position_at(self, index):
        at = self.head + index
        chunk = self.chunks[at >> CHUNK_SHIFT]
        p = chunk
        return read_u64(p, (at & CHUNK_MASK) * SLOT_BYTES)

    def location_at(self, index):
        at = self.head + index
        chunk = self.chunks[at >> CHUNK_SHIFT]
        p = chunk
        return read_u64(p, (at & CHUNK_MASK) * SLOT_BYTES + 8)

    def number_at(self, index, field):
        """One of the short fields: 16 the length, 20 the body's size, 24 the deliveries."""
        at = self.head + index
        chunk = self.chunks[at >> CHUNK_SHIFT]
        p = chunk
        return read_u32(p, (at & CHUNK_MASK) * SLOT_BYTES + field)

    def move(self, index, location, length):
        """The message's record is elsewhere now."""
        at = self.head + index
        chunk = self.chunks[at >> CHUNK_SHIFT]
        p = chunk
        write_u64(p, (at & CHUNK_MASK) * SLOT_BYTES + 8, location)
        write_u32(p, (at & CHUNK_MASK) * SLOT_BYTES + 16, length)
        return 0

    def copy_slot(self, index, to, to_at):
        at = self.head + index
        chunk = self.chunks[at >> CHUNK_SHIFT]
        p = chunk
        q = to
        copy_octets(q, to_at, p, (at & CHUNK_MASK) * SLOT_BYTES, SLOT_BYTES)
        return 0

    def find(self, position):
        """The index of this position, or -1."""
        low = 0
        high = self.count - 1
        while low <= high:
            mid = (low + high) >> 1
            found = self.position_at(mid)
            if found == position:
                return mid
            if found < position:
                low = mid + 1
            else:
                high = mid - 1
        return -1


def write_slot(p, at, position, location, length, body_size, delivery_count):
    write_u64(p, at, position)
    write_u64(p, at + 8, location)
    write_u32(p, at + 16, length)
    write_u32(p, at + 20, body_size)
    write_u32(p, at + 24, delivery_count)
    write_u32(p, at + 28, 0)
