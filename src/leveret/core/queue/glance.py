"""Looking at what is ready in a queue without touching it: no counter, no order, no mark of redelivery changes.

A glance says what stands at one place; bodies that only the disk has are read for it by a Reading, which the storage
room's loader serves like a queue. Never holds a message back: what was seen may be gone a moment later. Used by
operations.browsing."""

from heapq import heappop, heappush, nsmallest
from operator import attrgetter

import cython

from leveret.core.log.load import Load

if not cython.compiled:
    from leveret.core.codec.pure_octets import read_u32, read_u64
    from leveret.core.log.cold import write_slot
    from leveret.core.log.slot_layout import BODY_SIZE, DELIVERIES, LENGTH, SLOT_BYTES

# Fields of a cold slot, see core.log.cold
BY_POSITION = attrgetter("position")


class Glance:
    """One message's place. `message` is None as long as only the disk has it, at `location`."""

    __slots__ = ("body", "body_size", "delivery_count", "length", "location", "message", "position", "seen")

    def __init__(self, position, message, body_size, seen, delivery_count):
        self.position = position
        self.message = message
        self.body = None if message is None else message.body
        self.body_size = body_size
        self.seen = seen
        self.delivery_count = delivery_count
        self.location = 0 if message is None else message.location
        self.length = 0 if message is None else message.length

    def drop(self):
        """Nobody looks at it any more: its body need not stay in memory for it."""
        self.message = None
        self.body = None


def glance_at(entry):
    """The glance at an entry that somebody holds, or that came back."""
    return Glance(entry.position, entry.message, entry.message.body_size, entry.seen, entry.delivery_count)


def glance(queue, offset, count):
    """Up to so many of what is ready, in the order of delivery, from the offset on."""
    found = []
    for ready in [queue.ready] if queue.levels is None else queue.levels.used:
        if offset < ready.count:
            look_into(ready, offset, count - len(found), found)
            offset = 0
        else:
            offset -= ready.count
        if len(found) >= count:
            break
    return found


def glance_after(queue, position, count):
    """Up to so many of what is ready behind this position, in the order of positions, which is that of delivery but
    for priorities. Whatever comes and goes meanwhile, going on behind the last one of a page leaves nothing out and
    shows nothing twice."""
    found = []
    for ready in [queue.ready] if queue.levels is None else queue.levels.used:
        look_behind(ready, position, count, found)
    found.sort(key=BY_POSITION)
    return found[:count]


def returned_count(queue):
    """How many of what is ready came back: an offset among those takes work that grows with it."""
    count = 0
    for ready in [queue.ready] if queue.levels is None else queue.levels.used:
        if ready.returned is not None:
            count += len(ready.returned)
    return count


def look_into(ready, offset, count, found):
    end = offset + count
    passed = 0
    if ready.returned:
        if offset < len(ready.returned):
            found.extend([glance_at(entry) for entry in smallest(ready.returned, end)[offset:]])
        passed = len(ready.returned)
    for i in range(max(0, offset - passed), min(ready.fresh.count, end - passed)):
        position = ready.fresh.position_at(i)
        message = ready.fresh.message_at(i)
        found.append(Glance(position, message, message.body_size, position <= ready.seen_upto, 0))
    passed += ready.fresh.count
    load = ready.loading
    if load is not None and not load.of_returned:
        for i in range(max(0, offset - passed), min(load.count, end - passed)):
            found.append(glance_at_slot(ready, load.slots, i * SLOT_BYTES))
        passed += load.count
    if ready.cold is not None:
        look_into_cold(ready, max(0, offset - passed), min(ready.cold.count, end - passed), found)
    return 0


def look_behind(ready, position, count, found):
    """Adds the first so many of each part: what came back, what is fresh, what is being loaded, and what is on disk."""
    if ready.returned:
        behind = [entry for entry in ready.returned if entry.position > position]
        found.extend([glance_at(entry) for entry in nsmallest(count, behind, key=BY_POSITION)])
    start = 0
    end = ready.fresh.count
    while start < end:
        i = (start + end) >> 1
        if ready.fresh.position_at(i) <= position:
            start = i + 1
        else:
            end = i
    for i in range(start, min(ready.fresh.count, start + count)):
        message = ready.fresh.message_at(i)
        at = ready.fresh.position_at(i)
        found.append(Glance(at, message, message.body_size, at <= ready.seen_upto, 0))
    load = ready.loading
    if load is not None and not load.of_returned:
        for i in range(load.count):
            seen = glance_at_slot(ready, load.slots, i * SLOT_BYTES)
            if seen.position > position:
                found.append(seen)
    if ready.cold is not None:
        start = 0
        end = ready.cold.count
        while start < end:
            i = (start + end) >> 1
            if ready.cold.position_at(i) <= position:
                start = i + 1
            else:
                end = i
        look_into_cold(ready, start, min(ready.cold.count, start + count), found)
    return 0


def look_into_cold(ready, start, end, found):
    if start >= end:
        return 0
    kept = []
    kept_at = 0
    if ready.kept.count > 0:
        # Those without a place on disk stand beside, in the same order.
        kept = ready.kept.items()
        for i in range(start):
            if ready.cold.location_at(i) == 0:
                kept_at += 1
    slot = bytearray(SLOT_BYTES)
    for i in range(start, end):
        ready.cold.copy_slot(i, slot, 0)
        seen = glance_at_slot(ready, slot, 0)
        if seen.location == 0:
            seen.message = kept[kept_at]
            seen.body = seen.message.body
            kept_at += 1
        found.append(seen)
    return 0


def glance_at_slot(ready, slots, at):
    p = slots
    position = read_u64(p, at)
    deliveries = read_u32(p, at + DELIVERIES)
    made = Glance(
        position, None, read_u32(p, at + BODY_SIZE), deliveries > 0 or position <= ready.seen_upto, deliveries
    )
    made.location = read_u64(p, at + 8)
    made.length = read_u32(p, at + LENGTH)
    return made


def smallest(heap, count):
    """The first so many of a heap of entries, in order, without sorting all of it: a child is never before its
    parent."""
    found = []
    candidates = [(heap[0].position, 0)]
    while candidates and len(found) < count:
        _, at = heappop(candidates)
        found.append(heap[at])
        for child in (2 * at + 1, 2 * at + 2):
            if child < len(heap):
                heappush(candidates, (heap[child].position, child))
    return found


class Reading:
    """Reads the bodies of glances, some at a time: each `finish_load` fills in a few more and calls `done`. For the
    loader it is what a queue is."""

    def __init__(self, queue, glances, done):
        self.queue = queue
        self.name = queue.name
        # In order; those before `at` are read, or cannot be.
        self.glances = glances
        self.at = 0
        self.loaded = []
        self.done = done
        # The next record is not even written to its file.
        self.unwritten = False

    def is_over(self):
        return self.at >= len(self.glances)

    def take_load(self, journal):
        load = Load(journal.load_reads)
        self.unwritten = False
        self.loaded = []
        while self.at < len(self.glances) and not load.is_full():
            seen = self.glances[self.at]
            self.locate(seen)
            if seen.location >> 32 in journal.segments:
                if not journal.is_written(seen.location):
                    self.unwritten = load.count == 0
                    break
                at = load.slot_room()
                p = load.slots
                write_slot(p, at, seen.position, seen.location, seen.length, seen.body_size, 0)
                load.add(None, seen.location, seen.length)
                self.loaded.append(seen)
            self.at += 1
        if load.count == 0:
            if not self.unwritten:
                # All of them are gone.
                self.done()
            return None
        load.seal()
        return load

    def locate(self, seen):
        """Its record may have been copied elsewhere since somebody looked."""
        if seen.message is not None:
            seen.location = seen.message.location
            seen.length = seen.message.length
            return 0
        for ready in [self.queue.ready] if self.queue.levels is None else self.queue.levels.used:
            if ready.cold is not None:
                at = ready.cold.find(seen.position)
                if at >= 0 and ready.cold.location_at(at) != 0:
                    seen.location = ready.cold.location_at(at)
                    seen.length = ready.cold.number_at(at, LENGTH)
                    break
        return 0

    def is_loading(self, load):
        """Never: what cannot be read is reported when the queue itself wants it."""
        return False

    def finish_load(self, load):
        for i in range(load.count):
            message = load.messages[i]
            if message is not None:
                seen = self.loaded[i]
                seen.message = message
                seen.body = message.body
        self.loaded = []
        self.done()

    def lacks_next(self):
        return self.unwritten
