"""The consuming side of one channel: delivery tags, what is unacked, prefetch, acks and transactions of them.

Holds the intake, the publishing side, as a part. Writes into the connection's outbox and calls queues; never closes
anything by itself: it raises, and the session closes."""

import cython

from leveret.core.late_tags import LateTags
from leveret.core.unacked import Unacked
from leveret.errors import HardError, SoftError

if not cython.compiled:
    from leveret.core.pure_octets import read_u64

    OPEN = 0
    CLOSING = 1
    CLOSED = 2

ACK = 0x003C0050
NACK = 0x003C0078
REJECT = 0x003C005A
TX_COMMIT = 0x005A0014

# What becomes of an unacked message
SETTLED = 0
DISCARDED = 1
REQUEUED = 2


class Channel:
    def __init__(self, number, outbox, intake, desk):
        self.number = number
        self.state = OPEN
        self.outbox = outbox
        self.intake = intake
        self.unacked = Unacked()
        # Consumer tag -> Consumer
        self.consumers = {}
        # Consumers that their queues found full; asked again whenever something is settled or sent.
        self.parked = []
        # False after channel.flow active=false: consumers get nothing until the client asks again.
        self.flowing = True
        self.last_tag = 0
        self.prefetch_count = 0
        self.prefetch_bytes = 0
        self.held_count = 0
        self.held_bytes = 0
        self.pending = None
        # The method that settles, for errors.
        self.settling = 0
        self.desk = desk
        self.delivered_total = 0
        self.acked_total = 0
        self.rejected_total = 0
        # Of those that were delivered: without acks, by gets, and not for the first time. And gets that found nothing.
        self.handed_total = 0
        self.got_total = 0
        self.got_no_ack_total = 0
        self.get_empty_total = 0
        self.redelivered_total = 0
        self.series = None
        self.sampled = 0
        # Tags that timed out; made with the first of them.
        self.late_tags = None
        # Deliveries that went back because nobody acknowledged them in time, and acks that came for them after all
        self.timed_out_total = 0
        self.late_acks_total = 0

    # ---- out

    def is_full(self):
        """Whether no consumer of this channel may get anything now, whatever its own limit."""
        if self.outbox.congested or not self.flowing or self.state != OPEN:
            return True
        if self.prefetch_count > 0 and self.held_count >= self.prefetch_count:
            return True
        return self.prefetch_bytes > 0 and self.held_bytes >= self.prefetch_bytes

    def hold(self, entry, holder):
        """The entry was sent with the newest tag and is unacked from now on."""
        entry.holder = holder
        entry.tag = self.last_tag
        self.unacked.add(entry)
        holder.unacked_count += 1
        holder.unacked_bytes += entry.message.body_size
        if holder.metered:
            self.held_count += 1
            self.held_bytes += entry.message.body_size
        return 0

    def activity(self):
        """A number that grows with everything that happens here."""
        return (
            self.delivered_total
            + self.acked_total
            + self.rejected_total
            + self.get_empty_total
            + self.intake.published_total
            + self.intake.confirmed_total
        )

    # ---- acks from the client

    def ack(self, p, at, end):
        if end - at != 9:
            raise HardError(501, "basic.ack has the wrong length", ACK)
        return self.settle(read_u64(p, at), p[at + 8] & 1, SETTLED, ACK)

    def nack(self, p, at, end):
        if end - at != 9:
            raise HardError(501, "basic.nack has the wrong length", NACK)
        return self.settle(read_u64(p, at), p[at + 8] & 1, REQUEUED if p[at + 8] & 2 else DISCARDED, NACK)

    def reject(self, p, at, end):
        if end - at != 9:
            raise HardError(501, "basic.reject has the wrong length", REJECT)
        return self.settle(read_u64(p, at), False, REQUEUED if p[at + 8] & 1 else DISCARDED, REJECT)

    def settle(self, tag, multiple, verdict, method):
        self.settling = method
        if self.pending is None and not multiple:
            # The common case by far: one message, at once.
            entry = self.unacked.take(tag)
            if entry is None:
                if self.late_tags is None or not self.late_tags.has(tag):
                    raise SoftError(406, f"unknown delivery tag {tag}", method)
                self.late_acks_total += self.late_tags.excuse(tag, False, False)
                return 0
            queue = self.judge_one(entry, verdict)
            if self.parked:
                self.unpark()
            if verdict == REQUEUED:
                queue.dispatch()
            return 0
        entries = self.collect(tag, multiple, method)
        if self.pending is not None:
            if entries:
                self.pending.append((entries, verdict))
            return 0
        return self.judge(entries, verdict)

    def collect(self, tag, multiple, method):
        """Takes out what an ack names. Tag 0 with multiple is everything; any other tag must be outstanding, or have
        timed out: then the ack counts for the rest."""
        if multiple and tag == 0:
            tag = self.last_tag
        elif self.unacked.find(tag) < 0 and (self.late_tags is None or not self.late_tags.has(tag)):
            raise SoftError(406, f"unknown delivery tag {tag}", method)
        if self.late_tags is not None:
            self.late_acks_total += self.late_tags.excuse(tag, multiple, self.pending is not None)
        if multiple:
            return self.take_upto(tag)
        entry = self.unacked.take(tag)
        return [] if entry is None else [entry]

    def take_upto(self, tag):
        entries = []
        entry = self.unacked.take_first(tag)
        while entry is not None:
            entries.append(entry)
            entry = self.unacked.take_first(tag)
        return entries

    def judge(self, entries, verdict):
        """Settles many; queues that got something back hand it out only after all of it is back."""
        touched = []
        if verdict != SETTLED and self.state == OPEN:
            queue = self.refusing(entries)
            if queue is not None:
                # None goes back before the channel closes, and then all of them.
                self.unacked.restore(entries)
                queue.refuse_return(self.settling)
        for entry in entries:
            queue = self.judge_one(entry, verdict)
            if verdict == REQUEUED and (not touched or touched[len(touched) - 1] is not queue):
                touched.append(queue)
        if self.parked:
            self.unpark()
        for i in range(len(touched)):
            queue = touched[i]
            queue.dispatch()
        return 0

    def refusing(self, entries):
        """The queue of one of these that takes nothing back, or None."""
        for entry in entries:
            queue = entry.holder.queue
            if queue.ack_only and not queue.deleted:
                return queue
        return None

    def judge_one(self, entry, verdict):
        holder = entry.holder
        queue = holder.queue
        holder.unacked_count -= 1
        holder.unacked_bytes -= entry.message.body_size
        if holder.metered:
            self.held_count -= 1
            self.held_bytes -= entry.message.body_size
        if verdict == SETTLED:
            self.acked_total += 1
            queue.settle(entry)
        elif queue.ack_only:
            if self.state == OPEN:
                queue.refuse_return(self.settling)
        elif verdict == DISCARDED:
            self.rejected_total += 1
            queue.discard(entry)
        else:
            queue.requeue(entry)
        return queue

    # ---- readiness

    def unpark(self):
        """Something was settled, sent or allowed: consumers that can take again are put back into their queues."""
        woken = []
        self.collect_able(woken)
        wake(woken)

    def collect_able(self, woken):
        """Takes those who can take again off the parked list."""
        parked = self.parked
        self.parked = []
        for subscriber in parked:
            if subscriber.can_take():
                woken.append(subscriber)
            else:
                self.parked.append(subscriber)
        return 0

    # ---- for the session

    def add_consumer(self, consumer):
        self.consumers[consumer.tag] = consumer

    def remove_consumer(self, tag):
        """Takes the consumer out of its queue; what it holds stays with the channel."""
        consumer = self.consumers.pop(tag, None)
        if consumer is not None:
            # A closing channel wakes nobody and forgets them all at its end.
            if self.state == OPEN and consumer in self.parked:
                self.parked.remove(consumer)
            if not consumer.queue.deleted:
                consumer.queue.unsubscribe(consumer)
        return consumer

    def check_recovery(self, method):
        """Raises if something unacked cannot go back."""
        queue = self.refusing(self.unacked.entries())
        if queue is not None:
            queue.refuse_return(method)

    def recover(self):
        """basic.recover: everything unacked goes back to where it was; acks of an open transaction stay with it."""
        self.judge(self.take_upto(self.last_tag), REQUEUED)

    def time_out(self, entries):
        """Nobody has acknowledged these in time: they go back, and their tags are kept for acks that still come."""
        if self.late_tags is None:
            self.late_tags = LateTags()
        for entry in entries:
            self.unacked.take(entry.tag)
            self.late_tags.add(entry.tag)
        self.timed_out_total += len(entries)
        self.judge(entries, REQUEUED)

    def requeue_all(self):
        """The channel closes: everything it ever held goes back, what a transaction had not committed included."""
        entries = self.take_upto(self.last_tag)
        if self.pending:
            for held, _ in self.pending:
                entries.extend(held)
            self.pending = []
        self.judge(entries, REQUEUED)

    def start_transaction(self):
        if self.pending is None:
            self.pending = []
            self.intake.start_transaction()

    def commit(self):
        """Publishes and acks of the transaction take effect together."""
        pending = self.pending
        self.pending = []
        if self.late_tags is not None:
            self.late_tags.commit()
        whole = self.intake.commit()
        self.settling = TX_COMMIT
        for entries, verdict in pending:
            self.judge(entries, verdict)
        if not whole:
            raise SoftError(406, "partial tx completion", TX_COMMIT)

    def rollback(self):
        for entries, _ in self.pending:
            self.unacked.restore(entries)
        self.pending = []
        if self.late_tags is not None:
            self.late_tags.rollback()
        self.intake.rollback()

    def collect_located(self, number, found):
        """Adds to `found` every unacked message whose record is in this segment, with how often it was handed out, by
        queue and position."""
        collect_located(self.unacked.slots, number, found)
        if self.pending:
            for entries, _ in self.pending:
                collect_located(entries, number, found)

    def start_closing(self):
        """channel.close was sent: nothing but its answer counts from now on."""
        self.state = CLOSING

    def close(self):
        self.state = CLOSED
        self.parked = []


def collect_located(entries, number, found):
    for entry in entries:
        if entry is not None and entry.message.location >> 32 == number:
            queue = entry.holder.queue
            if queue.ledger is not None:
                found[(queue.ledger.id, entry.position)] = (entry.message, entry.delivery_count + 1)
    return 0


def waited_of(subscriber):
    return -subscriber.waited


def wake(woken):
    """Puts subscribers back into their queues and lets those hand out: not before all are back, or the first would
    get everything and a higher priority would come too late; and those who got nothing the last times come first,
    because what they share, a channel's prefetch or a connection's outbox, may be full again after one message."""
    if len(woken) == 1:
        subscriber = woken[0]
        queue = subscriber.queue
        queue.wake(subscriber)
        return queue.dispatch()
    for subscriber in woken:
        subscriber.waited += 1
    woken.sort(key=waited_of)
    for subscriber in woken:
        queue = subscriber.queue
        queue.wake(subscriber)
    for subscriber in woken:
        # Asking a queue twice does no harm: the second time there is nothing to hand out.
        queue = subscriber.queue
        queue.dispatch()
    return 0
