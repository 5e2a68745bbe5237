"""The classic queue: the plain one, and what rules and messages may ask of it beyond.

Expiry, limits, dead letters, priorities, delays and deduplication. A queue without rules whose messages ask for nothing
never gets here: `watchful` is false then, and the plain machine does everything. Messages leave at the head only, as
in RabbitMQ: one that has expired behind a live one waits until it is next. Nothing here reads a clock: the time is the
office's, and one alarm a queue wakes it when its head expires."""

import cython

from leveret.core.dedup import digest_of, own_ttl_of
from leveret.core.delays import Delays
from leveret.core.levels import Levels
from leveret.core.office import Office
from leveret.core.plain_queue import PlainQueue
from leveret.core.rules import Rules

if not cython.compiled:
    from leveret.core.contract import ACCEPTED, EMPTY, KNOWN, REFUSED
    from leveret.core.office import DELIVERY_LIMIT, EXPIRED, MAXLEN, REJECTED
    from leveret.core.pure_octets import read_u64
    from leveret.core.rules import DROP_HEAD, REJECT_AND_BURY

SLOT_BYTES = 32
DELAYED = 1 << 63
# How many messages may leave at the head before others have their turn.
SWEPT_A_STEP = 512


class ClassicQueue(PlainQueue):
    __slots__ = (
        "alarm_at",
        "buried_total",
        "delays",
        "doomed",
        "dropped_total",
        "expired_total",
        "expiring",
        "levels",
        "limited_total",
        "office",
        "refused_total",
        "rules",
        "watchful",
    )

    def __init__(
        self,
        name,
        record,
        single_active=False,
        shelf=None,
        ledger=None,
        lazy=False,
        office=None,
        priority_max=0,
        window=None,
    ):
        PlainQueue.__init__(self, name, record, single_active, shelf, ledger, lazy)
        self.office = office if office is not None else Office()
        self.rules = Rules()
        self.levels = None
        if priority_max > 0:
            self.levels = Levels(self.ready, priority_max, shelf, ledger, lazy)
            self.by_priority = True
        self.window = window
        # Whether there may be messages with an expiration of their own.
        self.expiring = False
        # Whether heads must be looked at: there are rules, or messages that expire.
        self.watchful = priority_max > 0 or window is not None
        # When the head expires and the queue will be rung; 0 if it will not.
        self.alarm_at = 0
        # Messages that were rejected while only the disk had their bodies, by position.
        self.doomed = None
        # Made with the first delayed message.
        self.delays = None
        self.expired_total = 0
        self.dropped_total = 0
        self.limited_total = 0
        self.refused_total = 0
        # Those of the above, and of the rejected, that went on to somewhere else.
        self.buried_total = 0

    def set_rules(self, rules):
        """Arguments or policies have changed: what is here is judged by the new rules at once."""
        self.rules = rules
        self.watchful = True
        if self.ready.count > 0:
            self.dispatch()

    # ---- messages in

    def publish(self, message):
        if self.watchful or message.properties.special:
            return self.publish_by_rules(message)
        return PlainQueue.publish(self, message)

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
            self.window.remember(digest, self.office.now, own_ttl_of(message.properties))
        return answer

    def receive(self, message):
        if self.rules.overflow != DROP_HEAD and self.would_overflow(message.body_size):
            self.refused_total += 1
            if self.rules.overflow == REJECT_AND_BURY and self.rules.buries:
                self.buried_total += 1
                self.office.post(self, self.rules, message, 0, MAXLEN, 0)
            return REFUSED
        if message.stamp > self.office.now:
            return self.postpone(message)
        return self.arrive(message)

    def would_overflow(self, size):
        rules = self.rules
        if rules.length_max >= 0 and self.ready_total() + 1 > rules.length_max:
            return True
        return rules.bytes_max >= 0 and self.ready_bytes_total() + size > rules.bytes_max

    def arrive(self, message):
        """At the tail, whatever the limits: what is too much leaves at the head."""
        if self.levels is None:
            PlainQueue.publish(self, message)
        else:
            self.published_total += 1
            if self.ready.count > 0 or self.rota is None or not self.hand_straight(message):
                self.push_to_level(message)
        if self.ready.count == 0:
            return ACCEPTED
        if message.properties.ttl_ms >= 0:
            self.expiring = self.watchful = True
        # Alone in its list it is the next one, so its expiry counts.
        if self.ready.count == 1 or self.is_over_limits():
            self.sweep()
        return ACCEPTED

    def push_to_level(self, message):
        if self.ledger is not None and message.properties.persistent:
            self.ledger.journal.keep(self.ledger, message, self.levels.base.next_position)
        self.levels.push(message)
        self.ready = self.levels.top()
        return 0

    def postpone(self, message):
        if self.delays is None:
            self.delays = Delays(self, self.shelf, self.ledger, self.office)
        self.delays.add(message)
        return ACCEPTED

    # ---- messages out

    def give(self, subscriber):
        PlainQueue.give(self, subscriber)
        if self.levels is not None and self.ready.count == 0:
            self.ready = self.levels.top()
        return 0

    def dispatch(self):
        if not self.watchful:
            return PlainQueue.dispatch(self)
        self.sweep()
        if self.rota is None:
            return 0
        while self.ready.count > 0:
            subscriber = self.rota.next()
            if subscriber is None:
                return 0
            if not self.ready.has_next():
                self.fetch()
                if not self.ready.has_next():
                    return 0
                self.sweep()
                continue
            self.give(subscriber)
            self.sweep()
        return 0

    def get(self, getter):
        if self.watchful:
            self.sweep()
        answer = PlainQueue.get(self, getter)
        if self.watchful and answer != EMPTY:
            self.sweep()
        return answer

    def lend_quietly(self, subscriber):
        PlainQueue.lend_quietly(self, subscriber)
        return self.step_down()

    # ---- what leaves at the head

    def is_over_limits(self):
        rules = self.rules
        if rules.length_max >= 0 and self.ready_total() > rules.length_max:
            return True
        return rules.bytes_max >= 0 and self.ready_bytes_total() > rules.bytes_max

    def ready_total(self):
        return self.ready.count if self.levels is None else self.levels.total_count()

    def ready_bytes_total(self):
        return self.ready.bytes if self.levels is None else self.levels.total_bytes()

    def sweep(self):
        """Lets go, from the head on, what has expired, is too much, or was handed out too often; then sets the alarm for
        the next one. Stops at the first message that may stay."""
        left = SWEPT_A_STEP
        while self.ready.count > 0:
            over = self.is_over_limits()
            if not self.ready.has_next():
                if over and not self.rules.buries and not self.ready.has_load():
                    self.ready.warm_up()
                    if not self.ready.has_next():
                        self.dropped_total += 1
                        self.ready.drop_next()
                        self.step_down()
                        continue
                if over or self.must_know_head():
                    self.fetch()
                    if self.ready.has_next():
                        continue
                return 0
            reason = MAXLEN if over and not self.has_expired() else self.verdict()
            if reason == 0:
                self.set_alarm()
                return 0
            if left == 0 or self.office.is_full():
                self.office.go_on_later(self)
                return 0
            left -= 1
            self.remove_head(reason)
        self.expiring = False
        self.watchful = not self.rules.plain or self.levels is not None or self.window is not None
        return 0

    def go_on(self):
        """For the office: the sweep that was interrupted."""
        if not self.deleted:
            self.dispatch()

    def ring(self):
        """For the office: the alarm's time has come."""
        self.alarm_at = 0
        if not self.deleted:
            self.dispatch()

    def must_know_head(self):
        """Whether a head that is on disk must be read although nobody asks for it."""
        return self.expiring or self.rules.ttl_ms >= 0 or self.rules.delivery_limit >= 0 or self.doomed is not None

    def expiry_of(self, message):
        """When this message expires here; 0 if it does not."""
        ttl_ms = message.properties.ttl_ms
        if self.rules.ttl_ms >= 0 and (ttl_ms < 0 or self.rules.ttl_ms < ttl_ms):
            ttl_ms = self.rules.ttl_ms
        return 0 if ttl_ms < 0 else message.stamp + ttl_ms

    def has_expired(self):
        """Whether the head has."""
        expiry = self.expiry_of(self.ready.next_message())
        return expiry != 0 and expiry <= self.office.now

    def verdict(self):
        """Why the head must leave; 0 if it may stay."""
        entry = self.ready.next_returned()
        if entry is not None:
            if self.doomed is not None and entry.position in self.doomed:
                return REJECTED
            if self.rules.delivery_limit >= 0 and entry.delivery_count > self.rules.delivery_limit:
                return DELIVERY_LIMIT
        return EXPIRED if self.has_expired() else 0

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
        if self.doomed is not None and self.doomed.pop(entry.position, None) is not None and not self.doomed:
            self.doomed = None
        if reason == EXPIRED:
            self.expired_total += 1
        elif reason == MAXLEN:
            self.dropped_total += 1
        elif reason == DELIVERY_LIMIT:
            self.limited_total += 1
        return self.send_off(entry, reason)

    def step_down(self):
        if self.levels is not None and self.ready.count == 0:
            self.ready = self.levels.top()
        return 0

    def send_off(self, entry, reason):
        """The message leaves this queue: as a letter, if the rules say so, else for good."""
        message = entry.message
        durable = self.ledger is not None and message.properties.persistent
        if self.rules.carries(reason):
            self.buried_total += 1
            position = entry.position if durable else 0
            return self.office.post(self, self.rules, message, position, reason, entry.delivery_count)
        if durable:
            self.ledger.settle(entry.position, message.location)
        return 0

    def letter_sent(self, letter):
        if letter.position > 0:
            self.ledger.settle(letter.position, letter.message.location)
        return 0

    # ---- what became of them

    def discard(self, entry):
        if self.deleted or not self.rules.carries(REJECTED):
            return PlainQueue.discard(self, entry)
        self.leave(entry)
        self.discarded_total += 1
        if entry.message.body is not None:
            return self.send_off(entry, REJECTED)
        # Only the disk has it: it waits at its old place until it was read.
        if self.doomed is None:
            self.doomed = {}
        self.doomed[entry.position] = True
        self.watchful = True
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
            self.expiring = self.watchful = True
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
            self.expiring = self.watchful = True
        return self.put_back(entry)

    def put_back(self, entry):
        if self.levels is None:
            return self.ready.put_back(entry)
        self.levels.list_for(entry.message.properties.priority).put_back(entry)
        self.ready = self.levels.top()
        return 0

    # ---- from disk

    def finish_load(self, load):
        if self.levels is not None:
            level = self.levels.loading(load)
            if level is not None and level is not self.ready:
                # Meanwhile something of a higher priority came: this is not the head any more.
                level.finish_load(load)
                self.dispatch()
                return
        PlainQueue.finish_load(self, load)
        if self.levels is not None:
            self.ready = self.levels.top()

    def is_loading(self, load):
        if self.levels is None:
            return self.ready.is_loading(load)
        return self.levels.loading(load) is not None

    def page_out(self, bytes_max):
        freed = 0
        if self.levels is None:
            freed = self.ready.page_out(bytes_max)
        else:
            for level in self.levels.used:
                if freed < bytes_max:
                    freed += level.page_out(bytes_max - freed)
        if self.delays is not None and freed < bytes_max:
            freed += self.delays.page_out(bytes_max - freed)
        return freed

    # ---- the log

    def restore(self, book, all_seen):
        ready = book.count
        while ready > 0 and read_u64(book.slots, (ready - 1) * SLOT_BYTES) >= DELAYED:
            ready -= 1
        if all_seen:
            self.ready.seen_upto = book.next_position - 1
        if self.levels is None:
            self.ready.restore(book.slots, ready, book.next_position)
        else:
            self.levels.restore(book.slots, ready, book.next_position)
            self.ready = self.levels.top()
        self.ledger.live = book.count
        self.ledger.handed = book.handed
        if book.handed > 0:
            self.ledger.note_again(0)
        if ready < book.count:
            self.delays = Delays(self, self.shelf, self.ledger, self.office)
            self.delays.restore(book.slots, ready, book.count - ready)
        if book.expiring:
            self.expiring = self.watchful = True
        if self.watchful and ready > 0:
            self.office.go_on_later(self)

    def has_load(self):
        if self.delays is not None and self.delays.has_load():
            return True
        if self.levels is None:
            return self.ready.has_load()
        return any([level.has_load() for level in self.levels.used])

    def collect_located(self, number, found):
        if self.levels is None:
            return self.ready.collect_located(number, found)
        for level in self.levels.used:
            level.collect_located(number, found)
        return 0

    def find_stored(self, position, location):
        if position >= DELAYED:
            return self.delays is not None and self.delays.find_stored(position, location)
        if self.levels is None:
            return self.ready.find_cold(position, location) >= 0
        return self.level_of(position, location) is not None

    def level_of(self, position, location):
        for level in self.levels.used:
            if level.find_cold(position, location) >= 0:
                return level
        return None

    def move_stored(self, position, location, to, length):
        if position >= DELAYED:
            return self.delays.move_stored(position, to, length)
        level = self.ready if self.levels is None else self.level_of(position, location)
        return level.move_cold(level.find_cold(position, location), to, length)

    # ---- control

    def ready_count(self):
        return self.ready_total()

    def ready_bytes(self):
        return self.ready_bytes_total()

    def tail_position(self):
        return self.ready.next_position if self.levels is None else self.levels.base.next_position

    def delayed_count(self):
        return 0 if self.delays is None else self.delays.count

    def ready_entries(self):
        if self.levels is None:
            return self.ready.entries()
        return [entry for level in self.levels.used for entry in level.entries()]

    def purge(self):
        self.doomed = None
        if self.levels is None:
            return PlainQueue.purge(self)
        count = self.ready_total()
        for level in self.levels.used:
            level.clear()
        self.ready = self.levels.top()
        self.discarded_total += count
        self.stop_awaiting()
        return count

    def close(self):
        PlainQueue.close(self)
        if self.levels is not None:
            for level in self.levels.used:
                level.clear()
        if self.delays is not None:
            self.delays.clear()
        if self.window is not None:
            self.window.close()
