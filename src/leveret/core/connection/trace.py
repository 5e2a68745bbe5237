"""The firehose: notes what is published and delivered in a virtual host that is traced.

Costs one comparison a message where nothing is traced: a channel has a Trace, or none. Notes are bounded, and each is
charged to the turn of the connection that made it, so that clients are read as fast as notes become messages. That is
done by operations.firehose, in turns of its own: nothing is published from within a publish or a delivery."""

from collections import deque

# What is published here is never traced.
TRACE_EXCHANGE = b"amq.rabbitmq.trace"
# What becoming a message costs: units of core.observe.meter.
NOTE_WORK = 400


class Notes:
    """What was noted in one virtual host and is not published yet. `worker.go_on()` is called when there is something
    to publish."""

    def __init__(self, office, worker, count_max, bytes_max):
        self.office = office
        self.worker = worker
        # Notes, and octets of bodies that are kept for them, at most.
        self.count_max = count_max
        self.bytes_max = bytes_max
        self.waiting = deque()
        self.waiting_bytes = 0
        self.noted_total = 0
        # Those there was no room for.
        self.missed_total = 0

    def add(self, note, size):
        if len(self.waiting) >= self.count_max or self.waiting_bytes >= self.bytes_max:
            self.missed_total += 1
            return 0
        if not self.waiting:
            self.office.go_on_later(self.worker)
        self.waiting.append(note)
        self.waiting_bytes += size
        self.noted_total += 1
        self.office.meter.spent += NOTE_WORK
        return 0

    def take(self):
        """The oldest note; None if there is none. See Trace for what it has."""
        if not self.waiting:
            return None
        note = self.waiting.popleft()
        self.waiting_bytes -= len(note[2])
        return note


class Trace:
    """What one channel does. `origin` is whatever its owner wants to find in its notes, which are tuples: the origin,
    the message, its body, the queues it was published to or None, the queue it was delivered from or None, and whether
    that was again. The body stands beside its message because that may lose it."""

    def __init__(self, notes, origin):
        self.notes = notes
        self.origin = origin

    def published(self, message, targets):
        body = message.body
        return self.notes.add((self.origin, message, body, targets, None, False), len(body))

    def delivered(self, queue, message, body, redelivered):
        if message.exchange == TRACE_EXCHANGE:
            return 0
        return self.notes.add((self.origin, message, body, None, queue.name, redelivered), len(body))
