"""Which unacked deliveries of one channel are late, found without a timer or a moment for each of them.

Delivery tags grow with time: a mark (moment, last tag) says that everything up to that tag was delivered before that
moment, and so all of it that is still unacked is late once the mark is older than the timeout. Marks are made when
the session looks, a few times in a timeout; nothing is done per delivery or ack. Late is never early: at most one
interval between two looks is given away. The machine says who is late and when to look again; it knows no clock and
takes nothing out. Called by `session.ack_timeouts`."""

from bisect import bisect_right

from leveret.core.connection.consumer import Consumer

# How many marks there are in one timeout, and the bounds of the time between them.
MARKS_A_TIMEOUT = 8
INTERVAL_MS_MIN = 10.0
INTERVAL_MS_MAX = 1000.0
# From so many on, marks between which nothing is unacked any more are left out, and subscribers that hold nothing.
COMPACT_AT = 64
TAG_MAX = 2**64 - 1


def own_timeout(subscriber):
    """What the consumer asked for; -1 for nothing. Gets cannot ask."""
    return subscriber.ack_timeout_ms if isinstance(subscriber, Consumer) else -1


def effective_timeout(own_ms, queue, default_ms):
    """Milliseconds, 0 for never: the consumer's word goes over its queue's, that over the node's."""
    if own_ms >= 0:
        return own_ms
    return queue.ack_timeout_ms if queue.ack_timeout_ms >= 0 else default_ms


class AckWatch:
    __slots__ = (
        "channel",
        "compact_at",
        "default_ms",
        "in_force",
        "mark_at",
        "marks",
        "rebuild_at",
        "sources",
        "swept",
    )

    def __init__(self, channel, default_ms):
        self.channel = channel
        self.default_ms = default_ms
        # (moment, tag), both growing
        self.marks = []
        self.compact_at = COMPACT_AT
        # When the next mark is due; before the first look at once.
        self.mark_at = 0.0
        # (the subscriber's own timeout, its queue) -> the timeout that is in force: everybody who may hold something.
        self.sources = {}
        # Their timeouts, each once, without 0
        self.in_force = set()
        self.rebuild_at = COMPACT_AT
        # Timeout -> the tag up to which everything was looked through for that timeout
        self.swept = {}

    # ---- whose timeouts

    def add(self, subscriber):
        """A consumer or a get from which an ack is expected; true if it is of a kind that was not there."""
        source = (own_timeout(subscriber), subscriber.queue)
        if source in self.sources:
            return False
        if len(self.sources) >= self.rebuild_at:
            self.rebuild()
        self.note(subscriber)
        return True

    def rebuild(self):
        """Finds anew who holds something or may come to, and looks through everything held again."""
        self.sources = {}
        self.in_force = set()
        for consumer in self.channel.consumers.values():
            if not consumer.no_ack:
                self.note(consumer)
        for entry in self.channel.unacked.entries():
            self.note(entry.holder)
        self.rebuild_at = 2 * len(self.sources) + COMPACT_AT
        self.swept = {}

    def note(self, subscriber):
        own_ms = own_timeout(subscriber)
        timeout_ms = effective_timeout(own_ms, subscriber.queue, self.default_ms)
        self.sources[(own_ms, subscriber.queue)] = timeout_ms
        if timeout_ms > 0:
            self.in_force.add(timeout_ms)

    def refresh(self):
        """Policies may have given queues other timeouts: then what was looked through is looked through again."""
        changed = False
        for source in self.sources:
            timeout_ms = effective_timeout(source[0], source[1], self.default_ms)
            if timeout_ms != self.sources[source]:
                self.sources[source] = timeout_ms
                changed = True
        if changed:
            self.in_force = {timeout_ms for timeout_ms in self.sources.values() if timeout_ms > 0}
            self.swept = {}

    # ---- who is late

    def look(self, now):
        """The entries that are late at this moment, in milliseconds; each is told once. They are still unacked."""
        channel = self.channel
        if channel.unacked.count == 0:
            # The common case. Consumers that left are forgotten here.
            self.marks.clear()
            self.rebuild()
            return []
        self.refresh()
        self.mark(now)
        late = []
        for timeout_ms in self.in_force:
            # Marks are in order; this one is the newest that is old enough.
            at = bisect_right(self.marks, (now - timeout_ms, TAG_MAX)) - 1
            if at < 0:
                continue
            upto = self.marks[at][1]
            swept = self.swept.get(timeout_ms, 0)
            if upto > swept:
                self.swept[timeout_ms] = upto
                late.extend(self.select(swept, upto, timeout_ms))
        return late

    def select(self, tag, tag_max, timeout_ms):
        """What is held with this very timeout; others on the channel have theirs."""
        found = []
        for entry in self.channel.unacked.between(tag, tag_max):
            holder = entry.holder
            if effective_timeout(own_timeout(holder), holder.queue, self.default_ms) == timeout_ms:
                found.append(entry)
        return found

    def timeout_of(self, entry):
        return effective_timeout(own_timeout(entry.holder), entry.holder.queue, self.default_ms)

    # ---- marks

    def mark(self, now):
        """Makes a mark if it is time and there is something new, and drops those that nothing unacked needs."""
        # Of all that are older than any timeout the newest says enough.
        useless = max(bisect_right(self.marks, (now - max(self.in_force, default=0), TAG_MAX)) - 1, 0)
        first = self.channel.unacked.first_above(0)
        while useless < len(self.marks) and self.marks[useless][1] < first:
            useless += 1
        del self.marks[:useless]
        if now < self.mark_at:
            return
        self.mark_at = now + self.interval()
        last_tag = self.channel.last_tag
        if not self.marks or self.marks[len(self.marks) - 1][1] < last_tag:
            if len(self.marks) >= self.compact_at:
                self.compact()
            self.marks.append((now, last_tag))

    def compact(self):
        """Leaves out marks between which everything was settled, so that there are never many more marks than unacked
        messages, however long the timeout is."""
        kept = []
        tag = 0
        for mark in self.marks:
            first = self.channel.unacked.first_above(tag)
            if first == 0:
                break
            if first <= mark[1]:
                kept.append(mark)
                tag = mark[1]
        self.marks = kept
        self.compact_at = 2 * len(kept) + COMPACT_AT

    def interval(self):
        shortest = min(self.in_force, default=0)
        return min(max(shortest / MARKS_A_TIMEOUT, INTERVAL_MS_MIN), INTERVAL_MS_MAX)

    # ---- when to look again

    def wait_ms(self, now):
        """Milliseconds until the next look, or None if nobody has a timeout."""
        if not self.in_force:
            return None
        soon = now + self.interval()
        if not now < self.mark_at < soon:
            self.mark_at = soon
        due = self.mark_at
        for timeout_ms in self.in_force:
            at = bisect_right(self.marks, self.swept.get(timeout_ms, 0), key=tag_of_mark)
            if at < len(self.marks):
                due = min(due, self.marks[at][0] + timeout_ms)
        return max(due - now, 1.0)


def tag_of_mark(mark):
    return mark[1]
