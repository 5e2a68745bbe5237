"""Messages of one queue in the hands of somebody who has no channel: what a request over HTTP has fetched.

Counts as delivered, like any get. The holder says which tag the next one gets, and settles by it. Never decides how
long something may be held; used by operations.http_leases."""

import cython

from leveret.core.queue.contract import Subscriber

if not cython.compiled:
    from leveret.core.codec.message import shown
    from leveret.core.connection.consumer import dressed, is_bare
    from leveret.core.queue.contract import GIVEN, LATER


class LeasedGet(Subscriber):
    def __init__(self, queue, no_ack):
        Subscriber.__init__(self)
        self.queue = queue
        self.no_ack = no_ack
        # Given to the next one.
        self.tag = 0
        # By tag, in the order they came.
        self.held = {}
        # The one that came last, as clients may see it. The body stands beside it: a queue that is short of memory
        # takes it off the message as soon as that was handed out.
        self.message = None
        self.body = None
        self.redelivered = False

    def can_take(self):
        return True

    def take(self, entry):
        entry.holder = self
        entry.tag = self.tag
        self.held[self.tag] = entry
        self.unacked_count += 1
        self.unacked_bytes += entry.message.body_size
        self.show(entry.message if is_bare(entry) else dressed(self.queue, entry), entry.seen)
        return 0

    def hand(self, message, redelivered):
        return self.show(shown(message) if message.properties.has_bcc else message, redelivered)

    def show(self, message, redelivered):
        self.message = message
        self.body = message.body
        self.redelivered = redelivered
        return 0

    def fetch(self, tag):
        """Asks the queue for one message: true if it came, false if there is none, None if it will come from disk."""
        self.tag = tag
        answer = self.queue.get(self)
        return None if answer == LATER else answer == GIVEN

    # ---- what becomes of it; false if it is not held

    def take_out(self, tag):
        entry = self.held.pop(tag, None)
        if entry is not None:
            self.unacked_count -= 1
            self.unacked_bytes -= entry.message.body_size
        return entry

    def settle(self, tag):
        entry = self.take_out(tag)
        if entry is None:
            return False
        self.queue.settle(entry)
        return True

    def discard(self, tag):
        """Rejected: dead-lettered, if the queue has a place for such."""
        entry = self.take_out(tag)
        if entry is None:
            return False
        self.queue.discard(entry)
        return True

    def requeue(self, tag):
        """Back to its old place; the queue's `dispatch` hands it out."""
        entry = self.take_out(tag)
        if entry is None:
            return False
        self.queue.requeue(entry)
        return True

    def collect_located(self, number, found):
        """Adds to `found` every message held whose record is in this segment, with how often that was handed out, by
        queue and position."""
        if self.queue.queue_log is None:
            return 0
        for entry in self.held.values():
            if entry.message.location >> 32 == number:
                found[(self.queue.queue_log.id, entry.position)] = (entry.message, entry.delivery_count + 1)
        return 0
