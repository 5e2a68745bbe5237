"""Whose turn it is: round robin among the waiting subscribers of the highest priority.

A subscriber that turns out to be full leaves the consumer ring and is parked; it comes back when its channel says so.
So a queue with many full consumers looks at each of them once, not at every message. Called by the queue only."""

from leveret.core.queue.ring import Ring


class ConsumerRing:
    __slots__ = ("alone", "left", "paused", "priorities", "rings")

    def __init__(self, paused=False):
        # While it is, it is nobody's turn.
        self.paused = paused
        # The only one that waits, if there is only one: most queues have one consumer, which is asked at every message.
        self.alone = None
        self.rings = []
        self.priorities = []
        # How many of each ring have left the queue and are passed over when their turn comes.
        self.left = []

    def add(self, subscriber):
        subscriber.waiting = True
        self.alone = subscriber if self.is_empty() and not self.paused else None
        i = 0
        while i < len(self.priorities) and self.priorities[i] > subscriber.priority:
            i += 1
        if i == len(self.priorities) or self.priorities[i] != subscriber.priority:
            self.rings.insert(i, Ring())
            self.priorities.insert(i, subscriber.priority)
            self.left.insert(i, 0)
        ring = self.rings[i]
        ring.push(subscriber)
        return 0

    def is_empty(self):
        for i in range(len(self.rings)):
            ring = self.rings[i]
            if ring.count > 0:
                return False
        return True

    def next(self):
        """The one whose turn it is, or None if nobody can take."""
        if self.alone is not None and self.alone.can_take():
            return self.alone
        if self.paused:
            return None
        self.alone = None
        for i in range(len(self.rings)):
            ring = self.rings[i]
            while ring.count > 0:
                subscriber = ring.peek()
                if not subscriber.waiting:
                    ring.pop()
                    self.left[i] -= 1
                    continue
                if subscriber.can_take():
                    if ring.count > 1:
                        ring.push(ring.pop())
                    return subscriber
                ring.pop()
                subscriber.park()
        return None

    def pause(self, paused):
        """Everybody keeps his place."""
        self.paused = paused
        self.alone = None
        if not paused and len(self.rings) == 1:
            ring = self.rings[0]
            first = ring.peek()
            if ring.count == 1 and first.waiting:
                self.alone = first
        return 0

    def remove(self, subscriber):
        """It keeps its place in the ring until half of the ring has left: when thousands go, each costs the same."""
        if not subscriber.waiting:
            return 0
        subscriber.waiting = False
        self.alone = None
        i = 0
        while self.priorities[i] != subscriber.priority:
            i += 1
        ring = self.rings[i]
        self.left[i] += 1
        if self.left[i] * 2 >= ring.count:
            self.left[i] = 0
            others = [other for other in ring.items() if other.waiting]
            ring.clear()
            for other in others:
                ring.push(other)
            if ring.count == 0:
                del self.rings[i]
                del self.priorities[i]
                del self.left[i]
        return 0
