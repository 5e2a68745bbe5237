"""Messages in order, handed to whoever's turn it is: what every classic queue does, with or without rules.

A pure machine: it changes only by the calls of the contract, and equal calls give equal state. It never reads a
clock, a disk or a socket; what it hands out goes into write buffers through its subscribers. A durable queue writes
what happens to its persistent messages into its queue log, and asks the paging context for what waits on disk."""

import cython

from leveret.core.queue.consumer_ring import ConsumerRing
from leveret.core.queue.contract import Queue
from leveret.core.queue.office import Office
from leveret.core.queue.ready import ReadyList

if not cython.compiled:
    from leveret.core.observe.meter import GIVEN_WORK
    from leveret.core.queue.contract import ACCEPTED, EMPTY, GIVEN, LATER, make_entry
    from leveret.core.queue.office import REJECTED

# So many are handed out in one go; the others in later turns.
GIVEN_A_STEP = 4096


class PlainQueue(Queue):
    __slots__ = (
        "awaiting",
        "by_priority",
        "delivered_total",
        "discarded_total",
        "get_empty_total",
        "got_no_ack_total",
        "got_total",
        "handed_total",
        "office",
        "paused",
        "published_total",
        "quarantined_total",
        "quick_total",
        "ready",
        "redelivered_total",
        "requeued_total",
        "consumer_ring",
        "settled_total",
        "paging_context",
        "tap",
        "unacked_bytes",
        "unacked_count",
        "waited_total",
        "has_rules",
        "withdrawn_total",
    )

    def __init__(self, name, record, single_active=False, paging_context=None, queue_log=None, lazy=False, office=None):
        Queue.__init__(self, name, record, single_active, queue_log)
        self.office = office if office is not None else Office()
        self.paging_context = paging_context
        self.ready = ReadyList(paging_context, queue_log, lazy)
        # Whether there is more to a message than its place: the queue has rules, or some message may expire.
        self.has_rules = False
        # True if messages are not handed out in the order of their positions.
        self.by_priority = False
        # Called once each when bodies have come from disk: gets that found none in memory.
        self.awaiting = None
        # Made with the first subscriber.
        self.consumer_ring = None
        # An operator wants that consumers get nothing; gets do.
        self.paused = False
        # Who watches what arrives; None if nobody does.
        self.tap = None
        self.unacked_count = 0
        self.unacked_bytes = 0
        self.published_total = 0
        self.delivered_total = 0
        self.redelivered_total = 0
        self.settled_total = 0
        self.requeued_total = 0
        self.discarded_total = 0
        # Of those that were delivered: without acks, and of these, those that were ready before.
        self.handed_total = 0
        self.waited_total = 0
        # Left in the millisecond they came in, and so not in the office's histogram.
        self.quick_total = 0
        # Of those that were delivered: by gets. And gets that found nothing.
        self.got_total = 0
        self.got_no_ack_total = 0
        self.get_empty_total = 0
        # What the broker itself took away.
        self.withdrawn_total = 0
        # What its file has in a damaged or unreadable record.
        self.quarantined_total = 0

    # ---- messages in

    def publish(self, message):
        if self.has_rules or message.properties.special:
            return self.publish_by_rules(message)
        return self.take_in(message)

    def publish_by_rules(self, message):
        """The same where there is more to it."""
        raise AssertionError("a queue with rules must say how it takes messages")

    def take_in(self, message):
        """To the consumer whose turn it is, if nothing waits before it and there is one; else to the tail."""
        self.published_total += 1
        if self.tap is not None:
            self.tap.see(message)
        if self.ready.count == 0 and self.consumer_ring is not None:
            subscriber = self.consumer_ring.next()
            if subscriber is not None:
                self.delivered_total += 1
                position = self.ready.skip()
                if subscriber.no_ack:
                    # Gone before it could be written.
                    self.settled_total += 1
                    self.handed_total += 1
                    subscriber.hand(message, False)
                else:
                    if self.owns(message):
                        self.queue_log.journal.keep(self.queue_log, message, position)
                    self.lend(subscriber, make_entry(message, position))
                return ACCEPTED
        self.push(message)
        return ACCEPTED

    def push(self, message):
        """At the tail, and into the log."""
        if self.owns(message):
            self.queue_log.journal.keep(self.queue_log, message, self.ready.next_position)
        return self.ready.push(message)

    def owns(self, message):
        """Whether the message has, or is to have, a record of this queue's own in the log."""
        return self.queue_log is not None and message.properties.persistent

    def keeps(self, message):
        return self.owns(message)

    # ---- messages out

    def lend(self, subscriber, entry):
        """The subscriber gets the entry and will settle it."""
        message = entry.message
        self.unacked_count += 1
        self.unacked_bytes += message.body_size
        subscriber.take(entry)
        if self.owns(message):
            if self.by_priority:
                self.queue_log.count(entry.position, entry.delivery_count + 1, message.location)
            else:
                self.queue_log.hand_out(entry.position, entry.delivery_count + 1, message.location)
            if self.paging_context.pressed and message.lone:
                # Sent, and on disk: should it come back, it can be read again.
                message.body = None
        return 0

    def give(self, subscriber):
        """Gives the next ready message, which is in memory, to a subscriber that can take it."""
        self.office.meter.spent += GIVEN_WORK
        self.delivered_total += 1
        if subscriber.no_ack:
            self.settled_total += 1
            self.handed_total += 1
            return self.give_for_good(subscriber)
        entry = self.ready.pop()
        if entry.seen:
            self.redelivered_total += 1
        return self.lend(subscriber, entry)

    def give_for_good(self, subscriber):
        self.waited_total += 1
        message = self.ready.pop_message()
        if message is not None:
            seen = self.ready.fresh.popped_position <= self.ready.seen_upto
            self.redelivered_total += seen
            self.note_wait(message)
            subscriber.hand(message, seen)
            if self.owns(message):
                self.queue_log.settle(self.ready.fresh.popped_position, message.location, message.body_size)
            return 0
        entry = self.ready.pop()
        message = entry.message
        self.redelivered_total += entry.seen
        self.note_wait(message)
        subscriber.hand(message, entry.seen)
        if self.owns(message):
            self.queue_log.settle(entry.position, message.location, message.body_size)
        return 0

    def dispatch(self):
        if self.has_rules:
            return self.dispatch_by_rules()
        if self.consumer_ring is None:
            return 0
        left = GIVEN_A_STEP
        while self.ready.count > 0:
            if left == 0:
                return self.office.go_on_later(self)
            left -= 1
            subscriber = self.consumer_ring.next()
            if subscriber is None:
                return 0
            if not self.ready.has_next():
                self.fetch()
                if not self.ready.has_next():
                    return 0
            self.give(subscriber)
        return 0

    def dispatch_by_rules(self):
        """The same where not everything may be handed out."""
        raise AssertionError("a queue with rules must say how it hands out")

    def get(self, getter):
        if self.ready.count == 0:
            self.get_empty_total += not getter.quiet
            return EMPTY
        if not self.ready.has_next():
            self.fetch()
            if not self.ready.has_next():
                return LATER
        if getter.quiet:
            self.lend_quietly(getter)
        else:
            self.count_get(getter)
            self.give(getter)
        return GIVEN

    def count_get(self, getter):
        if getter.no_ack:
            self.got_no_ack_total += 1
        else:
            self.got_total += 1
        return 0

    def lend_quietly(self, subscriber):
        """Like `give`, but nobody is to know: neither counters nor the log."""
        entry = self.ready.pop()
        self.unacked_count += 1
        self.unacked_bytes += entry.message.body_size
        return subscriber.take(entry)

    # ---- from disk

    def fetch(self):
        """Sees that the next messages come into memory."""
        self.ready.warm_up()
        if self.ready.wants_load():
            self.paging_context.want(self)
        return 0

    def take_load(self, journal):
        """For the loader: what it shall read for this queue, or None if nothing can be read now."""
        load = self.ready.take_load(journal)
        if load is None and (self.ready.has_next() or self.ready.count == 0):
            # Something came back meanwhile that is in memory and goes first, or all of it has left unread.
            self.stop_awaiting()
        return load

    def finish_load(self, load):
        """For the loader: what it has read."""
        if self.ready.finish_load(load):
            self.quarantined_total += len(load.lost)
            self.dispatch()
            if self.ready.has_next() or self.ready.count == 0:
                # Also if consumers took everything, or nothing of it could be read: then there is nothing to wait for.
                self.stop_awaiting()

    def await_load(self, call):
        """Calls back once the next message is in memory, or the queue is gone."""
        if self.awaiting is None:
            self.awaiting = []
        self.awaiting.append(call)

    def stop_awaiting(self):
        """Those who wait for a load look for themselves."""
        awaiting = self.awaiting
        self.awaiting = None
        if awaiting:
            for call in awaiting:
                call()

    def lacks_next(self):
        """For the loader: whether something is ready, but not in memory."""
        return self.ready.wants_load() and not self.ready.has_next()

    # ---- what became of them

    def leave(self, entry):
        self.unacked_count -= 1
        self.unacked_bytes -= entry.message.body_size
        entry.holder = None
        return 0

    def end(self, entry):
        """The message is done with."""
        self.leave(entry)
        if self.owns(entry.message):
            self.queue_log.settle(entry.position, entry.message.location, entry.message.body_size)
        elif entry.message.body is None:
            self.ready.forget_page(entry.message)
        return 0

    def page_entry(self, entry):
        return 0 if self.paging_context is None or self.deleted else self.ready.page_entry(entry)

    def settle(self, entry):
        self.note_wait(entry.message)
        self.end(entry)
        self.settled_total += 1
        return 0

    def note_wait(self, message):
        """The message was here from its arrival until now."""
        # Less than nothing if the clock was ahead before a restart.
        if self.office.now <= message.stamp:
            self.quick_total += 1
        else:
            self.office.waits.note(self.office.now - message.stamp)
        return 0

    def withdraw(self, entry):
        self.end(entry)
        self.withdrawn_total += 1
        return 0

    def discard(self, entry):
        self.end(entry)
        self.discarded_total += 1
        return self.office.lose(REJECTED)

    def requeue(self, entry):
        if self.deleted:
            return self.end(entry)
        self.leave(entry)
        entry.delivery_count += 1
        entry.seen = True
        self.requeued_total += 1
        self.ready.put_back(entry)
        return 0

    # ---- for statistics

    def unacked_total(self):
        return self.unacked_count

    def activity(self):
        # Everything that happens to a message is in one of these; what only the rules do comes from a subclass.
        return (
            self.published_total
            + self.delivered_total
            + self.settled_total
            + self.requeued_total
            + self.discarded_total
            + self.get_empty_total
            + self.withdrawn_total
            + self.quarantined_total
        )

    # ---- subscribers

    def subscribe(self, subscriber):
        if self.consumer_ring is None:
            self.consumer_ring = ConsumerRing(self.paused)
            # In order of their coming; a dict, because thousands may leave at once.
            self.subscribers = {}
        self.subscribers[subscriber] = True
        subscriber.active = not self.single_active or len(self.subscribers) == 1
        if subscriber.active:
            self.consumer_ring.add(subscriber)
            self.dispatch()

    def unsubscribe(self, subscriber):
        del self.subscribers[subscriber]
        self.consumer_ring.remove(subscriber)
        if not self.subscribers:
            self.consumer_ring = None
            self.subscribers = None
        elif self.single_active and subscriber.active:
            self.activate_next()

    def activate_next(self):
        """The active consumer has gone: the one that registered first takes over."""
        candidate = next(iter(self.subscribers))
        candidate.activity_changed(True)
        self.consumer_ring.add(candidate)
        return self.dispatch()

    def pause(self, paused):
        """Consumers get nothing until it is false again; everything else goes on."""
        self.paused = paused
        if self.consumer_ring is not None:
            self.consumer_ring.pause(paused)
            self.dispatch()

    def wake(self, subscriber):
        if subscriber.active and not subscriber.waiting and not self.deleted:
            self.consumer_ring.add(subscriber)
        return 0
