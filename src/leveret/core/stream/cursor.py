"""One reader's place in a stream: gives record after record, from memory at the tail and from disk elsewhere.

Whoever owns it asks `ready`; if nothing is there the cursor has asked for it, and calls `owner.cursor_ready()` when it
has come. The storage room reads for it in a thread: it asks `next_read` what, checks every record there, and says
`loaded`. While one stretch is handed out the next is read, so that the disk and the owner work side by side; that, and
how much is read at a time, is all the memory a reader costs."""

import cython

if not cython.compiled:
    from leveret.core.codec.pure_octets import read_u32, read_u64
    from leveret.core.log.records import ENTRY, padded
    from leveret.core.stream.segment import find_place, may_match, place_of

# The first read is short, and each that follows it twice as long, up to the second.
READ_BYTES_MIN = 32768
READ_BYTES_MAX = 262144
# Room before what was read: there the reading thread says how far it is whole and undamaged.
RESULT_BYTES = 8


class Cursor:
    def __init__(self, log, owner):
        self.log = log
        self.owner = owner
        # The next offset that the owner wants.
        self.offset = 0
        self.data = None
        self.at = 0
        self.end = 0
        self.length = 0
        # Where the next read starts: None and 0 if that must be looked up first.
        self.segment = None
        self.place = 0
        self.read_bytes = READ_BYTES_MIN
        # What was read ahead: (data, start, end), or None.
        self.ahead = None
        # True while it waits at the tail, or for the disk. What comes is of no use if it was moved meanwhile.
        self.waiting = False
        self.loading = False
        self.moved = False
        # Bloom filters of the values that the owner wants, None if he wants all; and whether those without a value.
        self.blooms = None
        self.unfiltered = False
        # The index of the segment, for a cursor that passes over blocks; and which segment that is of.
        self.index = None
        self.indexed = None
        self.closed = False
        # Messages that retention deleted before they could be read, and blocks that a filter made needless to read.
        self.missed_total = 0
        self.blocks_skipped_total = 0
        log.cursors += 1

    def seek(self, offset):
        """Starts at this offset, or at the first there is if it is gone; waits for it if it is not there yet."""
        self.offset = max(offset, self.log.first_offset())
        self.moved = self.loading
        if self.waiting:
            self.waiting = False
            self.log.stop_waiting(self)
        self.data = None
        self.at = self.end = 0
        self.ahead = None
        self.segment = None
        self.read_bytes = READ_BYTES_MIN

    # ---- for the owner

    def ready(self):
        """Whether a whole entry stands at data[at], `length` octets long, that the owner has not had yet."""
        while True:
            while self.at < self.end:
                p = self.p
                at = self.at
                length = read_u32(p, at + 4)
                if p[at + 16] == ENTRY and read_u64(p, at + 8) + read_u32(p, at + 20) > self.offset:
                    self.length = length
                    return True
                self.at = at + padded(length)
            if self.ahead is not None:
                self.use(self.ahead)
                self.ahead = None
                # What follows is read while this is handed out.
                if self.offset < self.log.committed_offset:
                    self.want_read()
            elif not self.refill():
                return False

    def step(self):
        """The owner is done with the entry."""
        p = self.p
        self.offset = read_u64(p, self.at + 8) + read_u32(p, self.at + 20)
        self.at += padded(self.length)
        return 0

    def refill(self):
        """Whether there is something in memory; if not, it is on its way, or the cursor waits for the next message."""
        log = self.log
        self.data = None
        self.at = self.end = 0
        if self.closed or self.loading:
            return False
        if self.offset >= log.committed_offset:
            if not self.waiting:
                self.waiting = True
                log.waiting.append(self)
            return False
        part = log.last_part
        if part is not None and part[3] <= self.offset:
            self.use(part)
            self.segment = part[4]
            self.place = part[5]
            return True
        self.want_read()
        return False

    def use(self, stretch):
        self.data = stretch[0]
        self.p = self.data
        self.at = stretch[1]
        self.end = stretch[2]
        return 0

    def want_read(self):
        if not self.loading and not self.closed:
            self.loading = True
            self.log.stream_store.want_read(self)
        return 0

    def close(self):
        if not self.closed:
            self.closed = True
            self.log.cursors -= 1
            if self.log.cursors == 0:
                # It was kept for readers who are just behind.
                self.log.last_part = None
            self.log.stop_waiting(self)
            self.data = None
            self.ahead = None
            self.at = self.end = 0

    # ---- for the log

    def come(self):
        """There is more, on disk."""
        self.waiting = False
        if not self.closed:
            self.owner.cursor_ready()

    def take_part(self, data, start, end, segment, place):
        """There is more, and this is it."""
        self.waiting = False
        if self.closed:
            # Just now, by another one who was told first.
            return
        self.data = data
        self.p = data
        self.at = start
        self.end = end
        self.segment = segment
        self.place = place
        self.owner.cursor_ready()

    # ---- for the storage room

    def next_read(self):
        """Where to read and how much, as (segment, place, octets); None if the place must be looked up first, or the
        index of the segment, see `lacks_index`."""
        log = self.log
        segment = self.segment
        if segment is None or segment.gone:
            if self.offset < log.first_offset():
                self.missed_total += log.first_offset() - self.offset
                self.offset = log.first_offset()
            self.segment = None
            return None
        while True:
            if self.place >= segment.synced:
                following = self.following(segment) if segment.synced == segment.end else None
                if following is None:
                    return (segment, self.place, 0)
                segment = following
                self.segment = segment
                self.place = self.log.stream_store.first_place
            elif self.blooms is None:
                return (segment, self.place, min(self.read_bytes, segment.synced - self.place))
            elif self.lacks_index():
                return None
            elif self.pass_blocks(segment):
                return (segment, self.place, self.filtered_bytes)

    def following(self, segment):
        """The segment behind this one; None if it is the last."""
        segments = self.log.segments
        i = len(segments) - 1
        while i >= 0 and segments[i] is not segment:
            i -= 1
        return segments[i + 1] if 0 <= i < len(segments) - 1 else None

    def lacks_index(self):
        return self.blooms is not None and self.segment.index is None and self.indexed is not self.segment

    def use_index(self, segment, index):
        self.indexed = segment
        self.index = index

    def pass_blocks(self, segment):
        """Passes over blocks that have nothing for the owner: whether one is left in the segment that has something."""
        index = self.index if segment.index is None else segment.copy_index()
        size = len(index)
        at = find_place(index, size, self.place)
        while at < size and not may_match(index, at, self.blooms, self.unfiltered):
            at += 40
            self.blocks_skipped_total += 1
            self.place = segment.synced if at >= size else place_of(index, at)
        if self.place >= segment.synced:
            self.place = segment.synced
            return False
        end = at + 40
        while end < size and may_match(index, end, self.blooms, self.unfiltered):
            end += 40
        stop = place_of(index, end) if end < size else segment.synced
        self.filtered_bytes = min(self.read_bytes, min(stop, segment.synced) - self.place)
        return True

    def loaded(self, data, start, end):
        """data[start:end] are whole and good records, from the place that was asked for on."""
        self.loading = False
        if self.closed:
            return
        if self.moved:
            self.moved = False
            self.owner.cursor_ready()
            return
        self.place += end - start
        # Back to the usual after a record that was longer.
        self.read_bytes = min(self.read_bytes * 2, READ_BYTES_MAX)
        if self.at < self.end:
            self.ahead = (data, start, end)
            return
        self.use((data, start, end))
        # Not behind the first: thousands of readers that take one message and stop must not cost two reads each.
        if self.read_bytes > 2 * READ_BYTES_MIN:
            if self.offset < self.log.committed_offset and self.place < self.segment.synced:
                self.want_read()
        self.owner.cursor_ready()

    def found(self, segment, place):
        """The place of the next offset was looked up."""
        self.segment = segment
        self.place = place

    def nothing_to_read(self):
        """All that is on disk was read, or passed over by a filter, or cannot be read: the rest is at the tail."""
        self.loading = False
        self.moved = False
        if not self.closed and self.at >= self.end and self.ahead is None:
            if self.offset < self.log.committed_offset:
                if self.blooms is None:
                    self.missed_total += self.log.committed_offset - self.offset
                self.offset = self.log.committed_offset
            self.owner.cursor_ready()

    def need(self, octets):
        """The record at this place is longer than what was read: that many octets are needed."""
        self.read_bytes = octets

    def pass_over(self, offset, place):
        """What is in between cannot be read; the next that can has this offset."""
        self.place = place
        # As long as the owner has something in memory he is not there yet.
        if self.at >= self.end and self.ahead is None and offset > self.offset:
            self.missed_total += offset - self.offset
            self.offset = offset
