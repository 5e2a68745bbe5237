"""Whether a stored record is good: its checksum, and then every length and number inside that a reader goes by.

A checksum says that the octets are those that were written, not that they make sense: what another program wrote, or
somebody who knows the salt, can have any lengths in it. So each is compared with the octets that the record really has,
once and here, before anything else looks inside. Every reader of records goes through these functions, and what they
let pass can be read without another check: addresses, properties with nested headers, targets, notes, sub-batches and
what streams track. A record with a good checksum that does not fit is damage, never a torn end.

Checks and nothing else, without the interpreter's lock: also the disk's thread calls it. Indexes, which are files of
their own, are checked here as well."""

import cython

if not cython.compiled:
    from leveret.core.codec.pure_octets import read_u16, read_u32, read_u64
    from leveret.core.log.records import (
        ADDRESS_MASK,
        ENTRY,
        FLOOR,
        GROUP,
        GROUP_HEAD_BYTES,
        HEAD_BYTES,
        KIND_MASK,
        MESSAGE,
        MESSAGE_HEAD_BYTES,
        NOTE_BYTES,
        NOTES,
        PAGED,
        PLACED,
        SHARED,
        STATE,
        STATE_BYTES,
        TARGET_BYTES,
        TRACK,
        sealed_length,
    )

    RAW = 1
    SUBBATCH = 2
    SUBBATCH_EXTRA_BYTES = 5
    SUBBATCH_COUNT_MAX = 0xFFFF
    ITEM_BYTES = 10
    BATCH_ITEM = 3
    BATCH_NAME_BYTES = 8
    NESTING_MAX = 32
    BLOCK_BYTES = 40

PLACE_MASK = 0x7FFFFFFFFFFFFFFF
HEADERS_BIT = 0x2000


def record_length(p, at, end, salt):
    """The length of the record at p[at], or 0 if there is no whole and good one."""
    length = sealed_length(p, at, end, salt)
    return length if length > 0 and fits(p, at, length) else 0


def message_length(p, at, end, salt):
    """The same for a record that must be a message's."""
    length = record_length(p, at, end, salt)
    return length if length > 0 and (p[at + 16] == MESSAGE or p[at + 16] == PAGED) else 0


def checked_length(data, at, end, salt):
    """record_length for callers outside the data plane."""
    p = data
    return record_length(p, at, end, salt)


def checked_message_length(data, at, end, salt):
    """message_length for callers outside the data plane."""
    p = data
    return message_length(p, at, end, salt)


# ---- by kind


def fits(p, at, length):
    """Whether what the record at p[at] says of its inside fits into its `length` octets, all of which are there."""
    kind = p[at + 16]
    # Sequences and offsets are never as high: the next one could not be counted.
    if read_u64(p, at + 8) > PLACE_MASK:
        return False
    if kind == MESSAGE or kind == PAGED:
        return message_fits(p, at, length)
    if kind == ENTRY:
        return entry_fits(p, at, length)
    if SHARED <= kind <= FLOOR:
        return shared_fits(p, at, length)
    # How far everything was synced.
    if kind == 0 or kind > TRACK or read_u64(p, at + 24) > PLACE_MASK:
        return False
    if kind == NOTES:
        return notes_fit(p, at, length)
    if kind == TRACK:
        return items_fit(p, at + HEAD_BYTES, at + length)
    return True


def message_fits(p, at, length):
    address = read_u16(p, at + 18) & ADDRESS_MASK
    count = read_u32(p, at + 20)
    properties = read_u32(p, at + 24)
    body = read_u32(p, at + 28)
    # There may be room behind for targets that it never had.
    end = MESSAGE_HEAD_BYTES + address + properties + body + count * TARGET_BYTES
    if end > length or read_u64(p, at + HEAD_BYTES) > PLACE_MASK:
        return False
    at += MESSAGE_HEAD_BYTES
    return address_fits(p, at, address) and properties_fit(p, at + address, at + address + properties)


def entry_fits(p, at, length):
    flags = p[at + 17]
    address = read_u16(p, at + 18)
    count = read_u32(p, at + 20)
    properties = read_u32(p, at + 24)
    body = read_u32(p, at + 28)
    end = MESSAGE_HEAD_BYTES + address + properties + body
    # What stands behind is the filter value.
    if end > length or count == 0 or read_u64(p, at + HEAD_BYTES) > PLACE_MASK:
        return False
    at += MESSAGE_HEAD_BYTES
    if not address_fits(p, at, address):
        return False
    if flags & SUBBATCH:
        return flags & RAW == 0 and properties == SUBBATCH_EXTRA_BYTES and count <= SUBBATCH_COUNT_MAX
    if flags & RAW:
        return properties == 0 and count == 1
    return count == 1 and properties_fit(p, at + address, at + address + properties)


def shared_fits(p, at, length):
    """A record of a consensus group: numbers that can be counted, and as many octets as it says."""
    kind = p[at + 16]
    if length < GROUP_HEAD_BYTES:
        return False
    # Group, term, index; or of a STATE: group, term, vote.
    if max(read_u64(p, at + 24), read_u64(p, at + 32), read_u64(p, at + 40)) > PLACE_MASK:
        return False
    if kind == STATE:
        return length == STATE_BYTES and read_u64(p, at + 48) <= PLACE_MASK
    count = read_u16(p, at + 18)
    if kind == SHARED:
        return count <= length - GROUP_HEAD_BYTES
    count += read_u32(p, at + 20)
    return length == GROUP_HEAD_BYTES + 8 * count


def notes_fit(p, at, length):
    count = read_u32(p, at + 20)
    if count * NOTE_BYTES > length - HEAD_BYTES:
        return False
    at += HEAD_BYTES
    for i in range(count):
        # Where a message or a group's record is says that record, and the index that is made of it.
        kind = read_u32(p, at + i * NOTE_BYTES + 28) & KIND_MASK
        if kind == PLACED or kind == GROUP:
            return False
    return True


def items_fit(p, at, end):
    """What a stream tracks: names, each with its length before it."""
    while at < end:
        if end - at < ITEM_BYTES or p[at + 1] > end - at - ITEM_BYTES:
            return False
        if p[at] == BATCH_ITEM and p[at + 1] != BATCH_NAME_BYTES:
            return False
        at += ITEM_BYTES + p[at + 1]
    return True


def address_fits(p, at, size):
    """The exchange and the routing key, each with its length before it."""
    if size < 2 or p[at] > size - 2:
        return False
    key_at = at + 1 + p[at]
    return key_at + 1 + p[key_at] == at + size


# ---- properties: what core.codec.properties would refuse


def properties_fit(p, at, end):
    if end - at < 2:
        return False
    flags = read_u16(p, at)
    if flags & 1:
        return False
    at += 2
    bit = 0x8000
    while bit > 2:
        if flags & bit:
            if bit == HEADERS_BIT:
                if end - at < 4:
                    return False
                size = read_u32(p, at)
                if size > end - at - 4 or not values_fit(p, at + 4, at + 4 + size, True, 0):
                    return False
                size += 4
            elif bit == 0x1000 or bit == 0x0800:
                size = 1
            elif bit == 0x0040:
                size = 8
            else:
                size = 1 + p[at] if at < end else 1
            if size > end - at:
                return False
            at += size
        bit >>= 1
    return at == end


def values_fit(p, at, end, named, depth):
    """The fields of a table, or of an array, whose values have no names."""
    if depth >= NESTING_MAX:
        return False
    while at < end:
        if named:
            # At least the octet of the value's type follows.
            if p[at] >= end - at - 1 or not is_utf8(p, at + 1, at + 1 + p[at]):
                return False
            at += 1 + p[at]
        size = value_size(p, at, end)
        if size == 0 or size > end - at:
            return False
        # F and A
        if p[at] == 70 or p[at] == 65:
            if not values_fit(p, at + 5, at + size, p[at] == 70, depth + 1):
                return False
        at += size
    return True


def value_size(p, at, end):
    """Octets of the value whose type letter stands at `at`, with that; 0 if there is no such type."""
    kind = p[at]
    # S, F, A, x
    if kind == 83 or kind == 70 or kind == 65 or kind == 120:
        if end - at < 5:
            return 0
        size = read_u32(p, at + 1)
        return size + 5
    # I, i, f
    if kind == 73 or kind == 105 or kind == 102:
        return 5
    # l, L, T, d
    if kind == 108 or kind == 76 or kind == 84 or kind == 100:
        return 9
    # t, b, B
    if kind == 116 or kind == 98 or kind == 66:
        return 2
    # s, u
    if kind == 115 or kind == 117:
        return 3
    # D
    if kind == 68:
        return 6
    # V
    return 1 if kind == 86 else 0


def is_utf8(p, at, end):
    """By the rules of RFC 3629: neither surrogates nor forms that are longer than need be."""
    while at < end:
        first = p[at]
        at += 1
        if first < 0x80:
            continue
        if first < 0xC2 or first > 0xF4:
            return False
        more = 1 if first < 0xE0 else 2 if first < 0xF0 else 3
        if more > end - at:
            return False
        low = 0xA0 if first == 0xE0 else 0x90 if first == 0xF0 else 0x80
        high = 0x9F if first == 0xED else 0x8F if first == 0xF4 else 0xBF
        if p[at] < low or p[at] > high:
            return False
        at += 1
        for _ in range(more - 1):
            if p[at] & 0xC0 != 0x80:
                return False
            at += 1
    return True


# ---- indexes


def index_fits(notes, first_place, end):
    """Whether these are whole notes, and every record that they place is within the segment, whose records stand from
    `first_place` to `end`."""
    p = notes
    size = len(notes)
    if size % NOTE_BYTES != 0:
        return False
    at = 0
    while at < size:
        kind = read_u32(p, at + 28) & KIND_MASK
        if kind == PLACED or kind == GROUP:
            place = read_u32(p, at + 16)
            length = read_u32(p, at + 20)
            least = MESSAGE_HEAD_BYTES if kind == PLACED else GROUP_HEAD_BYTES
            if place < first_place or place & 7 or length < least or place + length > end:
                return False
        at += NOTE_BYTES
    return True


def blocks_fit(blocks, first_place, end):
    """The same for the blocks of a stream's index, see core.stream.segment: each starts within the segment, behind the
    one before."""
    p = blocks
    size = len(blocks)
    if size % BLOCK_BYTES != 0:
        return False
    last = 0
    at = 0
    while at < size:
        place = read_u64(p, at + 16) & PLACE_MASK
        if place < first_place or place & 7 or place >= end or place <= last or read_u64(p, at) > PLACE_MASK:
            return False
        last = place
        at += BLOCK_BYTES
    return True
