"""Moving what is still wanted out of a segment that is nearly empty, so that its file can go.

Copies the live records of one segment to the end of the log and tells everybody who knows where they were: cold slots
of queues, and messages in memory. Notes about records in other segments are written again as well. All in one go on
the loop; the file itself must stay until the copies are on disk."""

import cython

if not cython.compiled:
    from leveret.core.codec.pure_octets import (
        clear_octets,
        copy_octets,
        read_u16,
        read_u32,
        read_u64,
        write_u32,
        write_u64,
    )
    from leveret.core.log.record_check import message_length
    from leveret.core.log.records import (
        ADDRESS_MASK,
        COUNTED,
        EXPIRES,
        KIND_MASK,
        MESSAGE_HEAD_BYTES,
        NOTE_BYTES,
        PLACED,
        SETTLED,
        TARGET_BYTES,
        padded,
        placed_kind,
        write_note,
    )


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
        while end - at >= NOTE_BYTES:
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
            while (
                end - at >= NOTE_BYTES and read_u32(p, at + 28) & KIND_MASK == PLACED and read_u32(p, at + 16) == offset
            ):
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
        if message_length(octets, offset, len(data), self.segment.salt) != length:
            self.damaged.append(offset)
            return 0
        to = append_copy(self.journal, data, offset, targets)
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


def append_copy(journal, data, at, targets):
    """Writes the record at data[at] to the end of the log once more, with these of its targets, (queue id, position)
    each, and a new sequence. Where it is now; its length is the journal's `copied_length`."""
    if journal.segment.end >= journal.segment_bytes:
        journal.roll()
    source = data
    # Not counted back from the end: there may be room behind for targets that the message never had.
    head = MESSAGE_HEAD_BYTES + (read_u16(source, at + 18) & ADDRESS_MASK) + read_u32(source, at + 24)
    head += read_u32(source, at + 28)
    copied = head + TARGET_BYTES * len(targets)
    journal.reserve(padded(copied))
    to = journal.end
    p = journal.p
    copy_octets(p, to, source, at, head)
    clear_octets(p, to + head, to + padded(copied))
    write_u32(p, to + 4, copied)
    write_u64(p, to + 8, journal.sequence)
    write_u32(p, to + 20, len(targets))
    segment = journal.segment
    offset = segment.end
    body_size = read_u32(source, at + 28)
    target_at = to + head
    segment.index_room(NOTE_BYTES * len(targets))
    index = segment.index
    kind = placed_kind(source[at + 17], read_u16(source, at + 18) & EXPIRES)
    for queue, position in targets:
        write_u64(p, target_at, queue)
        write_u64(p, target_at + 8, position)
        target_at += TARGET_BYTES
        write_note(index, segment.index_bytes, queue, position, offset, copied, body_size, kind)
        segment.index_bytes += NOTE_BYTES
    segment.live += len(targets)
    segment.placed += len(targets)
    journal.current = None
    journal.copied_length = copied
    journal.advance(copied)
    journal.want_commit()
    return (segment.id << 32) | offset
