"""One file of a stream's log, and its index: where every stretch of some 64 KiB starts, and what can be in it.

An index is a run of blocks of 40 octets:

    0  u64  offset of the first message in the block
    8  u64  when that arrived, in milliseconds of the wall clock
    16 u64  where it is in the file; the highest bit says that some message of the block has no filter value
    24      16 octets, a Bloom filter of the filter values in the block

Offsets and times never go down from one block to the next, so both are found by halving. The storage room keeps the
indexes of sealed segments in files; this one is in memory only while its segment grows."""

import cython

if not cython.compiled:
    from leveret.core.codec.pure_crc32c import crc32c
    from leveret.core.codec.pure_octets import clear_octets, read_u16, read_u32, read_u64, take, write_u64
    from leveret.core.log.records import MESSAGE_HEAD_BYTES

    BLOCK_BYTES = 40
    OFFSET_AT = 0
    STAMP_AT = 8
    PLACE_AT = 16
    BLOOM_AT = 24

PLACE_MASK = 0x7FFFFFFFFFFFFFFF
# Octets of records that one block is for.
BLOCK_SPAN = 65536
FIRST_INDEX_BYTES = 640


class StreamSegment:
    """`first_offset` is that of its first message, `end` where the next record goes, `synced` up to where the file is
    safe on disk and so may be read."""

    __slots__ = (
        "allocated",
        "damaged",
        "end",
        "first_offset",
        "first_stamp",
        "gone",
        "index",
        "index_bytes",
        "last_stamp",
        "next_offset",
        "number",
        "path",
        "salt",
        "synced",
    )

    def __init__(self, number, salt, path, first_offset, end):
        self.number = number
        self.salt = salt
        self.path = path
        self.first_offset = first_offset
        # Behind its last message; for the one that grows, see the log.
        self.next_offset = first_offset
        # When its first and last message arrived; 0 if it has none.
        self.first_stamp = 0
        self.last_stamp = 0
        self.end = end
        self.synced = end
        # Up to where the file has room already.
        self.allocated = end
        # The blocks while it grows; None once they are in a file of their own.
        self.index = bytearray(FIRST_INDEX_BYTES)
        self.index_bytes = 0
        # Retention has deleted it.
        self.gone = False
        # Something in it could not be read.
        self.damaged = False

    def note(self, offset, stamp, filter_value):
        """A message goes to the end: it is in the last block, or starts the next."""
        if self.first_stamp == 0:
            self.first_stamp = stamp
        self.last_stamp = stamp
        at = self.index_bytes - BLOCK_BYTES
        p = self.index
        if at < 0 or self.end - (read_u64(p, at + PLACE_AT) & PLACE_MASK) >= BLOCK_SPAN:
            if self.index_bytes + BLOCK_BYTES > len(self.index):
                self.index.extend(bytes(len(self.index)))
                p = self.index
            at = self.index_bytes
            write_u64(p, at + OFFSET_AT, offset)
            write_u64(p, at + STAMP_AT, stamp)
            write_u64(p, at + PLACE_AT, self.end)
            clear_octets(p, at + BLOOM_AT, at + BLOCK_BYTES)
            self.index_bytes += BLOCK_BYTES
        if filter_value is None:
            p[at + PLACE_AT] |= 0x80
        else:
            add_to_bloom(p, at + BLOOM_AT, filter_value)
        return 0

    def copy_index(self):
        return bytes(self.index[: self.index_bytes])

    def drop_index(self):
        """It is in a file now."""
        self.index = None
        self.index_bytes = 0

    def use_index(self, blocks):
        """Goes on with what its file's index had."""
        self.index = bytearray(blocks) if blocks else bytearray(FIRST_INDEX_BYTES)
        self.index_bytes = len(blocks)


def filter_value_at(data, at, length):
    """The filter value of the entry at data[at]; None if it has none."""
    p = data
    head = MESSAGE_HEAD_BYTES + read_u16(p, at + 18) + read_u32(p, at + 24) + read_u32(p, at + 28)
    return take(p, at + head, at + length) if head < length else None


def add_to_bloom(p, at, value):
    """Three bits of 128."""
    source = value
    sum = crc32c(0, source, 0, len(value))
    for _ in range(3):
        bit = sum & 127
        p[at + (bit >> 3)] |= 1 << (bit & 7)
        sum >>= 9
    return 0


def make_bloom(value):
    bloom = bytearray(16)
    p = bloom
    add_to_bloom(p, 0, value)
    return bytes(bloom)


def may_match(index, at, blooms, unfiltered):
    """Whether a message with one of the values that these are the Bloom filters of, or with none if that is asked for,
    may be in the block at index[at]."""
    p = index
    if unfiltered and p[at + PLACE_AT] & 0x80:
        return True
    for bloom in blooms:
        b = bloom
        found = True
        for i in range(16):
            if b[i] & ~p[at + BLOOM_AT + i]:
                found = False
                break
        if found:
            return True
    return False


def place_of(index, at):
    p = index
    return read_u64(p, at + PLACE_AT) & PLACE_MASK


def find_offset(index, size, offset):
    """The block in which this offset is, as its place in the index: the last one that does not start behind it. 0 if
    all do."""
    return find_last(index, size, OFFSET_AT, offset, False)


def find_stamp(index, size, stamp):
    """The last block whose first message arrived before this moment; 0 if none did."""
    return find_last(index, size, STAMP_AT, stamp, True)


def find_place(index, size, place):
    """The block in which this place of the file is."""
    low = 0
    high = size // BLOCK_BYTES
    while low < high:
        middle = (low + high) >> 1
        if place_of(index, middle * BLOCK_BYTES) <= place:
            low = middle + 1
        else:
            high = middle
    return (low - 1) * BLOCK_BYTES if low > 0 else 0


def find_last(index, size, field, wanted, below):
    """The last block whose field is not above what is wanted, or is below it."""
    p = index
    low = 0
    high = size // BLOCK_BYTES
    while low < high:
        middle = (low + high) >> 1
        value = read_u64(p, middle * BLOCK_BYTES + field)
        if value < wanted or (value == wanted and not below):
            low = middle + 1
        else:
            high = middle
    return (low - 1) * BLOCK_BYTES if low > 0 else 0
