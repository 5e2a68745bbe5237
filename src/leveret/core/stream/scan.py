"""Walks through the records of a stream's segment: after a crash, to find its end and what it has; and to look one up.

Goes as far as the records are whole, undamaged and in order, a stretch of octets at a time; notes what it passes in the
segment's index and in what is tracked. Says where it stopped and lets the storage room judge why."""

import cython

if not cython.compiled:
    from leveret.core.pure_octets import read_u32, read_u64
    from leveret.core.records import ENTRY, HEAD_BYTES, TRACK, padded, record_length
    from leveret.core.stream.segment import filter_value_at


class StreamScan:
    """`next_offset` is the one that must come next, None as long as any may. `segment` and `tracking` take in what is
    found, from `segment.end` on."""

    def __init__(self, segment, tracking, next_offset):
        self.segment = segment
        self.tracking = tracking
        self.known = next_offset is not None
        # The first record says where the segment starts.
        self.from_start = not self.known
        self.next_offset = next_offset or 0
        # Up to here everything was synced, as far as the records say.
        self.synced_offset = 0
        # Behind the last TRACK record: where in the file, and the next offset there.
        self.part_end = segment.end
        self.part_offset = self.next_offset
        self.records = 0
        self.messages = 0

    def expect_anything(self):
        """The next record may be any: those before it are lost."""
        self.known = False

    def run(self, data):
        """Takes in the records in data, which stands at the segment's end in the file. How many octets that were."""
        p = data
        at = 0
        end = len(data)
        segment = self.segment
        while True:
            length = record_length(p, at, end, segment.salt)
            if length == 0:
                return at
            sequence = read_u64(p, at + 8)
            if self.known and sequence != self.next_offset:
                return at
            if p[at + 16] == ENTRY:
                self.take_entry(data, at, length, sequence)
            elif p[at + 16] == TRACK:
                self.take_track(data, at, length, sequence)
            else:
                return at
            self.known = True
            if self.from_start and self.records == 0:
                segment.first_offset = sequence
            self.records += 1
            segment.end += padded(length)
            at += padded(length)
            if p[at - padded(length) + 16] == TRACK:
                self.part_end = segment.end
                self.part_offset = self.next_offset

    def take_entry(self, data, at, length, sequence):
        p = data
        count = read_u32(p, at + 20)
        self.segment.note(sequence, read_u64(p, at + HEAD_BYTES), filter_value_at(data, at, length))
        self.next_offset = sequence + count
        self.messages += count
        return 0

    def take_track(self, data, at, length, sequence):
        p = data
        self.next_offset = sequence
        self.synced_offset = max(self.synced_offset, read_u64(p, at + 24))
        self.tracking.read(data, at + HEAD_BYTES, at + length, p[at + 17] != 0)
        return 0


def first_since(data, stamp):
    """The offset of the first entry in data that arrived at this moment or later, -1 if there is none; and how many
    octets of whole records were looked at. Nothing is checked but lengths."""
    p = data
    at = 0
    end = len(data)
    while end - at >= HEAD_BYTES:
        length = read_u32(p, at + 4)
        if length < HEAD_BYTES or padded(length) > end - at:
            break
        if p[at + 16] == ENTRY and read_u64(p, at + HEAD_BYTES) >= stamp:
            return read_u64(p, at + 8), at
        at += padded(length)
    return -1, at
