"""One column of a table in the making: values gather in buffers that have Arrow's layout.

Knows nothing of pyarrow: `take` gives the buffers, and whoever has it makes arrays of them without a copy. A column
without a null has no bitmap."""

import cython

if not cython.compiled:
    from leveret.core.codec.buffers import grow
    from leveret.core.codec.pure_octets import copy_octets, take

    def put_little32(p, at, value):
        p[at : at + 4] = value.to_bytes(4, "little", signed=True)

    def put_little64(p, at, value):
        p[at : at + 8] = value.to_bytes(8, "little", signed=True)


FIRST_BYTES = 4096


class Presence:
    """Which rows have a value: a bit for each, from the first row on that has none."""

    def __init__(self):
        self.rows = 0
        self.nulls = 0
        self.bits = None

    def note(self, present):
        row = self.rows
        self.rows += 1
        if self.bits is None:
            if present:
                return 0
            # All before it have one; there is room for some more.
            self.bits = bytearray(b"\xff" * (row // 8)) + bytearray(FIRST_BYTES)
            p = self.bits
            for bit in range(row % 8):
                p[row // 8] |= 1 << bit
        elif len(self.bits) <= row // 8:
            self.bits += bytearray(len(self.bits))
        if present:
            p = self.bits
            p[row // 8] |= 1 << (row % 8)
        else:
            self.nulls += 1
        return 0

    def take(self):
        """(rows, nulls, bitmap or None) so far; the next row is the first."""
        bits = None
        if self.bits is not None:
            p = self.bits
            bits = take(p, 0, (self.rows + 7) // 8)
        taken = (self.rows, self.nulls, bits)
        self.rows = self.nulls = 0
        self.bits = None
        return taken


class OctetColumn:
    """Texts or octets of any length."""

    def __init__(self):
        self.presence = Presence()
        self.data = bytearray(FIRST_BYTES)
        self.size = 0
        # Where each value ends, four octets each, behind a zero.
        self.ends = bytearray(FIRST_BYTES)

    def put(self, p, start, end):
        count = end - start
        size = self.size
        if size + count > len(self.data):
            self.data = grow(self.data, size, size + count)
        to = self.data
        copy_octets(to, size, p, start, count)
        self.size = size + count
        self.presence.note(True)
        return self.note_end()

    def put_text(self, p, start, end):
        """A text; what is not UTF-8 in it is replaced, because a table's texts are."""
        for i in range(start, end):
            if p[i] >= 0x80:
                octets = p[start:end].decode("utf-8", "replace").encode()
                source = octets
                return self.put(source, 0, len(octets))
        return self.put(p, start, end)

    def put_octets(self, octets):
        source = octets
        return self.put(source, 0, len(octets))

    def put_null(self):
        self.presence.note(False)
        return self.note_end()

    def note_end(self):
        at = 4 * self.presence.rows
        if at + 4 > len(self.ends):
            self.ends = grow(self.ends, at, at + 4)
        to = self.ends
        put_little32(to, at, self.size)
        return 0

    def take(self):
        """(rows, nulls, bitmap or None, ends, octets) so far; begins anew."""
        rows, nulls, bits = self.presence.take()
        ends = self.ends
        data = self.data
        taken = (rows, nulls, bits, take(ends, 0, 4 * (rows + 1)), take(data, 0, self.size))
        self.size = 0
        return taken


class NumberColumn:
    """Whole numbers of 64 bits."""

    def __init__(self):
        self.presence = Presence()
        self.data = bytearray(FIRST_BYTES)

    def put(self, value):
        at = 8 * self.presence.rows
        if at + 8 > len(self.data):
            self.data = grow(self.data, at, at + 8)
        to = self.data
        put_little64(to, at, value)
        return self.presence.note(True)

    def put_null(self):
        at = 8 * self.presence.rows
        if at + 8 > len(self.data):
            self.data = grow(self.data, at, at + 8)
        return self.presence.note(False)

    def take(self):
        """(rows, nulls, bitmap or None, numbers) so far; begins anew."""
        rows, nulls, bits = self.presence.take()
        data = self.data
        return (rows, nulls, bits, take(data, 0, 8 * rows))
