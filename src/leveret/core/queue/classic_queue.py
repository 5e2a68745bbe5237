"""The classic queue: the plain one, and what rules and messages may ask of it beyond.

Expiry, limits, dead letters, priorities, delays and deduplication. A queue without rules whose messages ask for nothing
never gets here: `has_rules` is false then, and the plain machine does everything. Messages leave at the head only, as
in RabbitMQ: one that has expired behind a live one waits until it is next. Nothing here reads a clock: the time is the
office's, and one alarm a queue wakes it when its head expires."""

import cython

from leveret.core.codec.field_types import Int64
from leveret.core.queue.dedup import digest_of, own_ttl_of
from leveret.core.queue.delays import Delays
from leveret.core.queue.leveled_queue import LeveledQueue
from leveret.core.queue.plain_queue import PlainQueue
from leveret.core.queue.rules import Rules

if not cython.compiled:
    from leveret.core.codec.message import make_message
    from leveret.core.codec.pure_octets import read_u64
    from leveret.core.log.slot_layout import SLOT_BYTES
    from leveret.core.queue.contract import ACCEPTED, EMPTY, KNOWN, LATER, REFUSED, make_entry
    from leveret.core.queue.office import DELIVERY_LIMIT, EXPIRED, MAXLEN, REJECTED
    from leveret.core.queue.plain_queue import GIVEN_A_STEP
    from leveret.core.queue.rules import DROP_HEAD, REJECT_AND_BURY

COUNT_HEADER = "x-delivery-count"
DELAYED = 1 << 63
# What nearly all queues live by; it never changes.
NO_RULES = Rules()
# How many messages may leave at the head before others have their turn.
SWEPT_A_STEP = 512


class ClassicQueue(LeveledQueue):
    __slots__ = (
        "alarm_at",
        "buried_total",
        "delays",
        "dropped_total",
        "expired_total",
        "expiring",
        "limited_total",
        "refused_total",
        "rejected_on_disk",
        "rules",
    )

    def __init__(
        self,
        name,
        record,
        single_active=False,
        paging_context=None,
        queue_log=None,
        lazy=False,
        office=None,
        priority_max=0,
        window=None,
    ):
        LeveledQueue.__init__(self, name, record, single_active, paging_context, queue_log, lazy, priority_max, office)
        self.rules = NO_RULES
        self.window = window
        # Whether there may be messages with an expiration of their own.
        self.expiring = False
        # Whether heads must be looked at: there are rules, or messages that expire.
        self.has_rules = priority_max > 0 or window is not None
        # When the head expires and the queue will be rung; 0 if it will not.
        self.alarm_at = 0
        # Messages that were rejected while only the disk had their bodies, by position.
        self.rejected_on_disk = None
        # Made with the first delayed message.
        self.delays = None
        self.expired_total = 0
        self.dropped_total = 0
        self.limited_total = 0
        self.refused_total = 0
        # Those of the above, and of the rejected, that went on to somewhere else.
        self.buried_total = 0

    def set_rules(self, rules, since=0):
        """Arguments or policies have changed: what is here is judged by the new rules at once, but for a time to live,
        which counts for what arrived since this moment."""
        rules.succeed(self.rules, since)
        self.rules = rules
        if self.ready.count > 0:
            self.has_rules = True
            self.dispatch()
        else:
            self.calm_down()

    # ---- messages in

    def publish_by_rules(self, message):
        if self.window is None:
            return self.receive(message)
        digest = digest_of(message.properties)
        if digest is None:
            return self.receive(message)
        if self.window.has(digest, self.office.now):
            return KNOWN
        answer = self.receive(message)
        if answer == ACCEPTED:
            properties = message.properties
            self.window.remember(digest, self.office.now, own_ttl_of(properties), properties.persistent)
        return answer

    def prepare(self, message, coming):
        if self.rules.overflow == DROP_HEAD:
            return True
        if self.window is not None:
            digest = digest_of(message.properties)
            if digest is not None and self.window.knows(digest, self.office.now):
                return True
        count, size = coming.get(self, (0, 0))
        if self.would_overflow(count, size + message.body_size):
            self.refused_total += 1
            return False
        coming[self] = (count + 1, size + message.body_size)
        return True

    def receive(self, message):
        rules = self.rules
        if rules.overflow != DROP_HEAD and not self.office.committing and self.would_overflow(0, message.body_size):
            self.refused_total += 1
            if rules.overflow == REJECT_AND_BURY and rules.buries:
                self.buried_total += 1
                self.office.post(self, rules, message, 0, MAXLEN, 0)
            return REFUSED
        if message.stamp <= self.office.now:
            return self.arrive(message)
        if rules.overflow == DROP_HEAD and self.is_full_of_delayed(message.body_size):
            return self.turn_away(message)
        return self.postpone(message)

    def is_full_of_delayed(self, size):
        """Whether no message of this size may be delayed any more: as many may wait as may be ready."""
        octets = 0 if self.delays is None else self.delays.slots.bytes_total
        return 0 <= self.rules.length_max <= self.delayed_count() or 0 <= self.rules.bytes_max < octets + size

    def turn_away(self, message):
        """Lets go of a message that was to be delayed, as if it were dropped: none that waits is at the head yet."""
        self.dropped_total += 1
        if not self.rules.buries:
            self.office.lose(MAXLEN)
            return ACCEPTED
        entry = make_entry(message, (self.ready if self.levels is None else self.levels.base).skip())
        if self.owns(message):
            # It is confirmed, so it must be somewhere until the letter is.
            self.queue_log.journal.keep(self.queue_log, message, entry.position)
        self.send_off(entry, MAXLEN)
        return ACCEPTED

    def would_overflow(self, others, size):
        """Whether one message more is too much: `size` octets with the `others` before it. What is delayed counts."""
        rules = self.rules
        if self.delays is not None:
            others += self.delays.slots.count
            size += self.delays.slots.bytes_total
        over = 0 <= rules.length_max < self.ready_total() + others + 1
        return over or 0 <= rules.bytes_max < self.ready_bytes_total() + size

    def arrive(self, message):
        """At the tail, whatever the limits: what is too much leaves at the head."""
        self.take_in(message)
        if self.ready.count == 0:
            return ACCEPTED
        if message.properties.ttl_ms >= 0:
            self.expiring = self.has_rules = True
        # Alone in its list it is the next one: its expiry counts, and consumers may wait for others to come from disk.
        if self.ready.count == 1 or self.is_over_limits():
            self.dispatch()
        return ACCEPTED

    def receive_again(self, message):
        if self.rules.overflow != DROP_HEAD and self.would_overflow(0, message.body_size):
            return self.receive(message)
        return self.arrive_again(message)

    def arrive_again(self, message):
        entry = make_entry(message, (self.ready if self.levels is None else self.levels.base).skip())
        entry.seen = True
        entry.delivery_count = 1
        if self.owns(message):
            self.queue_log.journal.keep(self.queue_log, message, entry.position)
            self.queue_log.count(entry.position, 1, message.location)
        if message.properties.ttl_ms >= 0:
            self.expiring = self.has_rules = True
        self.published_total += 1
        if self.tap is not None:
            self.tap.see(message)
        self.put_back(entry)
        self.dispatch()
        return ACCEPTED

    def postpone(self, message):
        if self.delays is None:
            self.delays = Delays(self, self.paging_context, self.queue_log, self.office)
        self.delays.add(message)
        return ACCEPTED

    # ---- messages out

    def dispatch_by_rules(self):
        if self.sweep() or self.consumer_ring is None:
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
            else:
                self.give(subscriber)
                self.step_down()
            if self.sweep():
                return 0
        return 0

    def get(self, getter):
        if self.has_rules and self.sweep():
            return LATER
        answer = PlainQueue.get(self, getter)
        self.step_down()
        if self.has_rules and answer != EMPTY:
            self.sweep()
        return answer

    # ---- what leaves at the head

    def is_over_limits(self):
        """Whether something must leave for others: a queue that refuses drops nothing, however much comes back."""
        rules = self.rules
        if rules.overflow != DROP_HEAD:
            return False
        if rules.length_max >= 0 and self.ready_total() > rules.length_max:
            return True
        return rules.bytes_max >= 0 and self.ready_bytes_total() > rules.bytes_max

    def sweep(self):
        """Lets go, from the head on, what has expired, is too much, or was handed out too often; then sets the alarm
        for the next one. Stops at the first message that may stay. True if it stopped before: then nobody may get the
        head, and the office calls again."""
        left = SWEPT_A_STEP
        while self.ready.count > 0:
            over = self.is_over_limits() and self.sentence() == 0
            if not self.ready.has_next():
                if over and not self.rules.buries and not self.ready.has_load():
                    self.ready.warm_up()
                    if not self.ready.has_next():
                        if left == 0:
                            self.office.go_on_later(self)
                            return True
                        left -= 1
                        self.dropped_total += 1
                        self.office.lose(MAXLEN)
                        self.ready.drop_next()
                        self.step_down()
                        continue
                if over or self.must_know_head():
                    self.fetch()
                    if self.ready.has_next():
                        continue
                return False
            # As in RabbitMQ, which looks at the limit before the expiry.
            reason = MAXLEN if over else self.verdict()
            if reason == 0:
                self.set_alarm()
                return False
            if left == 0 or self.office.is_full():
                self.office.go_on_later(self)
                return True
            left -= 1
            self.remove_head(reason)
        self.calm_down()
        return False

    def calm_down(self):
        """Nothing is ready: whether there is still something to look at depends on the rules alone."""
        self.expiring = False
        if self.unacked_count == 0 and self.rules.eras:
            # Everything from earlier times is gone.
            self.rules.eras = ()
        ruled = not self.rules.plain or self.rules.expires_some()
        self.has_rules = ruled or self.levels is not None or self.window is not None
        return 0

    def go_on(self):
        """For the office: the sweep that was interrupted. Gets may wait for its end."""
        if not self.deleted:
            self.dispatch()
            if self.awaiting is not None and self not in self.office.unfinished:
                self.stop_awaiting()

    def ring(self):
        """For the office: the alarm's time has come."""
        self.alarm_at = 0
        if not self.deleted:
            self.dispatch()

    def must_know_head(self):
        """Whether a head that is on disk must be read although nobody asks for it."""
        limited = self.rules.delivery_limit >= 0
        return self.expiring or self.rules.expires_some() or limited or self.rejected_on_disk is not None

    def expiry_of(self, message):
        """When this message expires here; 0 if it does not."""
        ttl_ms = message.properties.ttl_ms
        if self.rules.expires_some():
            of_queue = self.rules.ttl_at(message.stamp)
            if of_queue >= 0 and (ttl_ms < 0 or of_queue < ttl_ms):
                ttl_ms = of_queue
        return 0 if ttl_ms < 0 else message.stamp + ttl_ms

    def has_expired(self):
        """Whether the head has."""
        expiry = self.expiry_of(self.ready.next_message())
        return expiry != 0 and expiry <= self.office.now

    def sentence(self):
        """Why the head must leave for what became of it before, whether it is in memory or not; 0 if it need not."""
        entry = self.ready.next_returned()
        if entry is not None:
            if self.rejected_on_disk is not None and entry.position in self.rejected_on_disk:
                return REJECTED
            if self.rules.delivery_limit >= 0 and entry.delivery_count > self.rules.delivery_limit:
                return DELIVERY_LIMIT
        return 0

    def verdict(self):
        """Why the head must leave; 0 if it may stay."""
        reason = self.sentence()
        return EXPIRED if reason == 0 and self.has_expired() else reason

    def set_alarm(self):
        """The head may stay for now."""
        expiry = self.expiry_of(self.ready.next_message())
        if expiry != 0 and (self.alarm_at == 0 or expiry < self.alarm_at):
            self.alarm_at = expiry
            self.office.alarm(self, expiry)
        return 0

    def remove_head(self, reason):
        entry = self.ready.pop()
        self.step_down()
        if self.rejected_on_disk is not None:
            self.rejected_on_disk.pop(entry.position, None)
            self.rejected_on_disk = self.rejected_on_disk or None
        if reason == EXPIRED:
            self.expired_total += 1
        elif reason == MAXLEN:
            self.dropped_total += 1
        elif reason == DELIVERY_LIMIT:
            self.limited_total += 1
        return self.send_off(entry, reason)

    def send_off(self, entry, reason):
        """The message leaves this queue: as a letter, if the rules say so, else for good."""
        message = entry.message
        durable = self.owns(message)
        if self.rules.carries(reason):
            self.buried_total += 1
            position = entry.position if durable else 0
            return self.office.post(self, self.rules, message, position, reason, entry.delivery_count)
        self.office.lose(reason)
        if durable:
            self.queue_log.settle(entry.position, message.location, message.body_size)
        return 0

    def letter_sent(self, letter):
        if letter.position > 0:
            self.queue_log.settle(letter.position, letter.message.location, letter.message.body_size)
        return 0

    def dressed(self, entry):
        """With its count in a header, where that is limited."""
        message = entry.message
        if self.rules.delivery_limit < 0:
            return message
        headers = {**message.properties.headers(), COUNT_HEADER: Int64(entry.delivery_count)}
        return make_message(message.address, message.properties.replace({"headers": headers}), message.body)

    # ---- what became of them

    def discard(self, entry):
        if self.deleted or not self.rules.carries(REJECTED):
            return PlainQueue.discard(self, entry)
        self.leave(entry)
        entry.delivery_count += 1
        self.discarded_total += 1
        if entry.message.body is not None:
            return self.send_off(entry, REJECTED)
        # Only the disk has it: it waits at its old place until it was read.
        if self.rejected_on_disk is None:
            self.rejected_on_disk = {}
        self.rejected_on_disk[entry.position] = True
        self.has_rules = True
        self.put_back(entry)
        return self.fetch()

    def requeue(self, entry):
        if self.deleted:
            return self.end(entry)
        self.leave(entry)
        entry.delivery_count += 1
        entry.seen = True
        self.requeued_total += 1
        if entry.message.properties.ttl_ms >= 0:
            self.expiring = self.has_rules = True
        limit = self.rules.delivery_limit
        if limit >= 0 and entry.delivery_count > limit and entry.message.body is not None:
            self.limited_total += 1
            return self.send_off(entry, DELIVERY_LIMIT)
        return self.put_back(entry)

    def give_back(self, entry):
        if self.deleted:
            return self.end(entry)
        self.leave(entry)
        if entry.message.properties.ttl_ms >= 0:
            self.expiring = self.has_rules = True
        return self.put_back(entry)

    # ---- the log

    def restore(self, book, all_seen):
        ready = book.count
        while ready > 0 and read_u64(book.slots, (ready - 1) * SLOT_BYTES) >= DELAYED:
            ready -= 1
        self.restore_ready(book.slots, ready, book.next_position, all_seen)
        self.queue_log.live = book.count
        self.queue_log.handed = book.handed
        if book.handed > 0:
            self.queue_log.note_again(0)
        if ready < book.count or book.delay_sequence > 0:
            self.delays = Delays(self, self.paging_context, self.queue_log, self.office)
            self.delays.restore(book.slots, ready, book.count - ready, book.delay_sequence, all_seen)
        self.queue_log.live_bytes = self.ready_bytes_total()
        if self.delays is not None:
            self.queue_log.live_bytes += self.delays.slots.bytes_total
        if book.expiring:
            self.expiring = self.has_rules = True
        if self.has_rules and ready > 0:
            self.office.go_on_later(self)

    def has_load(self):
        return LeveledQueue.has_load(self) or (self.delays is not None and self.delays.has_load())

    def find_stored(self, position, location):
        if position >= DELAYED:
            return self.delays is not None and self.delays.find_stored(position, location)
        return LeveledQueue.find_stored(self, position, location)

    def move_stored(self, position, location, to, length):
        if position >= DELAYED:
            return self.delays.move_stored(position, to, length)
        return LeveledQueue.move_stored(self, position, location, to, length)

    def page_out(self, bytes_max):
        freed = LeveledQueue.page_out(self, bytes_max)
        if self.delays is not None and freed < bytes_max:
            freed += self.delays.page_out(bytes_max - freed)
        return freed

    # ---- control

    def activity(self):
        delayed = 0 if self.delays is None else self.delays.added_total + self.delays.cancelled_total
        left = self.expired_total + self.dropped_total + self.limited_total + self.refused_total
        return PlainQueue.activity(self) + left + delayed

    def delayed_count(self):
        return 0 if self.delays is None else self.delays.count

    def quarantined_count(self):
        """Messages that were given up because their records are damaged or cannot be read."""
        return self.quarantined_total + (0 if self.delays is None else self.delays.quarantined_total)

    def purge(self):
        self.rejected_on_disk = None
        return LeveledQueue.purge(self)

    def close(self):
        LeveledQueue.close(self)
        if self.alarm_at > 0:
            self.alarm_at = 0
            self.office.forget(self)
        if self.delays is not None:
            self.delays.close()
        if self.window is not None:
            self.window.close()
