"""The messages of a queue that were never handed out and are in memory, each with its position, first in first out.

A ring that grows by doubling and gives its memory back when it runs empty. Called by the ready list only."""

import cython

if not cython.compiled:
    from leveret.core.codec.message import weight_of
    from leveret.core.codec.pure_octets import copy_octets, read_u64, write_u64

# An emptied ring larger than this is freed, so that a drained backlog does not keep its memory.
KEPT_SLOTS_MAX = 1024
FIRST_SLOTS = 4


class FreshRing:
    __slots__ = ("bytes", "count", "head", "mask", "popped_position", "positions", "slots", "weight")

    def __init__(self):
        # No slots at all until the first push: most queues of a large broker are empty.
        self.slots = None
        self.positions = None
        self.head = 0
        self.mask = -1
        self.count = 0
        # Body octets of what is here, and what it holds of memory (core.codec.message.weight_of).
        self.bytes = 0
        self.weight = 0
        # The position of the message that was popped last.
        self.popped_position = 0

    def grow(self):
        if self.slots is None:
            self.slots = [None] * FIRST_SLOTS
            self.positions = bytearray(FIRST_SLOTS * 8)
            self.mask = FIRST_SLOTS - 1
            return 0
        # In place: what stands before the head moves behind the rest, all else stays where it is.
        size = len(self.slots)
        head = self.head
        self.slots.extend([None] * size)
        self.positions.extend(bytes(size * 8))
        slots = self.slots
        for i in range(head):
            slots[size + i] = slots[i]
            slots[i] = None
        p = self.positions
        copy_octets(p, size * 8, p, 0, head * 8)
        self.mask = 2 * size - 1
        return 0

    def push(self, message, position):
        if self.count > self.mask:
            self.grow()
        at = (self.head + self.count) & self.mask
        self.slots[at] = message
        p = self.positions
        write_u64(p, at * 8, position)
        self.count += 1
        self.bytes += message.body_size
        self.weight += weight_of(message)
        return 0

    def pop(self):
        """The oldest message, with its position in `popped_position`; there must be one."""
        at = self.head
        message = self.slots[at]
        self.slots[at] = None
        p = self.positions
        self.popped_position = read_u64(p, at * 8)
        self.head = (at + 1) & self.mask
        self.count -= 1
        self.bytes -= message.body_size
        self.weight -= weight_of(message)
        if self.count == 0 and self.mask >= KEPT_SLOTS_MAX:
            self.clear()
        return message

    def pop_last(self):
        """The newest message, with its position in `popped_position`; there must be one."""
        at = (self.head + self.count - 1) & self.mask
        message = self.slots[at]
        self.slots[at] = None
        p = self.positions
        self.popped_position = read_u64(p, at * 8)
        self.count -= 1
        self.bytes -= message.body_size
        self.weight -= weight_of(message)
        return message

    def clear(self):
        self.slots = None
        self.positions = None
        self.head = 0
        self.mask = -1
        self.count = 0
        self.bytes = 0
        self.weight = 0

    def message_at(self, index):
        return self.slots[(self.head + index) & self.mask]

    def position_at(self, index):
        p = self.positions
        return read_u64(p, ((self.head + index) & self.mask) * 8)
