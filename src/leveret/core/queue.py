"""The classic queue: messages in order, handed to whoever's turn it is.

A pure machine: it changes only by the calls of the contract, and equal calls give equal state. It never reads a
clock, a disk or a socket; what it hands out goes into outboxes through its subscribers."""

import cython

from leveret.core.contract import Queue
from leveret.core.ready import ReadyList
from leveret.core.rota import Rota

if not cython.compiled:
    from leveret.core.contract import ACCEPTED, make_entry


class ClassicQueue(Queue):
    __slots__ = (
        "delivered_total",
        "discarded_total",
        "published_total",
        "ready",
        "redelivered_total",
        "requeued_total",
        "rota",
        "settled_total",
        "unacked_bytes",
        "unacked_count",
    )

    def __init__(self, name, record, single_active=False):
        Queue.__init__(self, name, record, single_active)
        self.ready = ReadyList()
        # Made with the first subscriber.
        self.rota = None
        self.unacked_count = 0
        self.unacked_bytes = 0
        self.published_total = 0
        self.delivered_total = 0
        self.redelivered_total = 0
        self.settled_total = 0
        self.requeued_total = 0
        self.discarded_total = 0

    # ---- messages in

    def publish(self, message):
        self.published_total += 1
        if self.ready.count == 0 and self.rota is not None:
            subscriber = self.rota.next()
            if subscriber is not None:
                self.delivered_total += 1
                if subscriber.no_ack:
                    self.ready.skip()
                    self.settled_total += 1
                    subscriber.hand(message, False)
                else:
                    self.lend(subscriber, make_entry(message, self.ready.skip()))
                return ACCEPTED
        self.ready.push(message)
        return ACCEPTED

    # ---- messages out

    def lend(self, subscriber, entry):
        """The subscriber gets the entry and will settle it."""
        self.unacked_count += 1
        self.unacked_bytes += len(entry.message.body)
        return subscriber.take(entry)

    def give(self, subscriber):
        """Gives the next ready message to a subscriber that can take it."""
        self.delivered_total += 1
        if subscriber.no_ack:
            self.settled_total += 1
            message = self.ready.pop_message()
            if message is not None:
                return subscriber.hand(message, False)
            entry = self.ready.pop()
            self.redelivered_total += 1
            return subscriber.hand(entry.message, True)
        entry = self.ready.pop()
        if entry.delivery_count > 0:
            self.redelivered_total += 1
        return self.lend(subscriber, entry)

    def dispatch(self):
        if self.rota is None:
            return 0
        while self.ready.count > 0:
            subscriber = self.rota.next()
            if subscriber is None:
                break
            self.give(subscriber)
        return 0

    def get(self, getter):
        if self.ready.count == 0:
            return 0
        self.give(getter)
        return 1

    # ---- what became of them

    def leave(self, entry):
        self.unacked_count -= 1
        self.unacked_bytes -= len(entry.message.body)
        entry.holder = None
        return 0

    def settle(self, entry):
        self.leave(entry)
        self.settled_total += 1
        return 0

    def discard(self, entry):
        self.leave(entry)
        self.discarded_total += 1
        return 0

    def requeue(self, entry):
        self.leave(entry)
        if not self.deleted:
            entry.delivery_count += 1
            self.requeued_total += 1
            self.ready.put_back(entry)
        return 0

    # ---- subscribers

    def subscribe(self, subscriber):
        if self.rota is None:
            self.rota = Rota()
            # In order of their coming; a dict, because thousands may leave at once.
            self.subscribers = {}
        self.subscribers[subscriber] = True
        subscriber.active = not self.single_active or len(self.subscribers) == 1
        if subscriber.active:
            self.rota.add(subscriber)
            self.dispatch()

    def unsubscribe(self, subscriber):
        del self.subscribers[subscriber]
        self.rota.remove(subscriber)
        if not self.subscribers:
            self.rota = None
            self.subscribers = None
        elif self.single_active and subscriber.active:
            self.activate_next()

    def activate_next(self):
        """The active consumer has gone: the one that registered first takes over."""
        candidate = next(iter(self.subscribers))
        candidate.activity_changed(True)
        self.rota.add(candidate)
        return self.dispatch()

    def wake(self, subscriber):
        if subscriber.active and not subscriber.waiting and not self.deleted:
            self.rota.add(subscriber)
        return 0

    # ---- control

    def ready_count(self):
        return self.ready.count

    def ready_bytes(self):
        return self.ready.bytes

    def ready_entries(self):
        """What is ready, in the order of delivery, for people who look; the list is a copy."""
        return self.ready.entries()

    def purge(self):
        count = self.ready.count
        self.ready.clear()
        self.discarded_total += count
        return count

    def close(self):
        self.deleted = True
        self.ready.clear()
