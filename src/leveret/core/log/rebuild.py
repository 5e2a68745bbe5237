"""Queues made anew from the notes of the log: what was placed and not settled is what a queue has.

Fed with the notes of every segment, in any order, because positions tell the order of messages and a settled one is
settled wherever that was noted. Copies of one message, left by a crash during compaction, are one message. Called by
storage's recovery; never touches a file."""

import cython

if not cython.compiled:
    from leveret.core.codec.pure_octets import copy_octets, read_u32, read_u64, take, write_u32
    from leveret.core.log.cold import write_slot
    from leveret.core.log.records import (
        COUNTED,
        EXPIRES_BIT,
        GROUP,
        HANDED,
        KEY,
        KIND_MASK,
        MOMENT,
        NOTE_BYTES,
        PLACED,
        SETTLED,
    )
    from leveret.core.log.slot_layout import DELIVERIES, PRIORITY, SLOT_BYTES

# Positions from here on are those of delayed messages, see core.queue.delays: they say nothing about the others.
DELAYED = 1 << 63
SEQUENCE_MASK = (1 << 22) - 1


def by_position_and_location(slot):
    return slot[:16]


class QueueBook:
    """What the log says of one queue."""

    def __init__(self):
        # Cold slots as they come, see core.log.cold.
        self.slots = bytearray()
        self.count = 0
        self.in_order = True
        self.last_position = 0
        # Everything up to here was handed out at least once.
        self.handed = 0
        # Position -> how often it was handed out, where that was more than once.
        self.times = {}
        # [first, end) of positions that are done with, not yet merged.
        self.runs = []
        self.next_position = 1
        # The highest number that tells delayed messages of one moment apart.
        self.delay_sequence = 0
        # Whether any of its messages has an expiration of its own.
        self.expiring = False
        # (second, digest, segment of the note, own time to live) of keys that were seen, see core.queue.dedup.
        self.keys = []

    def place(self, position, location, length, body_size, priority):
        if position <= self.last_position:
            self.in_order = False
        self.last_position = position
        at = self.count * SLOT_BYTES
        if at == len(self.slots):
            self.slots.extend(bytes(max(at, 64 * SLOT_BYTES)))
        write_slot(self.slots, at, position, location, length, body_size, 0)
        write_u32(self.slots, at + PRIORITY, priority)
        self.count += 1
        self.reach(position)
        return 0

    def settle(self, first, end):
        run = self.runs[len(self.runs) - 1] if self.runs else None
        if run is not None and run[1] == first:
            run[1] = end
        else:
            self.runs.append([first, end])
        self.reach(end - 1)
        return 0

    def reach(self, position):
        """No later message may get this position again, even if this one did not survive."""
        if position >= DELAYED:
            self.delay_sequence = max(self.delay_sequence, position & SEQUENCE_MASK)
        elif position >= self.next_position:
            self.next_position = position + 1
        return 0

    def finish(self, live, superseded):
        """Leaves only what is not settled, each message once, and adds it up by segment. Segments that hold an older
        copy of a message go into `superseded`."""
        if not self.in_order:
            self.sort()
        self.runs.sort()
        p = self.slots
        to = 0
        run_at = 0
        for i in range(self.count):
            at = i * SLOT_BYTES
            position = read_u64(p, at)
            if i + 1 < self.count and read_u64(p, at + SLOT_BYTES) == position:
                superseded.add(read_u64(p, at + 8) >> 32)
                continue
            while run_at < len(self.runs) and self.runs[run_at][1] <= position:
                run_at += 1
            if run_at < len(self.runs) and self.runs[run_at][0] <= position:
                continue
            copy_octets(p, to, p, at, SLOT_BYTES)
            write_u32(p, to + DELIVERIES, self.deliveries(position))
            to += SLOT_BYTES
            segment = read_u64(p, at + 8) >> 32
            live[segment] = live.get(segment, 0) + 1
        self.count = to // SLOT_BYTES
        del self.slots[to:]
        self.runs = []
        return 0

    def sort(self):
        slots = [bytes(self.slots[i * SLOT_BYTES : (i + 1) * SLOT_BYTES]) for i in range(self.count)]
        slots.sort(key=by_position_and_location)
        self.slots = bytearray(b"".join(slots))

    def deliveries(self, position):
        """How often it was handed out; whoever had it when the broker went away has returned it by that."""
        times = 1 if position <= self.handed else 0
        if self.times:
            times = max(times, self.times.get(position, 0))
        return times


class Rebuild:
    def __init__(self):
        # By queue id
        self.books = {}
        # The last moment that was noted: for messages, and by the wall clock; 0 if there is none.
        self.now_ms = 0
        self.wall_ms = 0
        # Records of consensus groups: (location, group, index, length, kind and flags), in the order of the notes.
        self.shared = []

    def book(self, queue):
        found = self.books.get(queue)
        if found is None:
            found = self.books[queue] = QueueBook()
        return found

    def add_notes(self, notes, start, end, segment, segments, settles):
        """Takes in the notes in notes[start:end], which stand in this segment. `segments` are the numbers of those that
        exist; the ones with messages that are declared settled here are added to `settles`."""
        p = notes
        at = start
        queue = 0
        book = None
        last_settled = segment
        while end - at >= NOTE_BYTES:
            if read_u32(p, at + 28) == MOMENT:
                self.now_ms = read_u64(p, at + 8)
                high = read_u32(p, at + 16)
                self.wall_ms = (high << 32) | read_u32(p, at + 24)
                at += NOTE_BYTES
                continue
            if read_u32(p, at + 28) == GROUP:
                location = (segment << 32) | read_u32(p, at + 16)
                what = read_u32(p, at + 24)
                self.shared.append((location, read_u64(p, at), read_u64(p, at + 8), read_u32(p, at + 20), what))
                at += NOTE_BYTES
                continue
            if book is None or read_u64(p, at) != queue:
                queue = read_u64(p, at)
                book = self.book(queue)
            first = read_u64(p, at + 8)
            a = read_u32(p, at + 16)
            b = read_u32(p, at + 20)
            flags = read_u32(p, at + 28)
            kind = flags & KIND_MASK
            if kind == PLACED:
                book.place(first, (segment << 32) | a, b, read_u32(p, at + 24), (flags >> 8) & 0xFF)
                if flags & EXPIRES_BIT:
                    book.expiring = True
            elif kind == SETTLED or kind == COUNTED:
                if b != last_settled and b in segments:
                    settles.add(b)
                    last_settled = b
                if kind == COUNTED:
                    book.reach(first)
                    book.times[first] = max(a, book.times.get(first, 0))
                elif b == last_settled or b in segments:
                    book.settle(first, first + a)
                else:
                    book.reach(first + a - 1)
            elif kind == HANDED:
                book.handed = max(book.handed, first)
                book.reach(first)
            elif kind == KEY:
                book.keys.append((read_u32(p, at + 24), take(p, at + 8, at + 24), segment, flags >> 8))
            at += NOTE_BYTES
        return 0
