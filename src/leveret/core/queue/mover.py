"""The broker's own hand in a queue: takes messages to look at them, settles some and puts the others back unnoticed.

What it takes does not count as delivered, neither in counters nor in the log, and what it puts back is where and as it
was. It may hold a great many meanwhile, so it lets go of bodies that the disk has. Used by whoever moves messages from
queue to queue; never decides which, and never publishes."""

import cython

from leveret.core.queue.contract import Subscriber

if not cython.compiled:
    from leveret.core.queue.contract import EMPTY, LATER


class Mover(Subscriber):
    def __init__(self, queue):
        Subscriber.__init__(self)
        self.queue = queue
        self.quiet = True
        # The one that was taken last, until it is settled or kept.
        self.taken = None
        # Those to be put back, in the order they were taken; the first so many are back already.
        self.kept = []
        self.returned_count = 0
        # Those that are being written elsewhere: settled all together when that is durable, or else kept.
        self.held = []

    def can_take(self):
        return True

    def take(self, entry):
        self.taken = entry
        return 0

    def fetch(self):
        """Asks the queue for its next message: true if it is in `taken`, false if there is none, None if it must come
        from disk first (the queue's `await_load`)."""
        answer = self.queue.get(self)
        return None if answer == LATER else answer != EMPTY

    def settle(self):
        """What was taken is done with."""
        entry = self.taken
        self.taken = None
        return self.queue.withdraw(entry)

    def keep(self):
        """What was taken will be put back later."""
        self.kept.append(self.lighten())
        return 0

    def hold(self):
        """What was taken is being written elsewhere: `settle_held` or `keep_held` ends that. Whoever writes it has its
        body."""
        self.held.append(self.lighten())
        return 0

    def settle_held(self):
        """All that was held is durable elsewhere and done with; how many that were."""
        held = self.held
        self.held = []
        for entry in held:
            self.queue.withdraw(entry)
        return len(held)

    def keep_held(self):
        """Nothing that was held counts as written: it will be put back later. How many that are."""
        count = len(self.held)
        self.kept.extend(self.held)
        self.held = []
        return count

    def lighten(self):
        """What was taken, without what can be had again."""
        entry = self.taken
        self.taken = None
        message = entry.message
        # Looking at them has decoded them, which takes ten times the memory.
        message.properties.cached_headers = None
        if self.queue.keeps(message) and message.lone:
            message.body = None
        return entry

    def put_back(self, count):
        """Puts back up to so many of those that were kept; true if that was the last of them."""
        self.give_back_taken()
        end = len(self.kept)
        # Not added first: the count may be the highest number there is.
        if count < end - self.returned_count:
            end = self.returned_count + count
        while self.returned_count < end:
            entry = self.kept[self.returned_count]
            self.kept[self.returned_count] = None
            self.returned_count += 1
            self.queue.give_back(entry)
        if self.returned_count < len(self.kept):
            return False
        self.kept = []
        self.returned_count = 0
        return True

    def give_back_taken(self):
        """What was taken last goes back at once: it was not meant."""
        entry = self.taken
        self.taken = None
        return 0 if entry is None else self.queue.give_back(entry)

    def kept_count(self):
        return len(self.kept) - self.returned_count

    def held_count(self):
        return len(self.held)

    def collect_located(self, number, found):
        """Adds to `found` every message it has whose record is in this segment, with how often that was handed out, by
        queue and position."""
        if self.queue.queue_log is None:
            return 0
        for entry in [*self.kept, *self.held, self.taken]:
            if entry is not None and entry.message.location >> 32 == number:
                found[(self.queue.queue_log.id, entry.position)] = (entry.message, entry.delivery_count)
        return 0
