"""The ready list: which message of a queue is handed out next.

In the order of delivery it has three parts. Entries that came back stand in a heap by position. Messages that were
never handed out stand in memory first, in a ring, up to the queue's window; the rest waits on disk as slots of 32
octets, or, if it has no record there, in memory as well (`kept`) until memory is short. All that came back was handed
out before anything else here, so every message is handed out from its original place. Bodies on disk come back by
loads. Called by the queue only."""

import cython

from leveret.core.log.cold import ColdList
from leveret.core.log.load import Load
from leveret.core.queue.entry_heap import position_of
from leveret.core.queue.fresh import FreshRing
from leveret.core.queue.ring import Ring

if not cython.compiled:
    from leveret.core.codec.message import stub_of, weight_of
    from leveret.core.codec.pure_octets import read_u32, read_u64
    from leveret.core.log.cold import write_slot
    from leveret.core.log.slot_layout import BODY_SIZE, DELIVERIES, LENGTH, SLOT_BYTES
    from leveret.core.queue.contract import make_entry
    from leveret.core.queue.entry_heap import heap_pop, heap_push

# Fields of a cold slot, see core.log.cold
# So many that came back are looked at when somebody asks what is in memory.
LOOKED_AT_MAX = 4096
# What a message takes beside body and properties, about: paging a million empty ones is work, too.
MESSAGE_BYTES = 128
# Shorter bodies of messages that were handed out are not worth a page.
PAGED_BODY_BYTES_MIN = 256
# So many of those that came back keep their bodies: they are next.
RETURNED_KEPT = 64


class ReadyList:
    __slots__ = (
        "bytes",
        "cold",
        "count",
        "fresh",
        "kept",
        "kept_bytes",
        "lazy",
        "loading",
        "next_position",
        "paged_at",
        "paging_context",
        "queue_log",
        "returned",
        "returned_bytes",
        "seen_upto",
    )

    def __init__(self, paging_context=None, queue_log=None, lazy=False):
        self.paging_context = paging_context
        self.queue_log = queue_log
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
        # Where in `returned` bodies are let go next, when memory is short.
        self.paged_at = 0

    def owns(self, message):
        """Whether the message has a record of this queue's own in the log."""
        return self.queue_log is not None and message.properties.persistent

    def has_room(self):
        """Whether memory is to have one more of those that were never handed out."""
        context = self.paging_context
        return self.fresh.weight < context.window_bytes and self.fresh.count < context.window_count

    def is_within_window(self):
        context = self.paging_context
        return self.fresh.weight <= context.window_bytes and self.fresh.count <= context.window_count

    # ---- in

    def push(self, message):
        """A message that the queue's log has already, if it is to have it."""
        self.count += 1
        self.bytes += message.body_size
        position = self.next_position
        self.next_position += 1
        if self.paging_context is None:
            return self.fresh.push(message, position)
        if self.cold is None and not self.lazy and self.loading is None:
            # What has no record gains nothing by waiting elsewhere until memory is short.
            if self.has_room() or not (self.paging_context.pressed or self.owns(message)):
                return self.fresh.push(message, position)
        if self.cold is None:
            self.cold, self.kept = ColdList(), Ring()
        if self.owns(message):
            return self.cold.push(position, message.location, message.length, message.body_size, 0)
        if self.lazy:
            location = self.paging_context.pager.page(message)
            return self.cold.push(position, location, self.paging_context.pager.paged_length, message.body_size, 0)
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
            self.cold, self.kept = ColdList(), Ring()
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
        if self.cold is None or self.fresh.weight * 2 > self.paging_context.window_bytes:
            return False
        return self.fresh.count * 2 <= self.paging_context.window_count

    def warm_up(self):
        """Messages without a record at the head of the cold part were in memory all the time: into the ring. Not while
        a load is on its way: what it brings goes before them."""
        if self.loading is not None and not self.loading.of_returned:
            return 0
        while self.cold is not None and self.cold.count > 0 and self.cold.location_at(0) == 0:
            if self.fresh.count > 0 and not self.has_room():
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
        """What to read next, or None: nothing can be read now, or a load waits for another try. Slots stay counted."""
        load = Load(journal.load_reads)
        if self.loading is None and self.returned:
            load.of_returned = True
            self.plan_returned(load, journal)
        elif self.loading is None:
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
        if load.gone_count > 0:
            # Settled only if it is proven that they are lost.
            raise AssertionError("messages of a queue were not read, and nothing says that they are lost")
        self.loading = None
        p = load.slots
        for i in range(load.count):
            message = load.messages[i]
            at = i * SLOT_BYTES
            if message is None:
                self.forget_lost(read_u64(p, at), read_u64(p, at + 8), read_u32(p, at + BODY_SIZE))
            elif not load.of_returned:
                self.arrive(message, read_u64(p, at), read_u32(p, at + DELIVERIES))
            elif not self.owns(message):
                self.forget_page(message)
        return True

    def arrive(self, message, position, deliveries):
        """A message is back in memory, at its place before everything that is still cold."""
        if not self.owns(message):
            self.forget_page(message)
        if deliveries == 0:
            return self.fresh.push(message, position)
        entry = make_entry(message, position)
        entry.delivery_count = deliveries
        entry.seen = True
        if self.returned is None:
            self.returned = []
        self.returned_bytes += message.body_size
        return heap_push(self.returned, entry)

    def forget_lost(self, position, location, body_size):
        """What is lost is no longer in the queue; whoever read it has written that down."""
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
        if self.paging_context.pager.is_page(location):
            return self.paging_context.pager.release(location)
        return self.queue_log.settle(position, location, body_size)

    def forget_all(self):
        """Has nothing any more; the log does not learn of it here (core.queue.release)."""
        self.fresh = FreshRing()
        self.returned = None
        self.cold = None
        self.kept = None
        self.loading = None
        self.count = 0
        self.bytes = 0
        self.kept_bytes = 0
        self.returned_bytes = 0
        return 0

    # ---- out of memory

    def page_out(self, bytes_max):
        """Lets up to `bytes_max` octets of bodies go that are beyond the window or have no record yet: how many."""
        if self.loading is not None:
            return 0
        freed = self.chill(bytes_max) + self.page_kept(bytes_max)
        return freed + (self.page_returned(bytes_max - freed) if self.returned and freed < bytes_max else 0)

    def chill(self, bytes_max):
        """What memory holds beyond the window goes to the cold part, newest first."""
        freed = 0
        while self.fresh.count > 1 and freed < bytes_max and not self.is_within_window():
            if self.cold is None:
                self.cold, self.kept = ColdList(), Ring()
            message = self.fresh.pop_last()
            freed += weight_of(message) + MESSAGE_BYTES
            if self.owns(message):
                location = message.location
                length = message.length
            else:
                location = self.paging_context.pager.page(message)
                length = self.paging_context.pager.paged_length
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
                location = self.paging_context.pager.page(message)
                self.cold.move(i, location, self.paging_context.pager.paged_length)
                freed += weight_of(message) + MESSAGE_BYTES
            i += 1
        return freed

    def page_entry(self, entry):
        """Lets the body of a message go that was handed out before, and says how many octets that frees."""
        message = entry.message
        if message.body is None or message.body_size < PAGED_BODY_BYTES_MIN:
            return 0
        if self.owns(message):
            entry.message = stub_of(message, message.location, message.length)
        else:
            location = self.paging_context.pager.page(message)
            entry.message = stub_of(message, location, self.paging_context.pager.paged_length)
        return message.body_size

    def page_returned(self, bytes_max):
        """The same for those that came back, but not for the next ones. Goes on where it stopped the last time."""
        freed = 0
        for _ in range(min(len(self.returned), LOOKED_AT_MAX)):
            self.paged_at -= 1
            if self.paged_at < RETURNED_KEPT or self.paged_at >= len(self.returned):
                self.paged_at = len(self.returned) - 1
                if self.paged_at < RETURNED_KEPT:
                    break
            freed += self.page_entry(self.returned[self.paged_at])
            if freed >= bytes_max:
                break
        return freed

    def forget_page(self, message):
        """A message without a record of its own is back from its page, and like any other; or it is done with."""
        if message.location != 0:
            self.paging_context.pager.release(message.location)
            message.location = 0
        return 0

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
        if self.queue_log is None:
            return 0
        if self.returned:
            for entry in self.returned:
                if entry.message.location >> 32 == number:
                    found[(self.queue_log.id, entry.position)] = (entry.message, entry.delivery_count)
        for i in range(self.fresh.count):
            message = self.fresh.message_at(i)
            if message.location >> 32 == number:
                found[(self.queue_log.id, self.fresh.position_at(i))] = (message, 0)
        return 0

    def find_cold(self, position, location):
        """The index of the cold message with this position and location, or -1."""
        i = -1 if self.cold is None else self.cold.find(position)
        return i if i >= 0 and self.cold.location_at(i) == location else -1

    def move_cold(self, index, location, length):
        """The record of a cold message was copied elsewhere: how often that one was handed out."""
        self.cold.move(index, location, length)
        return self.cold.number_at(index, DELIVERIES)
