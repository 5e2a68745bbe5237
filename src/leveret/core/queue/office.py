"""What the queues of a node share to keep their rules: the time, dead letters on their way, and who looks again when.

Holds no rule itself and decides nothing: queues post letters here, and the broker room finds out where they go, has
them delivered, and only then lets go of the originals. Filled in and emptied by that room."""

import cython

from leveret.core.observe.histogram import Histogram
from leveret.core.observe.meter import Meter

if not cython.compiled:
    from leveret.core.queue.contract import ACCEPTED

    REJECTED = 1
    EXPIRED = 2
    MAXLEN = 3
    DELIVERY_LIMIT = 4
    REASONS_MAX = 5

# As they stand in the headers.
REASONS = {REJECTED: "rejected", EXPIRED: "expired", MAXLEN: "maxlen", DELIVERY_LIMIT: "delivery_limit"}
# More letters than this are not written before those that wait are on their way.
LETTERS_MAX = 1024
# Octets of a message's body, as RabbitMQ's dashboards want them.
SIZE_BOUNDS = (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 50_000_000, 100_000_000)
# Milliseconds from a message's arrival to its end.
WAIT_BOUNDS = (1, 5, 20, 100, 500, 1_000, 5_000, 20_000, 60_000, 300_000, 900_000, 3_600_000)


def nobody(*_):
    return None


class DeadLetter:
    """A message that left its queue and is not in another one yet. `position` is its place in the old queue's log, 0 if
    it has none there."""

    __slots__ = ("deliveries", "message", "position", "queue", "reason", "rules")

    def __init__(self, queue, rules, message, position, reason, deliveries):
        self.queue = queue
        # As they were when it left: they may have changed since.
        self.rules = rules
        self.message = message
        self.position = position
        self.reason = reason
        self.deliveries = deliveries


class Office:
    """`wake` is called when there is something to carry or to look at; `alarm` with who wants to be rung, and when;
    `forget` with who no longer wants to be. `journal` is the log, None if there is none."""

    def __init__(self, now=0, wake=nobody, alarm=nobody, journal=None, forget=nobody):
        self.journal = journal
        # Milliseconds of the wall clock, set whenever something comes in from outside.
        self.now = now
        # While a transaction takes effect, which every queue has said it has room for: none refuses any of it.
        self.committing = False
        self.wake = wake
        self.alarm = alarm
        self.forget = forget
        # What all of the data plane counts its work with.
        self.meter = Meter()
        # Channels that were closed and have not given back all they held yet, and what purges and deletions left
        # (core.queue.release): those who still know where records are.
        self.returning = {}
        self.letters = []
        # What consumers of streams take apart.
        # Set by the first stream (core.stream.expanding).
        self.expansions = None
        # Those who stopped in the middle of their work so that others have their turn, in order.
        self.unfinished = {}
        # Of what was published here, by AMQP and by the stream protocol; and how long messages were in their queues.
        self.sizes = Histogram(SIZE_BOUNDS)
        self.stream_sizes = Histogram(SIZE_BOUNDS)
        self.waits = Histogram(WAIT_BOUNDS)
        # Messages that left their queues for good, because no rule had a place for them, by reason.
        if not cython.compiled:
            self.lost = [0] * REASONS_MAX

    def is_full(self):
        return len(self.letters) >= LETTERS_MAX

    def post(self, queue, rules, message, position, reason, deliveries):
        if not self.letters and not self.unfinished:
            self.wake()
        self.letters.append(DeadLetter(queue, rules, message, position, reason, deliveries))
        return 0

    def lose(self, reason):
        """A message left its queue for this reason and goes nowhere."""
        self.lost[reason] += 1
        return 0

    def lost_total(self, reason):
        return self.lost[reason]

    def go_on_later(self, worker):
        """`worker.go_on()` is called in the next turn."""
        if not self.letters and not self.unfinished:
            self.wake()
        self.unfinished[worker] = True
        return 0

    def take_letters(self):
        letters = self.letters
        self.letters = []
        return letters

    def take_unfinished(self):
        unfinished = self.unfinished
        self.unfinished = {}
        return list(unfinished)

    def put_back_unfinished(self, workers):
        """These could not go on yet; they stay before all others."""
        self.unfinished = dict.fromkeys(workers, True) | self.unfinished

    def put_back(self, letters):
        """These could not be carried now; they stay before all others."""
        self.letters = letters + self.letters

    def deliver(self, message, targets):
        """Puts a message that the broker itself sends on into these queues: how many took it."""
        message.stamp = self.now
        return self.put(message, targets, False)

    def deliver_again(self, message, targets):
        """The same for a message that may have been delivered before a crash."""
        message.stamp = self.now
        return self.put(message, targets, True)

    def deliver_later(self, message, queue, delay_ms):
        """Puts it into this queue's delays."""
        message.stamp = self.now + delay_ms
        message.lone = True
        if self.journal is not None:
            self.journal.room = 1
        return queue.postpone(message)

    def put(self, message, targets, again):
        if not targets:
            return 0
        message.lone = len(targets) == 1
        if self.journal is not None:
            self.journal.room = len(targets)
        taken = 0
        for queue in targets:
            if not queue.deleted:
                taken += (queue.receive_again(message) if again else queue.receive(message)) == ACCEPTED
        return taken

    def collect_located(self, number, found):
        """Adds to `found` every message on its way whose record is in this segment, by queue and position."""
        for letter in self.letters:
            if letter.position > 0 and letter.message.location >> 32 == number and letter.queue.queue_log is not None:
                found[(letter.queue.queue_log.id, letter.position)] = (letter.message, letter.deliveries)
        for holder in self.returning:
            holder.collect_located(number, found)
