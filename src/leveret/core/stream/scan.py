"""Walks through the records of a stream's segment: after a crash, to find its end and what it has; and to look one up.

Goes as far as the records are whole, undamaged and in order, a stretch of octets at a time; notes what it passes in the
segment's index and in what is tracked. Says where it stopped and lets the storage room judge why."""

import cython

if not cython.compiled:
    from leveret.core.codec.pure_octets import read_u32, read_u64
    from leveret.core.log.record_check import fits
    from leveret.core.log.records import ENTRY, HEAD_BYTES, MESSAGE_HEAD_BYTES, TRACK, padded, sealed_length
    from leveret.core.stream.segment import filter_value_at
    from leveret.core.stream.tracking import ALONE, BATCH, BATCH_ITEM_BYTES, ITEM_BYTES


class StreamScan:
    """`next_offset` is the one that must come next, None as long as any may. `segment` and `tracking` take in what is
    found, from `segment.end` on. `log_next` is the sequence that the node's log goes on with, 0 if that is not known: a
    part whose batch the log lacks is unfinished."""

    def __init__(self, segment, tracking, next_offset, log_next=0):
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
        self.log_next = log_next
        # Behind the last part that is finished, and what follows is not.
        self.finished_end = self.part_end
        self.finished_offset = self.part_offset
        self.unfinished = False
        # Octets of the record at which it stopped if that has a good checksum and an inside that does not fit; else 0.
        self.misshapen_bytes = 0
        self.offset_behind = 0
        self.records = 0
        self.messages = 0

    def expect_anything(self):
        """The next record may be any: those before it are lost."""
        self.known = False

    def run(self, data, start=0, search=None):
        """Takes in the records in data from `start` on, which stands at the segment's end in the file. How many octets
        that were. With a search of the data it is that which checksums."""
        p = data
        at = start
        end = len(data)
        segment = self.segment
        self.misshapen_bytes = 0
        while True:
            length = sealed_length(p, at, end, segment.salt) if search is None else search.length_at(at)
            if length == 0:
                return at - start
            sequence = read_u64(p, at + 8)
            if not fits(p, at, length):
                self.stop_at(p, at, length)
                return at - start
            if self.known and sequence != self.next_offset:
                return at - start
            if p[at + 16] == ENTRY:
                self.take_entry(data, at, length, sequence)
            elif p[at + 16] == TRACK:
                self.take_track(data, at, length, sequence)
            else:
                return at - start
            self.known = True
            if self.from_start and self.records == 0:
                segment.first_offset = sequence
                self.finished_offset = sequence
            self.records += 1
            segment.end += padded(length)
            at += padded(length)
            if p[at - padded(length) + 16] == TRACK:
                self.part_end = segment.end
                self.part_offset = self.next_offset
                if not self.unfinished:
                    self.finished_end = self.part_end
                    self.finished_offset = self.part_offset

    def stop_at(self, p, at, length):
        self.misshapen_bytes = padded(length)
        self.offset_behind = self.next_offset
        if self.known and p[at + 16] == ENTRY and read_u64(p, at + 8) == self.next_offset:
            count = read_u32(p, at + 20)
            self.offset_behind += count if 0 < count <= 0xFFFF else 1
        return 0

    def pass_misshapen(self):
        """Goes on behind the record at which it stopped. The offsets that it may have had are never given again."""
        self.segment.end += self.misshapen_bytes
        self.next_offset = self.offset_behind
        self.misshapen_bytes = 0
        self.known = False

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
        self.unfinished = False
        if p[at + 18] != ALONE and length >= HEAD_BYTES + BATCH_ITEM_BYTES and p[at + HEAD_BYTES] == BATCH:
            first = read_u64(p, at + HEAD_BYTES + 2)
            synced = read_u64(p, at + HEAD_BYTES + ITEM_BYTES)
            # The log is all there that was synced before the part was written, and ends before the part's batch. If it
            # ends even before that, it was damaged, and says nothing about this part.
            self.unfinished = synced < self.log_next and self.log_next <= first
        return 0


def first_since(data, stamp):
    """The offset of the first entry in data that arrived at this moment or later, -1 if there is none; and how many
    octets of whole records were looked at. Nothing is checked but lengths."""
    p = data
    at = 0
    end = len(data)
    while end - at >= HEAD_BYTES:
        length = read_u32(p, at + 4)
        if length < (MESSAGE_HEAD_BYTES if p[at + 16] == ENTRY else HEAD_BYTES) or padded(length) > end - at:
            break
        if p[at + 16] == ENTRY and read_u64(p, at + HEAD_BYTES) >= stamp:
            return read_u64(p, at + 8), at
        at += padded(length)
    return -1, at
