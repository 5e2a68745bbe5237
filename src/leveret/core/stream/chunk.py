"""A subscription of the stream protocol: what stands at its cursor goes out as chunks, one for each credit.

A chunk is a run of entries with consecutive offsets, up to so many octets; clients count from its first offset. An
entry of the stream protocol goes out as it came, one of AMQP 0-9-1 as sections of AMQP 1.0. With filter values a chunk
starts and ends with an entry that has one of them; what is in between the client filters itself, as the protocol wants
it. A pure machine: it reads through its cursor and writes into its connection's write buffer, unless that is
congested."""

import zlib

import cython

from leveret.core.codec.amqp10 import data_head, head_amqp10, to_amqp10
from leveret.core.stream.segment import make_bloom

if not cython.compiled:
    from leveret.core.codec.pure_octets import (
        copy_octets,
        read_u16,
        read_u32,
        read_u64,
        same_octets,
        take,
        write_u16,
        write_u32,
        write_u64,
    )
    from leveret.core.log.records import MESSAGE_HEAD_BYTES
    from leveret.core.stream.log import RAW, SUBBATCH

DELIVER = 8
# A chunk's octets of entries, unless one alone has more, and its entries.
CHUNK_BYTES_MAX = 65536
ENTRIES_MAX = 4096
# So many octets of entries that do not match end a chunk.
GAP_BYTES_MAX = 8192
# Size, key, version, subscription; then the chunk's own head.
FRAME_HEAD = 9
CHUNK_HEAD = 48
MAGIC_AND_VERSION = 0x50
EPOCH = 1
CREDIT_MAX = 1 << 30


class StreamSubscription:
    def __init__(self, id, stream, write_buffer, version, bytes_max):
        self.id = id
        self.stream = stream
        self.write_buffer = write_buffer
        # Of DELIVER: 2 says how far the stream is committed.
        self.version = version
        self.bytes_max = bytes_max
        # None while it is not served.
        self.cursor = None
        self.credit = 0
        # The filter values that are wanted, None for everything; and whether entries without one are.
        self.values = None
        self.blooms = None
        self.unfiltered = False
        # The last address and properties of an AMQP 0-9-1 message, and the sections that they are: most repeat them.
        self.address = b""
        self.properties = b""
        self.sections = b""
        self.encoded = False
        self.known = False
        # The entry at the cursor if it had to be put together on its own.
        self.whole = None
        self.chunks_total = 0
        self.messages_total = 0

    def filter(self, values, unfiltered):
        self.values = frozenset(values)
        self.blooms = [make_bloom(value) for value in values]
        self.unfiltered = unfiltered

    # ---- start and stop

    def begin(self, offset):
        self.pause()
        self.cursor = self.stream.open_cursor(self, offset, self.blooms, self.unfiltered)
        self.transport()

    def pause(self):
        """Sends nothing more; `begin` goes on, wherever it says."""
        if self.cursor is not None:
            self.cursor.close()
            self.cursor = None

    def add_credit(self, credit):
        self.credit = min(self.credit + credit, CREDIT_MAX)
        self.transport()

    def cursor_ready(self):
        """There is something to read again."""
        self.transport()

    # ---- sending

    def transport(self):
        """Sends as long as there is credit, room and something to send."""
        while self.cursor is not None and self.credit > 0 and not self.write_buffer.congested and self.cursor.ready():
            self.write_chunk()
        return 0

    def write_chunk(self):
        """One chunk from the entry at the cursor on; none if the filter leaves nothing of what is there."""
        cursor = self.cursor
        while self.values is not None and not self.wants():
            cursor.step()
            if not cursor.ready():
                return 0
        out = self.write_buffer
        size = self.entry_size()
        room = max(size, self.bytes_max)
        head = FRAME_HEAD + CHUNK_HEAD + (8 if self.version == 2 else 0)
        out.reserve(head + room)
        q = out.p
        start = out.end + head
        at = end = start
        first = following = read_u64(cursor.p, cursor.at + 8)
        stamp = read_u64(cursor.p, cursor.at + 32)
        entries = records = 0
        taken = 0
        while True:
            self.copy_entry(q, at)
            at += size
            following += read_u32(cursor.p, cursor.at + 20)
            cursor.step()
            taken += 1
            if self.values is None or self.matched:
                end = at
                entries = taken
                records = following - first
            if taken == ENTRIES_MAX or at - end > GAP_BYTES_MAX or not cursor.ready():
                break
            if read_u64(cursor.p, cursor.at + 8) != following:
                break
            size = self.entry_size()
            if at - start + size > room:
                break
            if self.values is not None:
                self.wants()
        self.write_head(q, out.end, end - start, entries, records, stamp, first)
        view = memoryview(out.data)[start:end]
        write_u32(q, start - 16, zlib.crc32(view))
        view.release()
        out.wrote(end - out.end)
        self.credit -= 1
        self.chunks_total += 1
        self.messages_total += records
        self.stream.delivered_total += records
        self.stream.streamed_total += records
        return 0

    def write_head(self, q, at, size, entries, records, stamp, first):
        """The frame's head and the chunk's, but for the checksum."""
        extra = 8 if self.version == 2 else 0
        write_u32(q, at, FRAME_HEAD - 4 + extra + CHUNK_HEAD + size)
        write_u16(q, at + 4, DELIVER)
        write_u16(q, at + 6, self.version)
        q[at + 8] = self.id
        at += FRAME_HEAD
        if extra:
            write_u64(q, at, self.stream.log.committed_offset - 1)
            at += 8
        q[at] = MAGIC_AND_VERSION
        q[at + 1] = 0
        write_u16(q, at + 2, entries)
        write_u32(q, at + 4, records)
        write_u64(q, at + 8, stamp)
        write_u64(q, at + 16, EPOCH)
        write_u64(q, at + 24, first)
        write_u32(q, at + 36, size)
        write_u64(q, at + 40, 0)
        return 0

    def wants(self):
        """Whether the entry at the cursor has one of the filter values."""
        cursor = self.cursor
        p = cursor.p
        at = cursor.at
        end = at + MESSAGE_HEAD_BYTES + read_u16(p, at + 18) + read_u32(p, at + 24) + read_u32(p, at + 28)
        if end == at + cursor.length:
            self.matched = self.unfiltered
        else:
            self.matched = take(p, end, at + cursor.length) in self.values
        return self.matched

    # ---- entries

    def entry_size(self):
        """How many octets the entry at the cursor has in a chunk."""
        p = self.cursor.p
        at = self.cursor.at
        body_size = read_u32(p, at + 28)
        if p[at + 17] & RAW:
            return 4 + body_size
        if p[at + 17] & SUBBATCH:
            return 11 + body_size
        self.whole = None
        address_size = read_u16(p, at + 18)
        properties_size = read_u32(p, at + 24)
        at += MESSAGE_HEAD_BYTES
        if (
            not self.known
            or address_size != len(self.address)
            or properties_size != len(self.properties)
            or not same_octets(p, at, self.address, 0, address_size)
            or not same_octets(p, at + address_size, self.properties, 0, properties_size)
        ):
            self.address = take(p, at, at + address_size)
            self.properties = take(p, at + address_size, at + address_size + properties_size)
            self.make_sections()
        if self.encoded:
            at += address_size + properties_size
            self.whole = to_amqp10(self.properties, take(p, at, at + body_size), *self.names())
            return 4 + len(self.whole)
        return 4 + len(self.sections) + (5 if body_size < 256 else 8) + body_size

    def names(self):
        """The exchange and the routing key of the address."""
        address = self.address
        return address[1 : 1 + address[0]], address[2 + address[0] :]

    def make_sections(self):
        exchange, key = self.names()
        self.sections, self.encoded = head_amqp10(self.properties, exchange, key)
        self.known = True
        return 0

    def copy_entry(self, q, to):
        """Writes the entry at the cursor to q[to], where entry_size has found room for it."""
        p = self.cursor.p
        at = self.cursor.at
        flags = p[at + 17]
        size = read_u32(p, at + 28)
        extra_at = at + MESSAGE_HEAD_BYTES + read_u16(p, at + 18)
        body_at = extra_at + read_u32(p, at + 24)
        if flags & SUBBATCH:
            q[to] = 0x80 | (p[extra_at] & 7) << 4
            write_u16(q, to + 1, read_u32(p, at + 20))
            copy_octets(q, to + 3, p, extra_at + 1, 4)
            write_u32(q, to + 7, size)
            to += 11
        elif flags & RAW:
            write_u32(q, to, size)
            to += 4
        elif self.whole is not None:
            source = self.whole
            write_u32(q, to, len(self.whole))
            copy_octets(q, to + 4, source, 0, len(self.whole))
            return 0
        else:
            head = data_head(size)
            write_u32(q, to, len(self.sections) + len(head) + size)
            to += 4
            source = self.sections
            copy_octets(q, to, source, 0, len(self.sections))
            to += len(self.sections)
            source = head
            copy_octets(q, to, source, 0, len(head))
            to += len(head)
        copy_octets(q, to, p, body_at, size)
        return 0
