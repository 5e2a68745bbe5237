"""The ready list: which message of a queue is handed out next.

Fresh messages stand in a ring in the order they came. Their positions follow from their place, so they need no entry
of their own until somebody must acknowledge them: most of what waits in a broker costs eight bytes a queue beside the
message itself. Entries that came back stand in a heap by position. All that came back was handed out before anything
still in the ring, so the heap always goes first and every message is handed out from its original place. Called by
the queue only."""

import cython

from leveret.core.ring import Ring

if not cython.compiled:
    from leveret.core.contract import make_entry


def position_of(entry):
    return entry.position


class ReadyList:
    __slots__ = ("bytes", "count", "fresh", "next_position", "returned")

    def __init__(self):
        self.fresh = Ring()
        self.returned = None
        # The position of the next fresh message; the ring holds the `fresh.count` positions before it.
        self.next_position = 1
        self.count = 0
        # Body bytes of everything ready.
        self.bytes = 0

    def push(self, message):
        self.fresh.push(message)
        self.next_position += 1
        self.count += 1
        self.bytes += len(message.body)
        return 0

    def skip(self):
        """A message went past the list, straight to a consumer: the position it would have had."""
        self.next_position += 1
        return self.next_position - 1

    def pop_message(self):
        """The next message, if it is a fresh one; None if nothing is ready or a returned entry goes first."""
        if self.count == 0 or self.returned:
            return None
        message = self.fresh.pop()
        self.count -= 1
        self.bytes -= len(message.body)
        return message

    def pop(self):
        """The next message as an entry, or None."""
        if self.count == 0:
            return None
        if self.returned:
            entry = heap_pop(self.returned)
        else:
            entry = make_entry(self.fresh.pop(), self.next_position - self.fresh.count - 1)
        self.count -= 1
        self.bytes -= len(entry.message.body)
        return entry

    def put_back(self, entry):
        if self.returned is None:
            self.returned = []
        heap_push(self.returned, entry)
        self.count += 1
        self.bytes += len(entry.message.body)
        return 0

    def clear(self):
        self.fresh.clear()
        self.returned = None
        self.count = 0
        self.bytes = 0

    def entries(self):
        """All of it in the order of delivery, for people who look: a copy, with entries made up for fresh messages."""
        entries = sorted(self.returned or [], key=position_of)
        position = self.next_position - self.fresh.count
        for message in self.fresh.items():
            entries.append(make_entry(message, position))
            position += 1
        return entries


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
