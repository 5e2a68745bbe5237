"""One stream's log as the data plane sees it: messages are appended to a buffer, go to disk with the journal's batches,
and can be read once they are safe there.

Never touches a file: `stream_store`, in the storage room, names segments, has their files made before a batch with
something for them is taken, writes indexes and deletes what retention gives up.
What one batch has of a stream is a part: entries, then a TRACK record, which ends it. After a crash the log is cut back
to the last whole part, so a message is never there without its producer's id, nor the id without the message. A part of
a batch that has records in the node's log, which is written behind it, says so: without these it does not count."""

import cython

from leveret.core.log.batch import SideLog
from leveret.core.stream.tracking import Tracking

if not cython.compiled:
    from leveret.core.codec.buffers import grow
    from leveret.core.codec.pure_octets import clear_octets, copy_octets, write_u16, write_u32, write_u64
    from leveret.core.log.records import ENTRY, HEAD_BYTES, MESSAGE_HEAD_BYTES, TRACK, padded, write_head
    from leveret.core.stream.tracking import ALONE, BATCH_ITEM_BYTES, LOGGED, MORE, write_batch

    RAW = 1
    SUBBATCH = 2
    REWRITE = 4

# How long a segment is unless the stream says otherwise.
SEGMENT_BYTES = 500_000_000
# A part of at most so many octets goes to readers at the tail from memory, larger ones are read back from the file.
SHARED_BYTES_MAX = 1048576
# One of at most so many is copied for them, so that the buffer is free again.
COPIED_BYTES_MAX = 16384
# How much a segment grows before its index is written again: what a restart after a crash reads at most.
CHECKPOINT_BYTES = 16777216


class Part:
    """What one batch has of one stream: `pieces` are (segment, start, end in data, place in the file)."""

    __slots__ = ("count", "data", "log", "next_offset", "pieces", "snapshot")

    def __init__(self, log, data, pieces, next_offset, count, snapshot):
        self.log = log
        self.data = data
        self.pieces = pieces
        # Behind its last message, and how many it has.
        self.next_offset = next_offset
        self.count = count
        # What goes into an index file once the part is synced; None mostly.
        self.snapshot = snapshot


class Snapshot:
    """How a segment was at the end of a part: what a restart can start from."""

    __slots__ = ("blocks", "end", "last_stamp", "next_offset", "segment", "tracked")

    def __init__(self, log):
        self.segment = log.segment
        self.end = log.segment.end
        self.next_offset = log.next_offset
        self.last_stamp = log.last_stamp
        self.tracked = log.tracking.encode()
        self.blocks = log.segment.copy_index()


class StreamLog(SideLog):
    def __init__(self, id, journal, stream_store, segment_bytes=SEGMENT_BYTES):
        self.id = id
        self.journal = journal
        self.stream_store = stream_store
        self.segment_bytes = segment_bytes
        # From the oldest to the one that grows; none before the first message.
        self.segments = []
        self.segment = None
        self.tracking = Tracking()
        self.next_offset = 0
        # Behind the last message that is safe on disk: nobody sees one from here on.
        self.committed_offset = 0
        self.last_stamp = 0
        # The open part: the buffer and how far it is filled, what of it is closed, and what is not.
        self.data = None
        self.end = 0
        # How long parts are these days.
        self.usual_bytes = 0
        self.pieces = []
        self.piece_start = 0
        self.piece_place = 0
        self.count = 0
        # True while the journal knows that the open part has something.
        self.touched = False
        # The cursors that are open, and those among them that wait for the next message.
        self.cursors = 0
        self.waiting = []
        # What was synced last, for cursors that are just behind; None if it was too long or nobody needs it.
        self.last_part = None
        # Up to here the segment's index is on disk, or about to be.
        self.checkpoint = 0
        # What retention keeps at most: -1 octets are all, and so is an age of 0.
        self.max_bytes = -1
        self.max_age_ms = 0
        self.closed = False
        self.appended_total = 0
        self.appended_bytes_total = 0

    def first_offset(self):
        return self.segments[0].first_offset if self.segments else self.next_offset

    def size_bytes(self):
        """Octets of all segments."""
        size = 0
        for segment in self.segments:
            size += segment.end
        return size

    def resume(self, segments, next_offset, last_stamp, checkpoint, fresh):
        """Goes on where recovery found the end: all that is there is safe. In a fresh segment, if the last one is not
        to be written to."""
        self.segments = segments
        self.next_offset = next_offset
        self.committed_offset = next_offset
        self.last_stamp = last_stamp
        if segments and not fresh:
            self.segment = segments[len(segments) - 1]
            self.piece_place = self.segment.end
            self.checkpoint = checkpoint

    def owe(self):
        """What is there is safe, and the log is to say so when it suits."""
        self.journal.owing[self] = True

    # ---- appending

    def touch(self):
        if not self.touched:
            if self.segment is None:
                # Now and not when the batch is taken: its file must be there by then.
                self.open_part()
            self.journal.add_beside(self)
            self.touched = True
        return 0

    def open_part(self):
        """There is a segment to write to, and a buffer."""
        if self.data is None:
            self.data = self.journal.buffers.take(self.usual_bytes)
            self.p = self.data
            self.end = 0
            self.piece_start = 0
        if self.segment is None:
            self.start_segment()
        return 0

    def start_segment(self):
        """The keeper names what comes next, and has its file made before it is written to."""
        segment = self.stream_store.new_segment(self)
        self.segment = segment
        self.segments.append(segment)
        self.piece_start = self.end
        self.piece_place = segment.end
        self.checkpoint = segment.end
        self.write_track(True, MORE if self.pieces else ALONE)
        return 0

    def roll(self):
        """The segment is full: what is in the buffer for it is closed as a part of its own."""
        self.write_track(False, MORE)
        self.pieces.append((self.segment, self.piece_start, self.end, self.piece_place))
        self.piece_start = self.end
        self.piece_place = self.segment.end
        self.segment.next_offset = self.next_offset
        return self.start_segment()

    def reserve(self, count):
        if self.end + count > len(self.data):
            self.data = grow(self.data, self.end, self.end + count)
            self.p = self.data
        return 0

    def append(self, address, properties, body, count, flags, filter_value, now):
        """Writes an entry; where it is in the stream."""
        self.journal.require_open()
        self.open_part()
        address_size = len(address)
        properties_size = len(properties)
        body_size = len(body)
        filter_size = 0 if filter_value is None else len(filter_value)
        length = MESSAGE_HEAD_BYTES + address_size + properties_size + body_size + filter_size
        self.reserve(padded(length))
        if now > self.last_stamp:
            # Time never goes back within a stream, whatever the clock does.
            self.last_stamp = now
        self.segment.note(self.next_offset, self.last_stamp, filter_value)
        at = self.end
        p = self.p
        write_head(p, at, length, self.next_offset, ENTRY)
        p[at + 17] = flags
        write_u16(p, at + 18, address_size)
        write_u32(p, at + 20, count)
        write_u32(p, at + 24, properties_size)
        write_u32(p, at + 28, body_size)
        write_u64(p, at + HEAD_BYTES, self.last_stamp)
        to = at + MESSAGE_HEAD_BYTES
        source = address
        copy_octets(p, to, source, 0, address_size)
        to += address_size
        source = properties
        copy_octets(p, to, source, 0, properties_size)
        to += properties_size
        source = body
        copy_octets(p, to, source, 0, body_size)
        to += body_size
        if filter_size > 0:
            source = filter_value
            copy_octets(p, to, source, 0, filter_size)
            to += filter_size
        clear_octets(p, to, at + padded(length))
        offset = self.next_offset
        self.next_offset += count
        self.count += count
        self.appended_total += count
        self.appended_bytes_total += body_size
        self.advance(length)
        self.touch()
        self.journal.want_commit()
        if self.segment.end >= self.segment_bytes:
            # Now and not before the next one: its producer's id may be known by then, and belongs to its own part.
            self.roll()
        return offset

    def advance(self, length):
        size = padded(length)
        self.end += size
        self.segment.end += size
        return self.journal.weigh(size)

    def write_track(self, whole, batch):
        """The record that ends a part, or starts a segment: what is tracked, and how far everything is synced; and
        whether its batch ends with it."""
        tracking = self.tracking
        length = HEAD_BYTES + (tracking.whole_size() if whole else tracking.changed_size())
        items = len(tracking.producers if whole else tracking.changed_producers)
        items += len(tracking.consumers if whole else tracking.changed_consumers)
        if batch != ALONE:
            length += BATCH_ITEM_BYTES
            items += 1
        self.reserve(padded(length))
        at = self.end
        p = self.p
        write_head(p, at, length, self.next_offset, TRACK)
        p[at + 17] = whole
        p[at + 18] = batch
        write_u32(p, at + 20, items)
        write_u64(p, at + 24, self.committed_offset)
        to = at + HEAD_BYTES
        if batch != ALONE:
            to = write_batch(p, to, self.journal.batch_sequence, self.journal.synced_sequence)
        to = tracking.write_whole(p, to) if whole else tracking.write_changed(p, to)
        clear_octets(p, to, at + padded(length))
        self.journal.owing.pop(self, None)
        return self.advance(length)

    # ---- what is tracked

    def take_id(self, producer, publishing_id):
        """Whether this is to be appended, which must follow at once."""
        self.journal.require_open()
        if self.segment is None:
            # A segment starts with what is tracked: this id must not be there before its message.
            self.open_part()
        return self.tracking.take_id(producer, publishing_id)

    def store_offset(self, consumer, offset):
        self.touch()
        self.tracking.store_offset(consumer, offset)
        return self.journal.want_notes()

    def forget_offset(self, consumer):
        if consumer not in self.tracking.consumers:
            return False
        self.touch()
        self.tracking.forget_offset(consumer)
        self.journal.want_notes()
        return True

    # ---- batches

    def unwritten_segments(self):
        """Those that the open part has something for."""
        segments = [piece[0] for piece in self.pieces]
        segments.append(self.segment)
        return segments

    def is_settled(self):
        """Whether all that it knows is safe on disk."""
        return not self.touched and self.end == 0 and (self.segment is None or self.segment.synced == self.segment.end)

    def take_part(self):
        """Closes the open part, which the batch takes along; None if there is nothing to write any more."""
        self.touched = False
        if self.closed:
            return None
        self.open_part()
        # One that only says how far all was synced is right whatever becomes of its batch.
        tied = self.journal.logged and (self.count > 0 or self.tracking.is_changed())
        self.write_track(False, LOGGED if tied else ALONE)
        self.pieces.append((self.segment, self.piece_start, self.end, self.piece_place))
        snapshot = None
        if self.segment.end - self.checkpoint >= CHECKPOINT_BYTES:
            self.checkpoint = self.segment.end
            snapshot = Snapshot(self)
        part = Part(self, self.data, self.pieces, self.next_offset, self.count, snapshot)
        self.pieces = []
        # Up at once if it grew, and down slowly: growing is what costs.
        self.usual_bytes = max(self.end, self.usual_bytes - self.usual_bytes // 8)
        self.data = None
        self.end = 0
        self.piece_start = 0
        self.piece_place = self.segment.end
        self.count = 0
        return part

    def part_written(self, part):
        """The batch is in the file, and need not be synced for its own sake."""
        if part.count == 0:
            self.journal.buffers.give(part.data)

    def part_synced(self, part):
        """All up to and with this part is on disk: whoever waits at the tail gets it."""
        for segment, start, end, place in part.pieces:
            segment.synced = place + end - start
            if segment is not self.segment and segment.synced == segment.end:
                self.stream_store.seal(self, segment)
        if part.snapshot is not None:
            self.stream_store.write_checkpoint(self, part.snapshot)
        if part.count == 0 or self.closed:
            return
        self.committed_offset = part.next_offset
        self.journal.owing[self] = True
        self.last_part = None
        if self.cursors == 0:
            self.journal.buffers.give(part.data)
        else:
            self.share(part)

    def share(self, part):
        """Gives the part to those at the tail from memory, and keeps it for those who are just behind."""
        segment, start, end, place = part.pieces[len(part.pieces) - 1]
        size = end - start
        data = None
        if len(part.pieces) == 1 and size <= SHARED_BYTES_MAX:
            if size <= COPIED_BYTES_MAX:
                data = bytearray(size)
                p = data
                source = part.data
                q = source
                copy_octets(p, 0, q, start, size)
                self.journal.buffers.give(part.data)
                start = 0
            else:
                data = part.data
        waiting = self.waiting
        self.waiting = []
        if data is not None and len(waiting) < self.cursors:
            self.last_part = (data, start, start + size, part.next_offset - part.count, segment, place + size)
        elif data is None:
            self.journal.buffers.give(part.data)
        for cursor in waiting:
            if cursor.offset >= self.committed_offset:
                # It wants one that is still to come.
                self.waiting.append(cursor)
            elif data is None:
                cursor.come()
            else:
                cursor.take_part(data, start, start + size, segment, place + size)

    def stop_waiting(self, cursor):
        if cursor in self.waiting:
            self.waiting.remove(cursor)

    def close(self):
        """The stream is deleted: what is on its way to disk no longer counts."""
        self.closed = True
        self.last_part = None
        self.waiting = []
        self.journal.owing.pop(self, None)
