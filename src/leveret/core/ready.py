"""The ready list: which message of a queue is handed out next.

In the order of delivery it has three parts. Entries that came back stand in a heap by position. Messages that were
never handed out stand in memory first, in a ring, up to the queue's window; the rest waits on disk as slots of 32
octets, or, if it has no record there, in memory as well (`kept`) until memory is short. All that came back was handed
out before anything else here, so every message is handed out from its original place. Bodies on disk come back by
loads. Called by the queue only."""

import cython

from leveret.core.cold import ColdList
from leveret.core.fresh import FreshRing
from leveret.core.load import Load
from leveret.core.ring import Ring

if not cython.compiled:
    from leveret.core.cold import write_slot
    from leveret.core.contract import make_entry
    from leveret.core.pure_octets import read_u32, read_u64

# Fields of a cold slot, see core.cold
SLOT_BYTES = 32
LENGTH, BODY_SIZE, DELIVERIES = 16, 20, 24
# So many that came back are looked at when somebody asks what is in memory.
LOOKED_AT_MAX = 4096


def position_of(entry):
    return entry.position


class ReadyList:
    __slots__ = (
        "bytes",
        "cold",
        "count",
        "fresh",
        "kept",
        "kept_bytes",
        "lazy",
        "ledger",
        "loading",
        "next_position",
        "returned",
        "returned_bytes",
        "seen_upto",
        "shelf",
    )

    def __init__(self, shelf=None, ledger=None, lazy=False):
        self.shelf = shelf
        self.ledger = ledger
        # Nothing stays in memory that can be on disk.
        self.lazy = lazy
        self.fresh = FreshRing()
        self.returned = None
        # Made when something goes to disk, with `kept`, which has the messages of slots without a location.
        self.cold = None
        self.kept = None
        self.loading = None
        # The position of the next fresh message.
        self.next_position = 1
        # All up to here may have been handed out before a crash.
        self.seen_upto = 0
        self.count = 0
        # Body bytes of everything ready.
        self.bytes = 0
        # Of these, what stands in `kept`, and in `returned`.
        self.kept_bytes = 0
        self.returned_bytes = 0

    def owns(self, message):
        """Whether the message has a record of this queue's own in the log."""
        return self.ledger is not None and message.properties.persistent

    # ---- in

    def push(self, message):
        """A message that the queue's log has already, if it is to have it."""
        self.count += 1
        self.bytes += message.body_size
        position = self.next_position
        self.next_position += 1
        if self.shelf is None:
            return self.fresh.push(message, position)
        if self.cold is None and not self.lazy and self.loading is None:
            # What has no record gains nothing by waiting elsewhere until memory is short.
            if self.fresh.bytes < self.shelf.window_bytes or not (self.shelf.pressed or self.owns(message)):
                return self.fresh.push(message, position)
        if self.cold is None:
            self.cold = ColdList()
            self.kept = Ring()
        if self.owns(message):
            return self.cold.push(position, message.location, message.length, message.body_size, 0)
        if self.lazy:
            location = self.shelf.pager.page(message)
            return self.cold.push(position, location, self.shelf.pager.paged_length, message.body_size, 0)
        self.kept.push(message)
        self.kept_bytes += message.body_size
        return self.cold.push(position, 0, 0, message.body_size, 0)

    def skip(self):
        """A message went past the list, straight to a consumer: the position it would have had."""
        self.next_position += 1
        return self.next_position - 1

    def put_back(self, entry):
        if self.returned is None:
            self.returned = []
        heap_push(self.returned, entry)
        self.count += 1
        self.bytes += entry.message.body_size
        self.returned_bytes += entry.message.body_size
        return 0

    def restore(self, slots, count, next_position):
        """What recovery found of this queue: `count` cold slots in the order of their positions."""
        if count > 0:
            self.cold = ColdList()
            self.kept = Ring()
        p = slots
        for i in range(count):
            at = i * SLOT_BYTES
            self.cold.push(
                read_u64(p, at), read_u64(p, at + 8), read_u32(p, at + 16), read_u32(p, at + 20), read_u32(p, at + 24)
            )
            self.bytes += read_u32(p, at + BODY_SIZE)
        self.count = count
        self.next_position = max(self.next_position, next_position)
        return 0

    # ---- out

    def has_next(self):
        """Whether the next message is in memory."""
        if self.returned:
            return self.returned[0].message.body is not None
        return self.fresh.count > 0

    def next_message(self):
        """The message that has_next says is there."""
        return self.returned[0].message if self.returned else self.fresh.message_at(0)

    def next_returned(self):
        """The entry to be handed out next, if that one came back; else None."""
        return self.returned[0] if self.returned else None

    def drop_next(self):
        """Lets the next message go that is not in memory, unread. Not while a load is on its way."""
        if self.returned:
            entry = heap_pop(self.returned)
            self.bytes -= entry.message.body_size
            self.returned_bytes -= entry.message.body_size
            self.let_go(entry.position, entry.message.location, entry.message.body_size)
        else:
            body_size = self.cold.number_at(0, BODY_SIZE)
            self.bytes -= body_size
            self.let_go(self.cold.position_at(0), self.cold.location_at(0), body_size)
            self.drop_first_cold()
        self.count -= 1
        return 0

    def pop_message(self):
        """The next message, if it is a fresh one (its position is in `fresh.popped_position`); None if nothing is ready
        or a returned entry goes first."""
        if self.returned or self.fresh.count == 0:
            return None
        message = self.fresh.pop()
        self.count -= 1
        self.bytes -= message.body_size
        return message

    def pop(self):
        """The next message as an entry, or None if there is none in memory."""
        if self.returned:
            entry = heap_pop(self.returned)
            self.returned_bytes -= entry.message.body_size
        elif self.fresh.count > 0:
            message = self.fresh.pop()
            entry = make_entry(message, self.fresh.popped_position)
            entry.seen = entry.position <= self.seen_upto
        else:
            return None
        self.count -= 1
        self.bytes -= entry.message.body_size
        return entry

    # ---- back from disk

    def wants_load(self):
        """Whether bodies should be fetched soon."""
        if self.loading is not None:
            return False
        if self.returned:
            return self.returned[0].message.body is None
        return self.cold is not None and self.fresh.bytes * 2 <= self.shelf.window_bytes

    def warm_up(self):
        """Messages without a record at the head of the cold part were in memory all the time: into the ring. Not while
        a load is on its way: what it brings goes before them."""
        if self.loading is not None and not self.loading.of_returned:
            return 0
        while self.cold is not None and self.cold.count > 0 and self.cold.location_at(0) == 0:
            if self.fresh.bytes >= self.shelf.window_bytes and self.fresh.count > 0:
                break
            message = self.kept.pop()
            self.kept_bytes -= message.body_size
            self.fresh.push(message, self.cold.position_at(0))
            self.drop_first_cold()
        return 0

    def drop_first_cold(self):
        self.cold.drop_first()
        if self.cold.count == 0:
            self.cold = None
            self.kept = None
        return 0

    def take_load(self, journal):
        """What to read next, or None if nothing can be read now. The load's slots stay counted here."""
        load = Load()
        if self.returned:
            load.of_returned = True
            self.plan_returned(load, journal)
        else:
            self.warm_up()
            self.plan_cold(load, journal)
        if load.count == 0:
            return None
        load.seal()
        self.loading = load
        return load

    def plan_returned(self, load, journal):
        """Entries that came back without their bodies, those first that go first."""
        for entry in sorted(self.returned, key=position_of):
            message = entry.message
            # What has its body may have no record at all, or one in a segment that is gone.
            if message.body is None:
                if load.is_full() or not journal.is_written(message.location):
                    break
                at = load.slot_room()
                p = load.slots
                write_slot(p, at, entry.position, message.location, message.length, message.body_size, 0)
                load.add(message, message.location, message.length)
        return 0

    def plan_cold(self, load, journal):
        while self.cold is not None and not load.is_full():
            location = self.cold.location_at(0)
            if location == 0 or not journal.is_written(location):
                break
            at = load.slot_room()
            self.cold.copy_slot(0, load.slots, at)
            load.add(None, location, self.cold.number_at(0, LENGTH))
            self.drop_first_cold()
        return 0

    def has_load(self):
        return self.loading is not None

    def is_loading(self, load):
        """Whether this load is still wanted: not once the queue was purged or deleted."""
        return self.loading is load

    def finish_load(self, load):
        """The load was read. False if it is no longer wanted."""
        if self.loading is not load:
            return False
        self.loading = None
        p = load.slots
        for i in range(load.count):
            message = load.messages[i]
            at = i * SLOT_BYTES
            if message is None:
                self.forget_damaged(read_u64(p, at), read_u64(p, at + 8), read_u32(p, at + BODY_SIZE))
            elif not load.of_returned:
                self.arrive(message, read_u64(p, at), read_u32(p, at + DELIVERIES))
        return True

    def arrive(self, message, position, deliveries):
        """A message is back in memory, at its place before everything that is still cold."""
        if not self.owns(message):
            # From here on it is a message like any other, without a record.
            self.shelf.pager.release(message.location)
            message.location = 0
        if deliveries == 0:
            return self.fresh.push(message, position)
        entry = make_entry(message, position)
        entry.delivery_count = deliveries
        entry.seen = True
        if self.returned is None:
            self.returned = []
        self.returned_bytes += message.body_size
        return heap_push(self.returned, entry)

    def forget_damaged(self, position, location, body_size):
        """What cannot be read any more is no longer in the queue; whoever read it has reported it."""
        if self.returned:
            left = [entry for entry in self.returned if entry.position != position]
            if len(left) < len(self.returned):
                self.returned_bytes -= body_size
            self.returned = left
            self.returned.sort(key=position_of)
        self.count -= 1
        self.bytes -= body_size
        return self.let_go(position, location, body_size)

    # ---- gone for good

    def let_go(self, position, location, body_size):
        """The log need not keep this one any longer."""
        if location == 0:
            return 0
        if self.shelf.pager.is_page(location):
            return self.shelf.pager.release(location)
        return self.ledger.settle(position, location, body_size)

    def clear(self):
        """Drops everything, and tells the log."""
        if self.ledger is not None or self.cold is not None or self.loading is not None:
            self.let_all_go()
        self.fresh.clear()
        self.returned = None
        self.cold = None
        self.kept = None
        self.loading = None
        self.count = 0
        self.bytes = 0
        self.kept_bytes = 0
        self.returned_bytes = 0

    def let_all_go(self):
        if self.returned:
            for entry in sorted(self.returned, key=position_of):
                if self.owns(entry.message):
                    self.ledger.settle(entry.position, entry.message.location, entry.message.body_size)
        for i in range(self.fresh.count):
            message = self.fresh.message_at(i)
            if self.owns(message):
                self.ledger.settle(self.fresh.position_at(i), message.location, message.body_size)
        load = self.loading
        if load is not None and not load.of_returned:
            p = load.slots
            for i in range(load.count):
                at = i * SLOT_BYTES
                self.let_go(read_u64(p, at), read_u64(p, at + 8), read_u32(p, at + BODY_SIZE))
        if self.cold is not None:
            for i in range(self.cold.count):
                self.let_go(self.cold.position_at(i), self.cold.location_at(i), self.cold.number_at(i, BODY_SIZE))
        return 0

    # ---- out of memory

    def page_out(self, bytes_max):
        """Lets up to `bytes_max` octets of bodies go that are beyond the window or have no record yet: how many."""
        if self.loading is not None:
            return 0
        return self.chill(bytes_max) + self.page_kept(bytes_max)

    def chill(self, bytes_max):
        """What memory holds beyond the window goes to the cold part, newest first."""
        freed = 0
        while self.fresh.count > 1 and self.fresh.bytes > self.shelf.window_bytes and freed < bytes_max:
            if self.cold is None:
                self.cold = ColdList()
                self.kept = Ring()
            message = self.fresh.pop_last()
            freed += message.body_size
            if self.owns(message):
                location = message.location
                length = message.length
            else:
                location = self.shelf.pager.page(message)
                length = self.shelf.pager.paged_length
            self.cold.push_first(self.fresh.popped_position, location, length, message.body_size)
        return freed

    def page_kept(self, bytes_max):
        """Messages of the cold part that have no record get one in the pages."""
        if self.kept is None or self.kept.count == 0:
            return 0
        freed = 0
        i = 0
        while self.kept.count > 0 and freed < bytes_max:
            if self.cold.location_at(i) == 0:
                message = self.kept.pop()
                self.kept_bytes -= message.body_size
                location = self.shelf.pager.page(message)
                self.cold.move(i, location, self.shelf.pager.paged_length)
                freed += message.body_size
            i += 1
        return freed

    # ---- for people, and for compaction

    def in_memory(self):
        """How many messages have their bodies here, and how many octets these are. Of those that came back, what is far
        behind is taken to have them."""
        count = self.fresh.count
        octets = self.fresh.bytes + self.kept_bytes + self.returned_bytes
        if self.kept is not None:
            count += self.kept.count
        if self.returned:
            count += len(self.returned)
            for i in range(min(len(self.returned), LOOKED_AT_MAX)):
                entry = self.returned[i]
                if entry.message.body is None:
                    count -= 1
                    octets -= entry.message.body_size
        return count, octets

    def entries(self):
        """All of it in the order of delivery, for people who look: a copy, with entries made up for fresh messages.
        What is on disk is left out."""
        entries = sorted(self.returned or [], key=position_of)
        for i in range(self.fresh.count):
            entries.append(make_entry(self.fresh.message_at(i), self.fresh.position_at(i)))
        return entries

    def collect_located(self, number, found):
        """Adds to `found` every message in memory whose record is in this segment, with how often it was handed out, by
        queue and position."""
        if self.ledger is None:
            return 0
        if self.returned:
            for entry in self.returned:
                if entry.message.location >> 32 == number:
                    found[(self.ledger.id, entry.position)] = (entry.message, entry.delivery_count)
        for i in range(self.fresh.count):
            message = self.fresh.message_at(i)
            if message.location >> 32 == number:
                found[(self.ledger.id, self.fresh.position_at(i))] = (message, 0)
        return 0

    def find_cold(self, position, location):
        """The index of the cold message with this position and location, or -1."""
        if self.cold is None:
            return -1
        i = self.cold.find(position)
        return i if i >= 0 and self.cold.location_at(i) == location else -1

    def move_cold(self, index, location, length):
        """The record of a cold message was copied elsewhere: how often that one was handed out."""
        self.cold.move(index, location, length)
        return self.cold.number_at(index, DELIVERIES)


# heapq would call back into Python for every comparison; these compare C integers.


def heap_push(heap, entry):
    heap.append(entry)
    at = len(heap) - 1
    while at > 0:
        parent = (at - 1) >> 1
        above = heap[parent]
        if above.position <= entry.position:
            break
        heap[at] = above
        at = parent
    heap[at] = entry
    return 0


def heap_pop(heap):
    last = heap.pop()
    size = len(heap)
    if size == 0:
        return last
    smallest = heap[0]
    at = 0
    child = 1
    while child < size:
        left = heap[child]
        if child + 1 < size:
            right = heap[child + 1]
            if right.position < left.position:
                child += 1
                left = right
        if last.position <= left.position:
            break
        heap[at] = left
        at = child
        child = 2 * at + 1
    heap[at] = last
    return smallest
