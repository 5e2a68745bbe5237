"""Bodies on their way from disk: which records are to be read, in how few reads, and the messages made of them.

One load belongs to one queue and goes through its head in order, so that cold messages are read in long sequential
stretches. Planned and finished on the loop; only the reading itself happens in a thread."""

import cython

if not cython.compiled:
    from leveret.core.codec.message import Message
    from leveret.core.codec.properties import scan_properties
    from leveret.core.codec.pure_octets import read_u16, read_u32, read_u64, same_octets, take, write_u64
    from leveret.core.log.record_check import message_length
    from leveret.core.log.records import ADDRESS_MASK, HEAD_BYTES, MESSAGE_HEAD_BYTES
    from leveret.core.log.slot_layout import SLOT_BYTES

# Records this near to each other are read in one go, with what lies between.
GAP_BYTES_MAX = 32768
# One load brings about this much into memory, in at most so many reads.
LOAD_BYTES = 1048576
LOAD_MESSAGES = 4096
LOAD_READS = 48
OFFSET_MASK = 0xFFFFFFFF


class Load:
    """`slots` are copies of cold slots (see core.log.cold); `messages` has, beside each, the message whose body is
    missing, or None where the message itself is still to be made."""

    def __init__(self, reads_max=LOAD_READS):
        """Each read may need a descriptor of its own, and of these there may be few."""
        self.reads_max = reads_max
        self.slots = bytearray()
        # Where each record stands in the buffer that is read into.
        self.places = bytearray()
        self.messages = []
        self.count = 0
        # True if it brings bodies back to entries that came back, false if it takes messages out of the cold part.
        self.of_returned = False
        # Octets of buffer that all reads together fill.
        self.size = 0
        # (segment, offset, size, place in the buffer), once planned; the last read is still being added to.
        self.extents = []
        self.segment = 0
        self.start = 0
        self.end = 0
        self.place = 0
        # Extents of which nobody has said yet that their octets were really read.
        self.unread = set()
        # What is given up, by its number in the load: true if the disk cannot read it, false if what was read is
        # no good record. Nothing else proves that a message is lost.
        self.lost = {}
        # Messages that are not here and not lost: their segments are gone, and with them whoever wanted them.
        self.gone_count = 0

    def is_full(self):
        return self.size >= LOAD_BYTES or self.count >= LOAD_MESSAGES or len(self.extents) >= self.reads_max - 1

    def add(self, message, location, length):
        """Adds the slot that was just written at `slot_room`, and sees which read brings its record."""
        segment = location >> 32
        offset = location & OFFSET_MASK
        if segment != self.segment or offset < self.start or offset > self.end + GAP_BYTES_MAX:
            self.seal()
            self.segment = segment
            self.start = offset
            self.end = offset
            self.place = self.size
        if offset + length > self.end:
            self.size += offset + length - self.end
            self.end = offset + length
        at = self.count * 8
        if at == len(self.places):
            self.places.extend(bytes(max(at, 512)))
        p = self.places
        write_u64(p, at, self.place + offset - self.start)
        self.messages.append(message)
        self.count += 1
        return 0

    def seal(self):
        """The last read is complete."""
        if self.end > self.start:
            self.unread.add(len(self.extents))
            self.extents.append((self.segment, self.start, self.end - self.start, self.place))
            self.start = self.end
        return 0

    def slot_room(self):
        """Where the next slot goes in `slots`."""
        at = self.count * SLOT_BYTES
        if at == len(self.slots):
            self.slots.extend(bytes(max(at, 64 * SLOT_BYTES)))
        return at

    # ---- once it was read

    def was_read(self, extent):
        """Every octet of the extent with this number was read, or does not exist, but for records that were given
        up."""
        self.unread.discard(extent)
        return 0

    def give_up(self, i):
        """The disk cannot read the record with this number."""
        self.lost[i] = True
        return 0

    def slot(self, i):
        """Position, location and length of the record with this number, and its place in the buffer."""
        at = i * SLOT_BYTES
        slots = self.slots
        return (
            read_u64(slots, at),
            read_u64(slots, at + 8),
            read_u32(slots, at + 16),
            read_u64(self.places, i * 8),
        )

    def records_of(self, extent):
        """The records of one extent, one by one: (number, segment, offset, length, place in the buffer)."""
        segment, start, size, place = self.extents[extent]
        found = []
        for i in range(self.count):
            _, location, length, at = self.slot(i)
            if place <= at < place + size:
                found.append((i, segment, location & OFFSET_MASK, length, at))
        return found

    def finish(self, data, segments):
        """Makes the messages, or brings back their bodies, from what was read into data. One that is lost stays
        None."""
        if self.unread:
            raise AssertionError("a load is judged before its octets were read")
        p = data
        slots = self.slots
        places = self.places
        last = None
        segment = None
        given_up = len(self.lost)
        for i in range(self.count):
            location = read_u64(slots, i * SLOT_BYTES + 8)
            length = read_u32(slots, i * SLOT_BYTES + 16)
            at = read_u64(places, i * 8)
            if segment is None or segment.id != location >> 32:
                segment = segments.get(location >> 32)
            if segment is None:
                self.gone_count += 1
                self.messages[i] = None
                continue
            if (given_up > 0 and i in self.lost) or message_length(p, at, at + length, segment.salt) != length:
                self.lost.setdefault(i, False)
                self.messages[i] = None
                continue
            message = self.messages[i]
            if message is None:
                message = Message.__new__(Message)
                message.address = None
                message.properties = None
                self.read_head(message, p, at, last)
                message.location = location
                message.length = length
                message.lone = True
                self.messages[i] = message
                last = message
            body_at = at + MESSAGE_HEAD_BYTES + (read_u16(p, at + 18) & ADDRESS_MASK) + read_u32(p, at + 24)
            message.body_size = read_u32(p, at + 28)
            message.body = take(p, body_at, body_at + message.body_size)
        return 0

    def read_head(self, message, p, at, last):
        """Address and properties, shared with the message before where they are the same: they mostly are."""
        address_size = read_u16(p, at + 18) & ADDRESS_MASK
        properties_size = read_u32(p, at + 24)
        message.stamp = read_u64(p, at + HEAD_BYTES)
        start = at + MESSAGE_HEAD_BYTES
        if last is not None and len(last.address) == address_size:
            known = last.address
            if same_octets(known, 0, p, start, address_size):
                message.address = last.address
        if message.address is None:
            message.address = take(p, start, start + address_size)
        start += address_size
        if last is not None and len(last.properties.raw) == properties_size:
            known = last.properties.raw
            if same_octets(known, 0, p, start, properties_size):
                message.properties = last.properties
        if message.properties is None:
            message.properties = scan_properties(p, start, start + properties_size)
        return 0
