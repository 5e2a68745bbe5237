"""The log as the data plane sees it: messages and what became of them are appended to a buffer, and whoever publishes
is told when what he published is on disk.

Never touches a file: the storage room takes the buffer batch by batch, writes and syncs it, and says so. Everything a
batch covers is in order: what is confirmed was synced, and what was logged before it, too. A message's place on disk
is known the moment it is appended, because the batch goes just where the last one ended."""

import cython

from leveret.core.codec.buffers import Buffers
from leveret.core.log.batch import Batch
from leveret.core.log.load import LOAD_READS

if not cython.compiled:
    from leveret.core.codec.buffers import grow
    from leveret.core.codec.pure_octets import (
        clear_octets,
        copy_octets,
        read_u32,
        read_u64,
        write_u16,
        write_u32,
        write_u64,
    )
    from leveret.core.log.records import (
        CLOSED,
        EXPIRES,
        HEAD_BYTES,
        KEY,
        MESSAGE,
        MESSAGE_HEAD_BYTES,
        MOMENT,
        NOTE_BYTES,
        NOTES,
        PAGED,
        SETTLED,
        TARGET_BYTES,
        padded,
        placed_kind,
        record_bytes,
        write_head,
        write_note,
    )

FIRST_BUFFER_BYTES = 65536
# A buffer that grew beyond this is freed once its batch is written.
KEPT_BUFFER_BYTES = 2097152
FIRST_NOTES_BYTES = 4096
# Above the first, publishers are not read until the disk has brought it below the second.
CONGESTED_BYTES = 8388608
CALM_BYTES = 2097152
# So far ahead of the disk no message is completed any more, even within a chunk: one may end a thousand large bodies.
OVERFULL_BYTES = 67108864
# A segment that found no successor in time grows on, but not beyond this: offsets have 32 bits.
GROWN_BYTES_MAX = 1073741824
OFFSET_MASK = 0xFFFFFFFF
# Behind this, a record's location would name another segment's record.
SEGMENT_BYTES_MAX = 4294967296
# What publishers leave of that for the notes at the ends of batches, which nobody can refuse.
NOTES_ROOM_BYTES = 536870912
# A batch goes into at most so many segments.
PARTS_MAX = 8


class Journal:
    """`wake` is called when there is something to commit, with whether that is urgent; `segments` is shared by the
    journals of a store, by id. `paging` is true for the journal of transient messages, which nobody reads after a
    crash."""

    def __init__(self, segments, segment_bytes, wake, paging=False):
        self.segments = segments
        self.segment_bytes = segment_bytes
        self.wake = wake
        self.paging = paging
        # There is something to commit, at once or when it suits; until the batch is taken.
        self.commit_wanted = False
        self.notes_pending = False
        self.data = bytearray(FIRST_BUFFER_BYTES)
        self.p = self.data
        self.end = 0
        # The buffer of the batch before, to be used again.
        self.other = None
        self.segment = None
        self.last_found = None
        # The empty segment that takes over when this one is full; the storage room provides the next one in time.
        self.spare = None
        self.parts = []
        self.part_start = 0
        self.part_offset = 0
        self.sequence = 1
        self.synced_sequence = 0
        # The open batch, the last one in its files, the sequence of the open one's first record, the last one safe on
        # disk; parts of logs that are not safe yet.
        self.batch = 1
        self.written_batch = 0
        self.batch_sequence = 1
        self.synced_batch = 0
        self.written_parts = []
        self.in_flight_bytes = 0
        self.congested = self.overfull = False
        self.notes = bytearray(FIRST_NOTES_BYTES)
        self.notes_bytes = 0
        self.settled_segments = set()
        self.touched = []
        self.waiters = []
        # The record that targets may still be added to: where it stands, and whose it is.
        self.current = None
        self.current_at = 0
        self.current_targets = 0
        # How many targets the next message may have.
        self.room = 1
        # The length of the record that was paged or copied last.
        self.paged_length = 0
        self.copied_length = 0
        # Segments whose last live message has gone since somebody looked.
        self.drained = []
        # The last record is written: nothing may follow it, and whoever tries is told so.
        self.closed = False
        self.appended_total = 0
        self.appended_bytes_total = 0
        # Logs beside this one with something in the open batch, how much that is, and the message one took last.
        self.beside = []
        self.beside_bytes = 0
        self.beside_message = None
        # The open batch has something of a transaction; and once it is taken, whether it has records in this log.
        self.transacted = False
        self.logged = False
        # Those, and whether this one as well, that do not say yet how far they were synced.
        self.owing = {}
        self.owes = True
        self.buffers = Buffers()
        # How many reads one load of bodies may have.
        self.load_reads = LOAD_READS

    def want_commit(self):
        if not self.commit_wanted:
            self.commit_wanted = True
            self.wake(True)
        return 0

    def want_notes(self):
        """Acks and deliveries: nobody waits for them, so they may go with what comes next."""
        if not self.notes_pending and not self.commit_wanted:
            self.notes_pending = True
            self.wake(False)
        return 0

    def touch(self, noting):
        """It has something to note when the batch ends."""
        if not noting.touched:
            self.require_open()
            noting.touched = True
            self.touched.append(noting)
            self.want_notes()
        return 0

    def require_open(self):
        """What comes behind the last record would be lost, or found where nothing may be: it must not even begin."""
        if self.closed:
            raise AssertionError("the log is closed: nothing more can be kept")
        return 0

    # ---- logs beside this one

    def add_beside(self, log):
        self.require_open()
        self.beside.append(log)
        return self.want_notes()

    def weigh(self, size):
        """So much more is to be written beside the log."""
        self.beside_bytes += size
        if self.end + self.beside_bytes + self.in_flight_bytes > CONGESTED_BYTES:
            self.note_congestion()
        return 0

    def want_evidence(self):
        """Whoever owes it says in the batch that ends now how far it was synced."""
        for log in list(self.owing):
            log.touch()

    # ---- segments

    def use_segment(self, segment):
        """Goes on in this segment, which is empty."""
        self.segment = segment
        self.last_found = segment
        self.segments[segment.id] = segment
        segment.paging = self.paging
        if segment.first_sequence == 0:
            segment.first_sequence = self.sequence
        if not self.paging:
            segment.start_index()
        self.part_start = self.end
        self.part_offset = segment.end

    def roll(self):
        """The segment is full: the spare one takes over. Without one it grows on until there is one."""
        if self.spare is None or len(self.parts) >= PARTS_MAX:
            return 0
        if self.end > self.part_start:
            self.parts.append((self.segment, self.part_start, self.end, self.part_offset))
        self.segment.sealed = True
        self.segment.last_sequence = self.sequence - 1
        self.drained.append(self.segment)
        spare = self.spare
        self.spare = None
        self.use_segment(spare)
        return 0

    def find_segment(self, location):
        """The segment of a record that is counted as live. Mostly the same as the last time."""
        if self.last_found.id != location >> 32:
            self.last_found = self.segments[location >> 32]
        return self.last_found

    def release(self, location):
        """One message less is in the segment of this location."""
        segment = self.find_segment(location)
        segment.live -= 1
        if segment.live == 0 and segment.sealed:
            self.drained.append(segment)
        return 0

    # ---- messages

    def has_room(self, count):
        """Whether records of so many octets can be appended now. Only a segment that grew without end has no room."""
        rolls = self.spare is not None and len(self.parts) < PARTS_MAX
        return (0 if rolls else self.segment.end) + count <= SEGMENT_BYTES_MAX - NOTES_ROOM_BYTES

    def reserve(self, count):
        self.require_open()
        if self.segment.end + count > SEGMENT_BYTES_MAX:
            raise AssertionError(f"segment {self.segment.id} of the log has no room for a record of {count} octets")
        if self.end + count > len(self.data):
            self.data = grow(self.data, self.end, self.end + count)
            self.p = self.data
        return 0

    def append_message(self, message, room, kind):
        """Writes the message's record with room for its targets, and tells the message where it is."""
        raw = message.properties.raw
        address_size = len(message.address)
        properties_size = len(raw)
        body_size = message.body_size
        length = record_bytes(message, room)
        if self.segment.end >= self.segment_bytes:
            self.roll()
        self.reserve(padded(length))
        at = self.end
        p = self.p
        write_head(p, at, length, self.sequence, kind)
        p[at + 17] = message.properties.priority
        write_u16(p, at + 18, address_size | (EXPIRES if message.properties.ttl_ms >= 0 else 0))
        write_u32(p, at + 24, properties_size)
        write_u32(p, at + 28, body_size)
        write_u64(p, at + HEAD_BYTES, message.stamp)
        to = at + MESSAGE_HEAD_BYTES
        source = message.address
        copy_octets(p, to, source, 0, address_size)
        to += address_size
        source = raw
        copy_octets(p, to, source, 0, properties_size)
        to += properties_size
        source = message.body
        copy_octets(p, to, source, 0, body_size)
        to += body_size
        # The buffer is used again and again: nothing old may go to disk with what is not written here.
        clear_octets(p, to, at + padded(length))
        message.location = (self.segment.id << 32) | self.segment.end
        message.length = length
        self.current = message
        self.current_at = at
        self.current_targets = 0
        self.advance(length)
        self.want_commit()
        self.appended_total += 1
        self.appended_bytes_total += body_size
        return 0

    def advance(self, length):
        """A record of this length was written at the end of the buffer."""
        size = padded(length)
        self.sequence += 1
        self.end += size
        self.segment.end += size
        if self.end + self.beside_bytes + self.in_flight_bytes > CONGESTED_BYTES or self.segment.end > GROWN_BYTES_MAX:
            self.note_congestion()
        return 0

    def note_congestion(self):
        self.congested = True
        if self.end + self.beside_bytes + self.in_flight_bytes > OVERFULL_BYTES or self.segment.end > GROWN_BYTES_MAX:
            self.overfull = True
        return 0

    def keep(self, queue_log, message, position):
        """A durable queue has the message at this position. The first one writes the record, all share it."""
        if message is not self.current:
            self.append_message(message, self.room, MESSAGE)
        if self.current_targets >= self.room:
            # It would be written behind the record, over whatever comes next.
            raise AssertionError("a message has more targets than its record has room for")
        at = self.current_at + message.length - TARGET_BYTES * (self.room - self.current_targets)
        p = self.p
        write_u64(p, at, queue_log.id)
        write_u64(p, at + 8, position)
        self.current_targets += 1
        write_u32(p, self.current_at + 20, self.current_targets)
        segment = self.segment
        queue_log.live += 1
        queue_log.live_bytes += message.body_size
        segment.live += 1
        segment.placed += 1
        segment.index_room(NOTE_BYTES)
        p = segment.index
        offset = message.location & OFFSET_MASK
        kind = placed_kind(message.properties.priority, message.properties.ttl_ms >= 0)
        write_note(p, segment.index_bytes, queue_log.id, position, offset, message.length, message.body_size, kind)
        segment.index_bytes += NOTE_BYTES
        return 0

    def page(self, message):
        """A message that no log needs goes to disk to free memory: where it is for this queue. Other queues may hold
        the same object: one page serves all of them, but a record in the log stays what it is."""
        known = message.location
        if known != 0 and known >> 32 in self.segments:
            segment = self.segments[known >> 32]
            # One without a live message may be on its way out.
            if segment.paging and segment.live > 0:
                segment.live += 1
                self.paged_length = message.length
                return known
        length = message.length
        self.append_message(message, 0, PAGED)
        self.segment.live += 1
        location = message.location
        self.paged_length = message.length
        if known != 0 and known >> 32 in self.segments:
            message.location = known
            message.length = length
        return location

    def is_page(self, location):
        return self.find_segment(location).paging

    # ---- notes

    def add_note(self, queue, first, a, b, c, kind):
        self.require_open()
        if self.notes_bytes + NOTE_BYTES > len(self.notes):
            self.notes.extend(bytes(len(self.notes)))
        p = self.notes
        write_note(p, self.notes_bytes, queue, first, a, b, c, kind)
        self.notes_bytes += NOTE_BYTES
        if b != 0:
            self.settled_segments.add(b)
        return self.want_notes()

    def add_key(self, noting, digest, seconds, own_ttl):
        """A key of 16 octets was seen in this second."""
        source = digest
        self.add_note(noting.id, read_u64(source, 0), read_u32(source, 8), 0, seconds, KEY | (own_ttl << 8))
        p = self.notes
        # Not through the call: there it would name a segment.
        write_u32(p, self.notes_bytes - NOTE_BYTES + 20, read_u32(source, 12))
        self.segment.noted_by.add(noting)
        return 0

    def add_settled(self, queue, first, count, segment):
        return self.add_note(queue, first, count, segment, 0, SETTLED)

    def add_moment(self, now_ms, wall_ms):
        """It is so late for messages, and by the wall clock."""
        return self.add_note(0, now_ms, wall_ms >> 32, 0, wall_ms & OFFSET_MASK, MOMENT)

    def append_notes(self):
        """The record at the end of a batch: what gathered since the last one, and how far everything is synced."""
        if self.segment.end >= self.segment_bytes:
            # Else acks and requeues alone would make it grow until publishers are stopped for good.
            self.roll()
        for noting in self.touched:
            noting.write_notes()
        self.touched.clear()
        length = HEAD_BYTES + self.notes_bytes
        self.reserve(length)
        at = self.end
        p = self.p
        write_head(p, at, length, self.sequence, NOTES)
        write_u32(p, at + 20, self.notes_bytes // NOTE_BYTES)
        write_u64(p, at + 24, self.synced_sequence)
        source = self.notes
        copy_octets(p, at + HEAD_BYTES, source, 0, self.notes_bytes)
        segment = self.segment
        if segment.index is not None and self.notes_bytes > 0:
            segment.index_room(self.notes_bytes)
            p = segment.index
            copy_octets(p, segment.index_bytes, source, 0, self.notes_bytes)
            segment.index_bytes += self.notes_bytes
        # A note keeps its segment from being deleted as long as the record exists that it is about.
        segment.settles |= self.settled_segments
        segment.settles.discard(segment.id)
        self.settled_segments.clear()
        self.notes_bytes = 0
        self.owes = False
        self.advance(length)
        return 0

    def append_closed(self):
        """The broker stops in good order: the last record of all, behind whatever gathered before it."""
        if self.end > 0 or self.touched or self.notes_bytes > 0:
            self.append_notes()
        self.reserve(HEAD_BYTES)
        write_head(self.p, self.end, HEAD_BYTES, self.sequence, CLOSED)
        write_u64(self.p, self.end + 24, self.synced_sequence)
        self.advance(HEAD_BYTES)
        self.closed = True
        return self.want_commit()

    # ---- batches

    def await_batch(self, publisher):
        """The channel's publishes up to now are confirmed when the open batch is on disk."""
        if publisher.awaited_batch != self.batch:
            publisher.awaited_batch = self.batch
            self.waiters.append(publisher)
        return 0

    def take_batch(self):
        """Closes the open batch; the next one goes into the other buffer."""
        # What a transaction has in several logs beside this one counts together only if this one says so.
        together = self.transacted and len(self.beside) > 1
        noted = self.touched or self.notes_bytes > 0 or self.owes or together
        self.logged = self.end > 0 or (noted and not self.closed)
        beside = []
        for log in self.beside:
            part = log.take_part()
            if part is not None:
                beside.append(part)
        self.beside = []
        self.beside_message = None
        if not self.closed and (self.logged or not beside):
            self.append_notes()
        parts = self.parts
        if self.end > self.part_start:
            parts.append((self.segment, self.part_start, self.end, self.part_offset))
        waiters = [(publisher, publisher.accepted_seq) for publisher in self.waiters]
        batch = Batch(self.batch, self.data, parts, self.sequence - 1, waiters, beside)
        self.waiters = []
        self.parts = []
        self.in_flight_bytes = self.end + self.beside_bytes
        self.beside_bytes = 0
        self.data = self.other if self.other is not None else bytearray(FIRST_BUFFER_BYTES)
        self.other = None
        self.p = self.data
        self.end = 0
        self.part_start = 0
        self.part_offset = self.segment.end
        self.current = None
        self.transacted = False
        self.batch_sequence = self.sequence
        self.batch += 1
        self.commit_wanted = False
        self.notes_pending = False
        return batch

    def batch_written(self, batch):
        """The batch can be read back, if not synced. None may be skipped: the next one would confirm it."""
        assert batch.number == self.written_batch + 1, f"batch {batch.number} is written behind {self.written_batch}"
        self.written_batch = batch.number
        for segment, start, end, offset in batch.parts:
            segment.written = offset + end - start
        if len(batch.data) <= KEPT_BUFFER_BYTES:
            self.other = batch.data
        for part in batch.beside:
            part.log.part_written(part)
        self.written_parts.extend(batch.beside)
        self.in_flight_bytes = 0
        if self.congested and self.end + self.beside_bytes < CALM_BYTES and self.segment.end <= GROWN_BYTES_MAX:
            self.congested = self.overfull = False

    def batch_synced(self, batch):
        """All up to and with this batch is on disk: who waited for it is told."""
        assert batch.number == self.written_batch, f"batch {batch.number} is synced, {self.written_batch} was written"
        self.synced_batch = batch.number
        self.synced_sequence = batch.last_sequence
        self.owes = len(batch.parts) > 0
        parts, self.written_parts = self.written_parts, []
        for part in parts:
            part.log.part_synced(part)
        for publisher, accepted_seq in batch.waiters:
            publisher.synced(batch.number, accepted_seq)

    def is_written(self, location):
        """Whether the record can be read from its file."""
        segment = self.find_segment(location)
        offset = location & OFFSET_MASK
        return offset < segment.written
