"""Looking for the next good record behind a damaged one, in octets that may look like anything.

A body may be full of what looks like heads of records, each with a length that reaches far: to checksum every one of
them over all of its length would take time by the square. The checksum of any stretch is put together here from those
of two prefixes, which are computed once: CRC is linear, so crc(salt, a to b) is crc(0 to b), xor that which `b - a`
octets of zero make of crc(0 to a) xor salt. So each octet is checksummed a bounded number of times, whatever the octets
are and whoever chose them; `checksummed` counts it. Never touches a file. Used by scans and by storage's searches,
after the first damage they meet."""

import cython

if not cython.compiled:
    from leveret.core.codec.pure_crc32c import crc32c
    from leveret.core.codec.pure_octets import read_u32, read_u64, write_u32
    from leveret.core.log.record_check import fits
    from leveret.core.log.records import HEAD_BYTES, padded

    POWERS_MAX = 32
    TABLES_SIZE = 32768

# A prefix's checksum is kept for every so many octets; the rest is computed each time.
STEP_BYTES = 64
# What is no longer than this is checksummed as it is.
SHORT_BYTES = 128
# What one octet of zero makes of a checksum whose lowest bit is set, and the bits above it: CRC-32C, reflected.
POLYNOMIAL = 0x82F63B78


class RecordSearch:
    """One search through `data`; places only grow from call to call, or all is computed anew."""

    def __init__(self, data, salt):
        self.data = data
        self.salt = salt
        # Checksums of data[base:base + STEP_BYTES * i], 32 bits each, and for how many i.
        self.sums = None
        self.base = 0
        self.known = 0
        # What 2 ** i octets of zero make of a checksum: four tables of 256 for each i, by its octets; for how many i.
        if not cython.compiled:
            self.tables = [0] * TABLES_SIZE
        self.powers = 0
        self.checksummed = 0

    def find(self, at, sequence_min):
        """Where the next good record with a sequence of at least `sequence_min` starts, from `at` on; -1 if there is
        none. One whose inside does not fit is none: nothing that it says can be relied on."""
        p = self.data
        end = len(self.data)
        at = padded(at)
        while at + HEAD_BYTES <= end:
            length = read_u32(p, at + 4)
            # Cheap questions first: this looks at every eighth octet of a damaged stretch.
            if length >= HEAD_BYTES and length <= end - at and read_u64(p, at + 8) >= sequence_min:
                if self.checksum(at + 4, at + length) == read_u32(p, at) and fits(p, at, length):
                    return at
            at += 8
        return -1

    def length_at(self, at):
        """The same as sealed_length of core.log.records."""
        p = self.data
        end = len(self.data)
        if end - at < HEAD_BYTES:
            return 0
        length = read_u32(p, at + 4)
        if length < HEAD_BYTES or length > end - at:
            return 0
        return length if self.checksum(at + 4, at + length) == read_u32(p, at) else 0

    def checksum(self, start, end):
        """CRC-32C of data[start:end], salted."""
        if end - start <= SHORT_BYTES:
            self.checksummed += end - start
            p = self.data
            return crc32c(self.salt, p, start, end)
        if self.sums is None or start < self.base:
            self.base = start & ~7
            self.sums = bytearray(4 * ((len(self.data) - self.base) // STEP_BYTES + 1))
            self.known = 1
        before = self.prefix(start) ^ self.salt
        return self.prefix(end) ^ self.behind_zeros(before, end - start)

    def prefix(self, place):
        """CRC-32C of data[base:place]."""
        p = self.data
        q = self.sums
        index = (place - self.base) // STEP_BYTES
        while self.known <= index:
            at = self.base + STEP_BYTES * (self.known - 1)
            write_u32(q, 4 * self.known, crc32c(read_u32(q, 4 * self.known - 4), p, at, at + STEP_BYTES))
            self.known += 1
            self.checksummed += STEP_BYTES
        at = self.base + STEP_BYTES * index
        self.checksummed += place - at
        return crc32c(read_u32(q, 4 * index), p, at, place)

    def behind_zeros(self, crc, count):
        """What so many octets of zero make of a checksum's register."""
        power = 0
        while count > 0:
            if self.powers <= power:
                self.add_power()
            if count & 1:
                crc = self.moved(crc, power)
            count >>= 1
            power += 1
        return crc

    def moved(self, crc, power):
        at = power << 10
        return (
            self.tables[at + (crc & 0xFF)]
            ^ self.tables[at + 256 + ((crc >> 8) & 0xFF)]
            ^ self.tables[at + 512 + ((crc >> 16) & 0xFF)]
            ^ self.tables[at + 768 + (crc >> 24)]
        )

    def add_power(self):
        """The tables of twice as many octets of zero as those before."""
        at = self.powers << 10
        for bit in range(32):
            # Shifted as what it is: the highest bit of a signed one cannot be.
            value = 1
            value <<= bit
            if self.powers == 0:
                for _ in range(8):
                    value = (value >> 1) ^ (POLYNOMIAL if value & 1 else 0)
            else:
                value = self.moved(self.moved(value, self.powers - 1), self.powers - 1)
            table = at + 256 * (bit >> 3)
            lowest = 1 << (bit & 7)
            self.tables[table] = 0
            # Of every octet whose highest bit is this one: what the others make of it is there already.
            for low in range(lowest):
                self.tables[table + lowest + low] = self.tables[table + low] ^ value
        self.powers += 1
        return 0
