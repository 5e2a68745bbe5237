"""The consuming side of one channel: delivery tags, what is unacked, prefetch, acks and transactions of them.

Holds the publish path, the publishing side, as a part. Writes into the connection's write buffer and calls queues;
never closes anything by itself: it raises, and the session closes."""

import cython

from leveret.core.connection.late_tags import LateTags
from leveret.core.connection.unacked import Unacked
from leveret.errors import HardError, SoftError

if not cython.compiled:
    from leveret.core.codec.method_ids import ACK, NACK, REJECT, TX_COMMIT
    from leveret.core.codec.pure_octets import read_u64
    from leveret.core.connection.transaction import too_much_work
    from leveret.core.observe.meter import SETTLED_WORK

    OPEN = 0
    CLOSING = 1
    CLOSED = 2


# What becomes of an unacked message
SETTLED = 0
DISCARDED = 1
REQUEUED = 2
# So many are settled or given back in one go; the others in later turns.
SETTLED_A_STEP = 8192


class Channel:
    def __init__(self, number, write_buffer, publish_path, channel_session):
        self.number = number
        self.state = OPEN
        self.write_buffer = write_buffer
        self.publish_path = publish_path
        self.unacked = Unacked()
        # Consumer tag -> Consumer
        self.consumers = {}
        # Consumers that their queues found full; asked again whenever something is settled or sent.
        self.parked = []
        # False after channel.flow active=false: consumers get nothing until the client asks again.
        self.flowing = True
        self.last_tag = 0
        # Bodies of messages with higher tags are not let go yet when memory is short.
        self.paged_upto = 0
        self.prefetch_count = 0
        self.prefetch_bytes = 0
        self.held_count = 0
        self.held_bytes = 0
        self.pending = None
        # The method that settles, for errors.
        self.settling = 0
        # Up to which tag an ack of many is still to be done, 0 if none is, and what it says.
        self.settled_upto = 0
        self.verdict = 0
        # What a closed channel has not given back yet, last first; None if it has.
        self.returning = None
        self.channel_session = channel_session
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
        """Whether no consumer of this channel may get anything now, whatever its own limit. Consumers without acks use
        nothing of the channel's prefetch, but wait like the others while it is used up, as RabbitMQ's do."""
        if self.write_buffer.congested or not self.flowing or self.state != OPEN:
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
            + self.publish_path.published_total
            + self.publish_path.confirmed_total
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
        tag = self.named(tag, multiple, method)
        if self.pending is None:
            return self.settle_upto(tag, verdict)
        if multiple:
            entries = self.take_upto(tag, self.unacked.count)
        else:
            entry = self.unacked.take(tag)
            entries = [] if entry is None else [entry]
        return self.settle_later(entries, verdict, method)

    def settle_later(self, entries, verdict, method):
        """When the transaction is committed."""
        work_max = self.publish_path.transaction_work_max
        if 0 < work_max < self.publish_path.pending_work + len(entries):
            self.unacked.restore(entries)
            raise too_much_work(method, work_max)
        if entries:
            self.publish_path.pending_work += len(entries)
            self.pending.append((entries, verdict))
        return 0

    def named(self, tag, multiple, method):
        """The tag up to which an ack counts, or the only one. Tag 0 with multiple is everything; any other tag must be
        outstanding, or have timed out: then the ack counts for the rest."""
        if multiple and tag == 0:
            tag = self.last_tag
        elif self.unacked.find(tag) < 0 and (self.late_tags is None or not self.late_tags.has(tag)):
            raise SoftError(406, f"unknown delivery tag {tag}", method)
        if self.late_tags is not None:
            self.late_acks_total += self.late_tags.excuse(tag, multiple, self.pending is not None)
        return tag

    def settle_upto(self, tag, verdict):
        """Settles everything up to this tag; if that is much, `settled_upto` says that it is not done."""
        self.settled_upto = tag
        self.verdict = verdict
        return self.go_on_settling()

    def go_on_settling(self):
        tag = self.settled_upto
        # Not before all is done, but should a queue refuse, nothing is to be gone on with.
        self.settled_upto = 0
        entries = self.take_upto(tag, SETTLED_A_STEP)
        self.judge(entries, self.verdict)
        if len(entries) == SETTLED_A_STEP:
            self.settled_upto = tag
        return 0

    def take_upto(self, tag, count_max):
        """The oldest ones up to this tag, at most so many."""
        entries = []
        while len(entries) < count_max:
            entry = self.unacked.take_first(tag)
            if entry is None:
                break
            entries.append(entry)
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
        self.publish_path.office.meter.spent += SETTLED_WORK * len(entries)
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
        """basic.recover: everything unacked goes back to where it was; acks of an open transaction stay with it. If
        that is much, `settled_upto` says that it is not done."""
        self.settle_upto(self.last_tag, REQUEUED)

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
        """The channel closes: everything it ever held goes back, what a transaction had not committed included; many in
        later turns, by the office."""
        while self.settled_upto > 0:
            # The client has settled these.
            self.go_on_settling()
        entries = self.take_upto(self.last_tag, self.unacked.count)
        if self.pending:
            for held, _ in self.pending:
                entries.extend(held)
            self.pending = []
        if len(entries) > SETTLED_A_STEP:
            entries.reverse()
            self.returning = entries
            self.publish_path.office.returning[self] = True
            self.go_on()
        else:
            self.judge(entries, REQUEUED)

    def go_on(self):
        """For the office: gives back the next ones."""
        entries = self.returning[-SETTLED_A_STEP:]
        entries.reverse()
        del self.returning[-SETTLED_A_STEP:]
        self.judge(entries, REQUEUED)
        if self.returning:
            self.publish_path.office.go_on_later(self)
        else:
            self.returning = None
            del self.publish_path.office.returning[self]

    def start_transaction(self):
        if self.pending is None:
            self.pending = []
            self.publish_path.start_transaction()

    def commit(self):
        """Publishes and acks of the transaction take effect together, in one batch of the log, or none of them does:
        everything that could refuse any of it is asked first."""
        pending = self.pending
        for entries, verdict in pending:
            queue = self.refusing(entries) if verdict != SETTLED else None
            if queue is not None:
                queue.refuse_return(TX_COMMIT)
        if not self.publish_path.fits_log():
            raise SoftError(406, "transaction not committed, none of it took effect: it is too large", TX_COMMIT)
        queue = self.publish_path.prepare()
        if queue is not None:
            raise SoftError(406, f"transaction not committed, none of it took effect: {full(queue)}", TX_COMMIT)
        self.pending = []
        if self.late_tags is not None:
            self.late_tags.commit()
        self.publish_path.commit_prepared()
        self.settling = TX_COMMIT
        for entries, verdict in pending:
            self.judge(entries, verdict)

    def rollback(self):
        for entries, _ in self.pending:
            self.unacked.restore(entries)
        self.pending = []
        if self.late_tags is not None:
            self.late_tags.rollback()
        self.publish_path.rollback()

    def page_out(self, bytes_max):
        """Memory is short: lets bodies go that the client has had since the last time this was asked for, which was not
        just now: most messages are acknowledged soon."""
        freed = self.unacked.page_out(bytes_max, self.paged_upto)
        if freed < bytes_max:
            self.paged_upto = self.last_tag
        return freed

    def collect_located(self, number, found):
        """Adds to `found` every unacked message whose record is in this segment, with how often it was handed out, by
        queue and position."""
        collect_located(self.unacked.slots, number, found)
        if self.pending:
            for entries, _ in self.pending:
                collect_located(entries, number, found)
        if self.returning is not None:
            collect_located(self.returning, number, found)

    def start_closing(self):
        """channel.close was sent: nothing but its answer counts from now on."""
        self.state = CLOSING

    def close(self):
        self.state = CLOSED
        self.parked = []


def full(queue):
    record = queue.record
    where = "" if record is None else f" in vhost '{record.vhost}'"
    return f"queue '{queue.name.decode('utf-8', 'replace')}'{where} is full and refuses messages (x-overflow)"


def collect_located(entries, number, found):
    for entry in entries:
        if entry is not None and entry.message.location >> 32 == number:
            queue = entry.holder.queue
            if queue.queue_log is not None:
                found[(queue.queue_log.id, entry.position)] = (entry.message, entry.delivery_count + 1)
    return 0


def waited_of(subscriber):
    return -subscriber.waited


def wake(woken):
    """Puts subscribers back into their queues and lets those hand out: not before all are back, or the first would
    get everything and a higher priority would come too late; and those who got nothing the last times come first,
    because what they share, a channel's prefetch or a connection's write buffer, may be full again after one
    message."""
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
