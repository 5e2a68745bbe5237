"""Messages that wait for their time, of one queue or one exchange: an index entry of 32 octets each, no timer.

A delayed message has a position like any other, which says when it is due: the highest bit, milliseconds since 2020,
and 22 bits that tell those of one moment apart. So the index sorted by position is sorted by time, and a start finds
the time of each in the log without reading it. When its time has come the message gets a new place at the end of the
queue (or goes through its exchange), and only then is the old one settled: both are in the same batch of the log."""

import cython

from leveret.core.log.load import Load
from leveret.core.log.sorted_slots import SortedSlots

if not cython.compiled:
    from leveret.core.codec.message import make_message, weight_of
    from leveret.core.codec.pure_octets import read_u32, read_u64
    from leveret.core.log.slot_layout import BODY_SIZE, SLOT_BYTES

# Where a slot has it, see core.log.cold
DELAYED = 1 << 63
EPOCH_MS = 1577836800000
SEQUENCE_BITS = 22
SEQUENCE_MASK = (1 << 22) - 1
# So many of those that were due when a crash was over may have been sent on before it: they go in order, and what they
# did is on disk with the next batch.
DOUBTFUL_MAX = 4096
# How many are sent on their way before others have their turn.
RELEASED_A_STEP = 256
# What a message takes beside body and properties, about.
MESSAGE_BYTES = 128


def due_of(position):
    """When the message at this position is due, in milliseconds of the wall clock."""
    return ((position & ~DELAYED) >> SEQUENCE_BITS) + EPOCH_MS


def first_at(due):
    """The lowest position of those due at this moment."""
    return DELAYED | ((due - EPOCH_MS if due > EPOCH_MS else 0) << SEQUENCE_BITS)


class Delays:
    """`owner` is the queue that gets each message when it is due, by `arrive`."""

    def __init__(self, owner, paging_context, queue_log, office):
        self.owner = owner
        self.name = owner.name
        self.paging_context = paging_context
        self.queue_log = queue_log
        self.office = office
        self.slots = SortedSlots()
        # Messages that have no record, or whose bodies memory has room for, by position.
        self.kept = {}
        self.kept_bytes = 0
        self.loading = None
        self.sequence = 0
        # Those up to this position may have been sent on just before a crash.
        self.doubtful_upto = 0
        # When it will be rung, 0 if it will not.
        self.alarm_at = 0
        self.added_total = 0
        self.released_total = 0
        self.cancelled_total = 0
        self.quarantined_total = 0

    @property
    def count(self):
        return self.slots.count

    @property
    def bytes(self):
        return self.slots.bytes_total

    # ---- in

    def add(self, message):
        """The message's stamp says when it is due."""
        self.added_total += 1
        position = self.free_position(message.stamp)
        if self.queue_log is not None and message.properties.persistent:
            self.queue_log.journal.keep(self.queue_log, message, position)
            self.slots.add(position, message.location, message.length, message.body_size, 0)
            if self.paging_context is None or self.kept_bytes < self.paging_context.window_bytes:
                self.keep(position, message)
        else:
            self.slots.add(position, 0, 0, message.body_size, 0)
            self.keep(position, message)
        return self.set_alarm()

    def free_position(self, due):
        """Behind everything else that is due at this moment. When the sequence starts again at 0, what came before may
        still be here: then behind the last one of the moment, or, if no number is left, in the next millisecond."""
        self.sequence = (self.sequence + 1) & SEQUENCE_MASK
        while True:
            position = first_at(due) | self.sequence
            last = self.slots.last_below(first_at(due + 1))
            if last < position:
                return position
            if last & SEQUENCE_MASK < SEQUENCE_MASK:
                return last + 1
            due += 1

    def keep(self, position, message):
        self.kept[position] = message
        self.kept_bytes += weight_of(message)
        return 0

    def unkeep(self, position):
        message = self.kept.pop(position, None)
        if message is not None:
            self.kept_bytes -= weight_of(message)
        return message

    def restore(self, slots, start, count, sequence, doubtful):
        """What recovery found, from slot number `start` on. Positions go on behind this sequence: the log may say of
        those before it that they are done with. After a crash it is doubtful what somebody got already."""
        self.sequence = sequence
        p = slots
        for i in range(start, start + count):
            at = i * SLOT_BYTES
            self.slots.add(read_u64(p, at), read_u64(p, at + 8), read_u32(p, at + 16), read_u32(p, at + 20), 0)
            # What comes from now on goes behind those of the same moment.
            self.sequence = max(self.sequence, read_u64(p, at) & SEQUENCE_MASK)
        if doubtful and count > 0:
            last = read_u64(p, (start + min(count, DOUBTFUL_MAX) - 1) * SLOT_BYTES)
            self.doubtful_upto = min(last, first_at(self.office.now + 1) - 1)
        return self.set_alarm()

    # ---- out

    def set_alarm(self):
        if self.slots.count > 0:
            due = due_of(self.slots.first_position())
            if self.alarm_at == 0 or due < self.alarm_at:
                self.alarm_at = due
                self.office.alarm(self, due)
        return 0

    def ring(self):
        """The alarm's time has come."""
        self.alarm_at = 0
        self.go_on()

    def go_on(self):
        """Sends on what is due, a bounded step at a time."""
        left = RELEASED_A_STEP
        while self.slots.count > 0:
            position = self.slots.first_position()
            if due_of(position) > self.office.now:
                break
            if self.office.is_full() or left == 0 or self.is_disk_behind():
                self.office.go_on_later(self)
                return
            message = self.kept.get(position)
            if message is None:
                if self.loading is None:
                    self.paging_context.want(self)
                return
            self.release(position, message)
            left -= 1
        self.set_alarm()

    def is_disk_behind(self):
        """Then what is due waits a moment longer: each may be as large as a message can be."""
        return self.queue_log is not None and self.queue_log.journal.congested

    def release(self, position, message):
        location = self.slots.location_of(position)
        self.unkeep(position)
        self.slots.drop_first()
        self.released_total += 1
        # A message of its own: the old object may be delayed by other queues as well, and its record is about to go.
        copy = make_message(message.address, message.properties, message.body)
        copy.stamp = self.office.now
        copy.lone = True
        if self.queue_log is not None:
            self.queue_log.journal.room = 1
        if position <= self.doubtful_upto:
            self.owner.arrive_again(copy)
        else:
            self.owner.arrive(copy)
        return self.let_go(position, location, message.body_size)

    def let_go(self, position, location, body_size):
        if location == 0:
            return 0
        if self.paging_context.pager.is_page(location):
            return self.paging_context.pager.release(location)
        return self.queue_log.settle(position, location, body_size)

    def cancel(self, position):
        """The message is not wanted any more: whether there was one."""
        if self.slots.find(position) < 0:
            return False
        location = self.slots.location_of(position)
        body_size = self.slots.body_size_of(position)
        self.unkeep(position)
        self.slots.remove(position)
        self.cancelled_total += 1
        self.let_go(position, location, body_size)
        return True

    def clear(self):
        slots = self.slots.slots_from(0, self.slots.count)
        p = slots
        for i in range(self.slots.count):
            at = i * SLOT_BYTES
            self.let_go(read_u64(p, at), read_u64(p, at + 8), read_u32(p, at + BODY_SIZE))
        self.slots.clear()
        self.kept = {}
        self.kept_bytes = 0
        self.loading = None

    def close(self):
        """The owner is gone: nothing waits any more, nobody is to be rung, and the two let each other go."""
        self.clear()
        if self.alarm_at > 0:
            self.alarm_at = 0
            self.office.forget(self)
        self.owner = None

    # ---- from disk, for the loader

    def take_load(self, journal):
        """What is due and not in memory."""
        if self.loading is not None:
            return None
        load = Load(journal.load_reads)
        slots = self.slots.slots_from(0, 4096)
        p = slots
        for i in range(len(slots) // SLOT_BYTES):
            at = i * SLOT_BYTES
            position = read_u64(p, at)
            if due_of(position) > self.office.now or load.is_full():
                break
            if position in self.kept:
                continue
            if not journal.is_written(read_u64(p, at + 8)):
                break
            to = load.slot_room()
            load.slots[to : to + SLOT_BYTES] = slots[at : at + SLOT_BYTES]
            load.add(None, read_u64(p, at + 8), read_u32(p, at + 16))
        if load.count == 0:
            return None
        load.seal()
        self.loading = load
        return load

    def lacks_next(self):
        if self.loading is not None or self.slots.count == 0:
            return False
        position = self.slots.first_position()
        return due_of(position) <= self.office.now and position not in self.kept

    def is_loading(self, load):
        return self.loading is load

    def has_load(self):
        return self.loading is not None

    def finish_load(self, load):
        if self.loading is not load:
            return
        self.loading = None
        for i in range(load.count):
            message = load.messages[i]
            position = read_u64(load.slots, i * SLOT_BYTES)
            if self.slots.find(position) < 0:
                # Cancelled meanwhile.
                continue
            if message is not None:
                self.keep(position, message)
            else:
                if i not in load.lost:
                    raise AssertionError("a delayed message was not read, and nothing says that it is lost")
                # Whoever read it has written that down.
                location = self.slots.location_of(position)
                self.slots.remove(position)
                self.quarantined_total += 1
                self.let_go(position, location, read_u32(load.slots, i * SLOT_BYTES + BODY_SIZE))
        self.go_on()

    def page_out(self, bytes_max):
        """Memory is short: lets up to so many octets of bodies go, and says how many it were."""
        freed = 0
        for position in list(self.kept):
            if freed >= bytes_max or self.loading is not None:
                break
            message = self.unkeep(position)
            if self.slots.location_of(position) == 0:
                location = self.paging_context.pager.page(message)
                self.slots.move(position, location, self.paging_context.pager.paged_length)
            freed += weight_of(message) + MESSAGE_BYTES
        return freed

    # ---- for compaction, and for people

    def find_stored(self, position, location):
        return self.slots.find(position) >= 0 and self.slots.location_of(position) == location

    def move_stored(self, position, to, length):
        self.slots.move(position, to, length)
        message = self.kept.get(position)
        if message is not None:
            message.location = to
            message.length = length
        return 0

    def waiting(self, position, limit):
        """Up to `limit` of them from this position on, in the order of their time: (position, due, body octets)."""
        slots = self.slots.slots_from(position, limit)
        found = []
        for i in range(len(slots) // SLOT_BYTES):
            at = read_u64(slots, i * SLOT_BYTES)
            found.append((at, due_of(at), read_u32(slots, i * SLOT_BYTES + 20)))
        return found
