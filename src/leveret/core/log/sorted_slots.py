"""Slots of messages on disk, sorted by position and reached by it: the index of what waits for its moment.

A slot is that of the cold list (core/log/cold.py): position, location, length, body size, deliveries. Positions come in
any order, use all 64 bits and are there once. The slots stand in chunks that are no longer than what they hold, so
that a message costs little more than its slot, and no step moves more than a chunk and the list of chunks. Never
touches a message or its record."""

import cython

if not cython.compiled:
    from leveret.core.codec.pure_octets import copy_octets, read_u32, read_u64, write_u32, write_u64
    from leveret.core.log.cold import write_slot
    from leveret.core.log.slot_layout import BODY_SIZE, LENGTH, LOCATION, SLOT_BYTES

BOUND_BYTES = 8
# A handle is the number of the chunk and, in its lowest bits, that of the slot.
CHUNK_SHIFT = 9
CHUNK_MASK = 511
# A full chunk, 512 slots. It is split into halves, unless something comes in at its end.
CHUNK_BYTES = 512 * SLOT_BYTES
HALF_BYTES = 256 * SLOT_BYTES
# A chunk that fell below this many octets joins a neighbour if together they are no more than half a chunk; so many
# steps lie between a split and the next merge.
SMALL_BYTES = 128 * SLOT_BYTES


class SortedSlots:
    __slots__ = ("bounds", "bytes_total", "chunks", "count", "slot")

    def __init__(self):
        # Where the next slot is written before it goes to its place: what fails has changed nothing.
        self.slot = bytearray(SLOT_BYTES)
        self.clear()

    def clear(self):
        # Never empty; of several chunks none is.
        self.chunks = [bytearray()]
        # Per chunk a u64: its positions are not below it, those of the chunk before are. That of the first chunk means
        # nothing, for it takes whatever is below the second's. Together they are few octets, which is why searches
        # look here and not into the chunks.
        self.bounds = bytearray(BOUND_BYTES)
        self.count = 0
        # Body octets of what is here.
        self.bytes_total = 0

    def add(self, position, location, length, body_size, delivery_count):
        """False, and nothing has changed, if there is one with this position."""
        number = len(self.chunks) - 1
        chunk = self.chunks[number]
        p = chunk
        at = len(chunk)
        # Most are due after all others.
        if at > 0 and position <= read_u64(p, at - SLOT_BYTES):
            number = self.chunk_of(position)
            chunk = self.chunks[number]
            p = chunk
            at = seek(p, len(chunk), position)
            if at < len(chunk) and read_u64(p, at) == position:
                return False
        q = self.slot
        write_slot(q, 0, position, location, length, body_size, delivery_count)
        if len(chunk) == CHUNK_BYTES:
            if at == CHUNK_BYTES:
                # Here and next time: who adds in increasing order leaves full chunks behind.
                chunk = bytearray()
                self.insert_chunk(number + 1, chunk, position)
                at = 0
            else:
                upper = chunk[HALF_BYTES:]
                self.insert_chunk(number + 1, upper, read_u64(p, HALF_BYTES))
                del chunk[HALF_BYTES:]
                if at > HALF_BYTES:
                    chunk = upper
                    at -= HALF_BYTES
        chunk[at:at] = self.slot
        self.count += 1
        self.bytes_total += body_size
        return True

    def first_position(self):
        """There must be one."""
        assert self.count > 0
        chunk = self.chunks[0]
        p = chunk
        return read_u64(p, 0)

    def copy_first(self, to, to_at):
        """There must be one."""
        assert self.count > 0 and 0 <= to_at <= len(to) - SLOT_BYTES
        chunk = self.chunks[0]
        p = chunk
        q = to
        copy_octets(q, to_at, p, 0, SLOT_BYTES)
        return 0

    def drop_first(self):
        """There must be one."""
        assert self.count > 0
        return self.cut_out(0, 0)

    def find(self, position):
        """Not negative if this position is here; -1 if not."""
        number = self.chunk_of(position)
        chunk = self.chunks[number]
        p = chunk
        at = seek(p, len(chunk), position)
        if at == len(chunk) or read_u64(p, at) != position:
            return -1
        return number << CHUNK_SHIFT | at // SLOT_BYTES

    def last_below(self, position):
        """The highest position below this one; 0 if there is none."""
        number = self.chunk_of(position)
        chunk = self.chunks[number]
        p = chunk
        at = seek(p, len(chunk), position)
        if at == 0:
            if number == 0:
                return 0
            chunk = self.chunks[number - 1]
            p = chunk
            at = len(chunk)
        return read_u64(p, at - SLOT_BYTES)

    def location_of(self, position):
        """0 if this position is not here."""
        found = self.find(position)
        if found < 0:
            return 0
        chunk = self.chunks[found >> CHUNK_SHIFT]
        p = chunk
        return read_u64(p, (found & CHUNK_MASK) * SLOT_BYTES + LOCATION)

    def length_of(self, position):
        """Octets of the record; 0 if this position is not here."""
        return self.number_of(position, LENGTH)

    def body_size_of(self, position):
        """0 if this position is not here."""
        return self.number_of(position, BODY_SIZE)

    def number_of(self, position, field):
        found = self.find(position)
        if found < 0:
            return 0
        chunk = self.chunks[found >> CHUNK_SHIFT]
        p = chunk
        return read_u32(p, (found & CHUNK_MASK) * SLOT_BYTES + field)

    def move(self, position, location, length):
        """The message's record is elsewhere now. False if this position is not here."""
        found = self.find(position)
        if found < 0:
            return False
        chunk = self.chunks[found >> CHUNK_SHIFT]
        p = chunk
        at = (found & CHUNK_MASK) * SLOT_BYTES
        write_u64(p, at + LOCATION, location)
        write_u32(p, at + LENGTH, length)
        return True

    def remove(self, position):
        """False if this position is not here."""
        found = self.find(position)
        if found < 0:
            return False
        self.cut_out(found >> CHUNK_SHIFT, (found & CHUNK_MASK) * SLOT_BYTES)
        return True

    def slots_from(self, position, limit):
        """A copy of the slots from this position on, in order, at most so many; fewer only if there are no more."""
        slots = bytearray()
        left = min(limit, self.count) * SLOT_BYTES
        number = self.chunk_of(position)
        chunk = self.chunks[number]
        at = seek(chunk, len(chunk), position)
        while left > 0 and number < len(self.chunks):
            chunk = self.chunks[number]
            end = min(len(chunk), at + left)
            slots += chunk[at:end]
            left -= end - at
            at = 0
            number += 1
        return slots

    def chunk_of(self, position):
        """The number of the chunk where this position is, if it is here, and belongs, if it is not."""
        p = self.bounds
        low = 0
        high = len(self.chunks) - 1
        while low < high:
            mid = (low + high + 1) >> 1
            if read_u64(p, mid * BOUND_BYTES) <= position:
                low = mid
            else:
                high = mid - 1
        return low

    def insert_chunk(self, number, chunk, bound):
        at = number * BOUND_BYTES
        self.bounds[at:at] = bytearray(BOUND_BYTES)
        p = self.bounds
        write_u64(p, at, bound)
        self.chunks.insert(number, chunk)
        return 0

    def drop_chunk(self, number):
        at = number * BOUND_BYTES
        del self.bounds[at : at + BOUND_BYTES]
        del self.chunks[number]
        return 0

    def cut_out(self, number, at):
        chunk = self.chunks[number]
        p = chunk
        self.bytes_total -= read_u32(p, at + BODY_SIZE)
        self.count -= 1
        # At the start of a chunk this moves nothing: a bytearray remembers where it starts.
        del chunk[at : at + SLOT_BYTES]
        if len(chunk) < SMALL_BYTES and len(self.chunks) > 1:
            self.join_small(number)
        return 0

    def join_small(self, number):
        chunk = self.chunks[number]
        if len(chunk) == 0:
            return self.drop_chunk(number)
        if number + 1 < len(self.chunks):
            other = self.chunks[number + 1]
            if len(chunk) + len(other) <= HALF_BYTES:
                chunk += other
                return self.drop_chunk(number + 1)
        if number > 0:
            other = self.chunks[number - 1]
            if len(chunk) + len(other) <= HALF_BYTES:
                other += chunk
                return self.drop_chunk(number)
        return 0


def seek(p, size, position):
    """Where in these octets of sorted slots the first one stands that is not below this position; the end if none."""
    low = 0
    high = size // SLOT_BYTES
    while low < high:
        mid = (low + high) >> 1
        if read_u64(p, mid * SLOT_BYTES) < position:
            low = mid + 1
        else:
            high = mid
    return low * SLOT_BYTES
