"""A log file read record by record: the catalog's, and a segment that has no index, as the last one after a crash.

Collects the notes that a segment's index would have, and the stretches where no record stands that should. Never
touches a file; storage's recovery hands in the octets and judges the gaps."""

import cython

from leveret.core.log.record_search import RecordSearch

if not cython.compiled:
    from leveret.core.codec.pure_octets import copy_octets, read_u16, read_u32, read_u64, take
    from leveret.core.log.record_check import fits
    from leveret.core.log.records import (
        ADDRESS_MASK,
        CLOSED,
        COMMAND,
        EXPIRES,
        FLOOR,
        GROUP,
        HEAD_BYTES,
        MESSAGE,
        MESSAGE_HEAD_BYTES,
        NOTE_BYTES,
        NOTES,
        SHARED,
        STATE,
        TARGET_BYTES,
        padded,
        placed_kind,
        sealed_length,
        write_note,
    )


class Scan:
    def __init__(self, salt):
        self.salt = salt
        # The notes in the order of the records, see core.log.records.
        self.notes = bytearray()
        # Where the last good record ends, and the sequences of the first and last one, 0 if there is none.
        self.end = 0
        self.first_sequence = 0
        self.last_sequence = 0
        # The sequence up to which the segment itself says that everything was synced.
        self.synced_sequence = 0
        # (start, end, the sequence that should stand at start)
        self.gaps = []
        # The starts of those gaps that are a record with a good checksum whose inside does not fit.
        self.misshapen = set()
        self.records = 0
        # Whether the last record says that the broker stopped in good order.
        self.closed = False
        # Where the last record stands that ends a batch, and its sequence; 0 if there is none.
        self.batch_end = 0
        self.batch_sequence = 0
        # The payloads of a catalog's commands, and where the first record ends that only says how far all is synced: a
        # catalog's file starts with what the catalog was, and then one of these.
        self.commands = []
        self.first_notes_end = 0
        # Made with the first gap.
        self.search = None

    def run(self, data, start):
        """Reads data from `start`, the end of the segment's header, on."""
        p = data
        end = len(data)
        at = start
        self.end = start
        while True:
            length = sealed_length(p, at, end, self.salt) if self.search is None else self.search.length_at(at)
            if length == 0 or (self.last_sequence > 0 and read_u64(p, at + 8) <= self.last_sequence):
                if self.search is None:
                    self.search = RecordSearch(data, self.salt)
                found = self.search.find(at + 8, self.last_sequence + 1)
                if found < 0:
                    return 0
                missing = self.last_sequence + 1 if self.last_sequence > 0 else read_u64(p, found + 8) - 1
                self.gaps.append((at, found, missing))
                at = found
                continue
            if fits(p, at, length):
                self.take(p, at)
            else:
                self.pass_over(p, at, length)
            at += padded(length)
            self.end = at

    def pass_over(self, p, at, length):
        """Somebody wrote just this, so it is not torn: it is a gap that ends where the record does."""
        sequence = min(read_u64(p, at + 8), self.last_sequence + 1)
        self.gaps.append((at, at + padded(length), sequence))
        self.misshapen.add(at)
        if self.first_sequence == 0:
            self.first_sequence = sequence
        self.last_sequence = sequence
        if p[at + 16] != MESSAGE and not SHARED <= p[at + 16] <= FLOOR:
            # Whatever it was to say, it ended a batch.
            self.batch_end = at + padded(length)
            self.batch_sequence = sequence
        return 0

    def is_torn(self, start, missing, synced):
        """Whether the gap from `start` on was being written when the power went: nothing says that it was synced."""
        return missing > synced and start not in self.misshapen

    def take(self, p, at):
        sequence = read_u64(p, at + 8)
        if self.first_sequence == 0:
            self.first_sequence = sequence
        elif sequence != self.last_sequence + 1 and (not self.gaps or self.gaps[len(self.gaps) - 1][1] != at):
            # Whole records are missing although those around them are good.
            self.gaps.append((at, at, self.last_sequence + 1))
        self.last_sequence = sequence
        self.records += 1
        kind = p[at + 16]
        self.closed = kind == CLOSED
        if kind == MESSAGE:
            self.take_message(p, at)
            return 0
        if SHARED <= kind <= FLOOR:
            self.take_shared(p, at)
            return 0
        self.batch_end = at + padded(read_u32(p, at + 4))
        self.batch_sequence = sequence
        self.synced_sequence = max(self.synced_sequence, read_u64(p, at + 24))
        if kind == COMMAND:
            self.commands.append(take(p, at + HEAD_BYTES, at + read_u32(p, at + 4)))
        elif kind == NOTES:
            if self.first_notes_end == 0:
                self.first_notes_end = self.batch_end
            size = read_u32(p, at + 20) * NOTE_BYTES
            to = len(self.notes)
            self.notes.extend(bytes(size))
            q = self.notes
            copy_octets(q, to, p, at + HEAD_BYTES, size)
        return 0

    def take_shared(self, p, at):
        """A record of a consensus group; a STATE has no index."""
        kind = p[at + 16]
        to = len(self.notes)
        self.notes.extend(bytes(NOTE_BYTES))
        q = self.notes
        index = 0 if kind == STATE else read_u64(p, at + 40)
        what = kind | (p[at + 17] << 8 if kind == FLOOR else 0)
        write_note(q, to, read_u64(p, at + 24), index, at, read_u32(p, at + 4), what, GROUP)
        return 0

    def take_message(self, p, at):
        body_size = read_u32(p, at + 28)
        length = read_u32(p, at + 4)
        target = at + MESSAGE_HEAD_BYTES + (read_u16(p, at + 18) & ADDRESS_MASK) + read_u32(p, at + 24) + body_size
        kind = placed_kind(p[at + 17], read_u16(p, at + 18) & EXPIRES)
        for _ in range(read_u32(p, at + 20)):
            to = len(self.notes)
            self.notes.extend(bytes(NOTE_BYTES))
            q = self.notes
            write_note(q, to, read_u64(p, target), read_u64(p, target + 8), at, length, body_size, kind)
            target += TARGET_BYTES
        return 0
