"""A heap of entries by their positions: what came back to a queue, the oldest first.

heapq would call back into Python for every comparison; these compare C integers. Called by the ready list only."""


def position_of(entry):
    return entry.position


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
