"""Cells of a table that is read: what stands in a row of a column, straight from buffers that have Arrow's layout.

The counterpart of columns.py. Knows nothing of pyarrow, and checks nothing: whoever hands buffers over has seen that
they belong together. `first` is the buffers' row that is the column's first; without a null there is no bitmap."""

import cython

if not cython.compiled:

    def octets_of(owner):
        return memoryview(owner).cast("B")

    def has_bit(p, place):
        return p[place >> 3] >> (place & 7) & 1

    def get_little32(p, at):
        return int.from_bytes(p[at : at + 4], "little", signed=True)

    def get_little64(p, at):
        return int.from_bytes(p[at : at + 8], "little", signed=True)


class OctetCells:
    """Texts or octets of any length. The ends are numbers of 64 bits if it is a `wide` one, else of 32. With no octets,
    places alone: where the entries of each row's map begin."""

    def __init__(self, rows, first, bits, ends, octets, wide):
        self.rows = rows
        # The pointers are into these.
        self.owners = (bits, ends, octets)
        self.first = first
        self.has_nulls = bits is not None
        self.wide = wide
        self.bits = octets_of(b"" if bits is None else bits)
        self.ends = octets_of(b"" if ends is None else ends)
        self.p = octets_of(b"" if octets is None else octets)

    def is_null(self, row):
        return self.has_nulls and not has_bit(self.bits, self.first + row)

    def start(self, row):
        """Where a row's octets start; they end where the next one's start."""
        place = self.first + row
        return get_little64(self.ends, 8 * place) if self.wide else get_little32(self.ends, 4 * place)


class NumberCells:
    """Whole numbers of 64 bits."""

    def __init__(self, rows, first, bits, numbers):
        self.rows = rows
        self.owners = (bits, numbers)
        self.first = first
        self.has_nulls = bits is not None
        self.bits = octets_of(b"" if bits is None else bits)
        self.p = octets_of(b"" if numbers is None else numbers)

    def is_null(self, row):
        return self.has_nulls and not has_bit(self.bits, self.first + row)

    def value(self, row):
        return get_little64(self.p, 8 * (self.first + row))


class PairCells:
    """Maps of texts: each row's entries stand one after the other in the columns of names and values."""

    def __init__(self, ends, names, values):
        self.ends = ends
        self.names = names
        self.values = values
