"""Whose turn it is: round robin among the waiting subscribers of the highest priority.

A subscriber that turns out to be full leaves the rota and is parked; it comes back when its channel says so. So a
queue with many full consumers looks at each of them once, not at every message. Called by the queue only."""

from leveret.core.ring import Ring


class Rota:
    __slots__ = ("priorities", "rings")

    def __init__(self):
        self.rings = []
        self.priorities = []

    def add(self, subscriber):
        subscriber.waiting = True
        i = 0
        while i < len(self.priorities) and self.priorities[i] > subscriber.priority:
            i += 1
        if i == len(self.priorities) or self.priorities[i] != subscriber.priority:
            self.rings.insert(i, Ring())
            self.priorities.insert(i, subscriber.priority)
        ring = self.rings[i]
        ring.push(subscriber)
        return 0

    def next(self):
        """The one whose turn it is, or None if nobody can take."""
        for i in range(len(self.rings)):
            ring = self.rings[i]
            while ring.count > 0:
                subscriber = ring.peek()
                if subscriber.can_take():
                    if ring.count > 1:
                        ring.push(ring.pop())
                    return subscriber
                ring.pop()
                subscriber.park()
        return None

    def remove(self, subscriber):
        subscriber.waiting = False
        for i in range(len(self.rings)):
            ring = self.rings[i]
            if self.priorities[i] == subscriber.priority:
                ring.discard(subscriber)
                if ring.count == 0:
                    del self.rings[i]
                    del self.priorities[i]
                return 0
        return 0
