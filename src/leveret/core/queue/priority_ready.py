"""The ready lists of a queue with priorities: one for each priority that was ever used, the highest served first.

Positions count through the queue as a whole, in the lowest list. Called by the queue only."""

import cython

from leveret.core.queue.ready import ReadyList

if not cython.compiled:
    from leveret.core.codec.pure_octets import read_u32
    from leveret.core.log.slot_layout import PRIORITY, SLOT_BYTES


class PriorityReady:
    """`base` is the list of priority 0, which always exists."""

    def __init__(self, base, priority_max, paging_context, queue_log, lazy):
        self.base = base
        self.priority_max = priority_max
        self.paging_context = paging_context
        self.queue_log = queue_log
        self.lazy = lazy
        # By priority, None where nothing ever was; and the existing ones, highest first.
        self.lists = [base]
        self.used = [base]

    def list_for(self, priority):
        if priority > self.priority_max:
            priority = self.priority_max
        while len(self.lists) <= priority:
            self.lists.append(None)
        found = self.lists[priority]
        if found is None:
            found = ReadyList(self.paging_context, self.queue_log, self.lazy)
            found.seen_upto = self.base.seen_upto
            self.lists[priority] = found
            self.used = [ready for ready in reversed(self.lists) if ready is not None]
        return found

    def push(self, message):
        """At the end of its priority: the list it went to."""
        level = self.list_for(message.properties.priority)
        level.next_position = self.base.next_position
        level.push(message)
        self.base.next_position = level.next_position
        return level

    def top(self):
        """The list to serve: the highest one that has something, the lowest if none has."""
        for level in self.used:
            if level.count > 0:
                return level
        return self.base

    def total_count(self):
        total = 0
        for level in self.used:
            total += level.count
        return total

    def total_bytes(self):
        total = 0
        for level in self.used:
            total += level.bytes
        return total

    def loading(self, load):
        """The list that this load belongs to, or None if it is no longer wanted."""
        for level in self.used:
            if level.is_loading(load):
                return level
        return None

    def restore(self, slots, count, next_position):
        """Distributes what recovery found: each slot has its priority behind its last field."""
        parts = {}
        for i in range(count):
            at = i * SLOT_BYTES
            parts.setdefault(read_u32(slots, at + PRIORITY), bytearray()).extend(slots[at : at + SLOT_BYTES])
        merged = {}
        for priority, part in parts.items():
            merged.setdefault(min(priority, self.priority_max), []).append(part)
        for priority, several in merged.items():
            found = several[0] if len(several) == 1 else in_order(several)
            self.list_for(priority).restore(found, len(found) // SLOT_BYTES, next_position)
        self.base.next_position = max(self.base.next_position, next_position)


def in_order(parts):
    """The slots of several parts in the order of their positions."""
    slots = [bytes(part[at : at + SLOT_BYTES]) for part in parts for at in range(0, len(part), SLOT_BYTES)]
    slots.sort(key=position_octets)
    return bytearray(b"".join(slots))


def position_octets(slot):
    return slot[:8]
