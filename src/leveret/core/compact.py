"""Moving what is still wanted out of a segment that is nearly empty, so that its file can go.

Copies the live records of one segment to the end of the log and tells everybody who knows where they were: cold slots
of queues, and messages in memory. Notes about records in other segments are written again as well. All in one go on
the loop; the file itself must stay until the copies are on disk."""

import cython

if not cython.compiled:
    from leveret.core.pure_octets import read_u32, read_u64
    from leveret.core.records import COUNTED, KIND_MASK, NOTE_BYTES, PLACED, SETTLED, record_length


class Compaction:
    """`queues` are the durable queues by id; `in_memory` has the messages of the segment that memory holds, each with
    how often it was handed out, by queue and position (see collect_located of queues and channels)."""

    def __init__(self, journal, segment, queues, in_memory):
        self.journal = journal
        self.segment = segment
        self.queues = queues
        self.in_memory = in_memory
        self.copied = 0
        # Offsets of records that could not be read.
        self.damaged = []

    def run(self, notes, data):
        """`notes` is the segment's index, `data` the whole file."""
        p = notes
        at = 0
        end = len(notes)
        while at < end:
            kind = read_u32(p, at + 28) & KIND_MASK
            if kind != PLACED:
                if kind == SETTLED or kind == COUNTED:
                    self.carry_on(p, at, kind)
                at += NOTE_BYTES
                continue
            offset = read_u32(p, at + 16)
            length = read_u32(p, at + 20)
            first = at
            # The targets of one record stand next to each other.
            while at < end and read_u32(p, at + 28) & KIND_MASK == PLACED and read_u32(p, at + 16) == offset:
                at += NOTE_BYTES
            self.move(p, first, at, offset, length, data)
        return 0

    def carry_on(self, p, at, kind):
        """A note about a record in another segment that still exists is needed as long as that does."""
        about = read_u32(p, at + 20)
        if about != self.segment.id and about in self.journal.segments:
            self.journal.add_note(read_u64(p, at), read_u64(p, at + 8), read_u32(p, at + 16), about, 0, kind)
        return 0

    def move(self, p, first, end, offset, length, data):
        """One record, whose targets are the notes p[first:end]."""
        location = (self.segment.id << 32) | offset
        targets = []
        at = first
        while at < end:
            key = (read_u64(p, at), read_u64(p, at + 8))
            if key in self.in_memory or self.is_stored(key, location):
                targets.append(key)
            at += NOTE_BYTES
        if not targets:
            return 0
        octets = data
        if record_length(octets, offset, len(data), self.segment.salt) != length:
            self.damaged.append(offset)
            return 0
        to = self.journal.append_copy(data, offset, length, targets)
        # The copy must not go before the original, or that would be found alone after a crash.
        self.journal.segment.settles.add(self.segment.id)
        for key in targets:
            self.follow(key, location, to)
        self.copied += 1
        return 0

    def is_stored(self, key, location):
        """Whether the queue has this message on disk alone."""
        queue = self.queues.get(key[0])
        return queue is not None and queue.find_stored(key[1], location)

    def follow(self, key, location, to):
        """Whoever knew the old place learns the new one, and how often it was handed out is noted for that."""
        held = self.in_memory.get(key)
        if held is not None:
            message, times = held
            message.location = to
            message.length = self.journal.copied_length
        else:
            queue = self.queues[key[0]]
            times = queue.move_stored(key[1], location, to, self.journal.copied_length)
        if times > 0:
            self.journal.add_note(key[0], key[1], times, to >> 32, 0, COUNTED)
        self.segment.live -= 1
        return 0
