"""A first-in first-out ring of objects that grows by doubling and gives its memory back when it runs empty.

Never sorts and never looks at what it holds. Used by the ready list and by the consumer ring of consumers."""

# An emptied ring larger than this is freed, so that a drained backlog does not keep its memory.
KEPT_SLOTS_MAX = 1024
FIRST_SLOTS = 4


class Ring:
    __slots__ = ("count", "head", "mask", "slots")

    def __init__(self):
        # No slots at all until the first push: most queues of a large broker are empty.
        self.slots = None
        self.head = 0
        self.mask = -1
        self.count = 0

    def grow(self):
        if self.slots is None:
            self.slots = [None] * FIRST_SLOTS
            self.mask = FIRST_SLOTS - 1
            return 0
        # In place: what stands before the head moves behind the rest, all else stays where it is.
        slots = self.slots
        size = len(slots)
        slots.extend([None] * size)
        for i in range(self.head):
            slots[size + i] = slots[i]
            slots[i] = None
        self.mask = 2 * size - 1
        return 0

    def push(self, item):
        if self.count > self.mask:
            self.grow()
        self.slots[(self.head + self.count) & self.mask] = item
        self.count += 1

    def pop(self):
        """The oldest item, or None."""
        if self.count == 0:
            return None
        item = self.slots[self.head]
        self.slots[self.head] = None
        self.head = (self.head + 1) & self.mask
        self.count -= 1
        if self.count == 0 and self.mask >= KEPT_SLOTS_MAX:
            self.clear()
        return item

    def peek(self):
        if self.count == 0:
            return None
        return self.slots[self.head]

    def clear(self):
        self.slots = None
        self.head = 0
        self.mask = -1
        self.count = 0

    def items(self):
        return [self.slots[(self.head + i) & self.mask] for i in range(self.count)]
