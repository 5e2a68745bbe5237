"""The ready list: which message of a queue is handed out next.

Fresh entries stand in a ring in order of their position; entries that came back stand in a heap by position.
All that came back was handed out before anything still in the ring, so the heap always goes first and every
entry is handed out from its original place. Never holds bodies itself; called by the queue only."""

from leveret.core.ring import Ring


def position_of(entry):
    return entry.position


class ReadyList:
    __slots__ = ("bytes", "count", "fresh", "returned")

    def __init__(self):
        self.fresh = Ring()
        self.returned = None
        self.count = 0
        # Body bytes of everything ready.
        self.bytes = 0

    def push(self, entry):
        self.fresh.push(entry)
        self.count += 1
        self.bytes += len(entry.message.body)
        return 0

    def pop(self):
        """The entry with the lowest position, or None."""
        if self.count == 0:
            return None
        if self.returned:
            entry = heap_pop(self.returned)
        else:
            entry = self.fresh.pop()
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
        """All of it in the order of delivery, for people who look; the list is a copy."""
        return sorted(self.returned or [], key=position_of) + self.fresh.items()


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
