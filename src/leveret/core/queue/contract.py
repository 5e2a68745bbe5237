"""What a queue and those who take from it promise each other.

Three things: the Entry (one message's place in one queue), the Subscriber (a consumer, or a basic.get),
and the Queue. A session only ever sees a queue through this contract, so that a queue may be classic, quorum,
stream, a reply address or one on another node. Nothing here holds state beyond what the contract needs."""

import cython

if not cython.compiled:
    ACCEPTED = 0
    REFUSED = 1
    KNOWN = 2
    EMPTY = 0
    GIVEN = 1
    LATER = 2


@cython.final
@cython.no_gc
@cython.freelist(4096)
@cython.cclass
class Entry:
    """One message in one queue. It is in exactly one place: the queue's ready list, or the unacked list of the
    channel whose subscriber holds it."""

    __slots__ = ("delivery_count", "holder", "message", "position", "seen", "tag")


def make_entry(message, position):
    entry = Entry.__new__(Entry)
    entry.message = message
    entry.holder = None
    entry.position = position
    entry.tag = 0
    entry.delivery_count = 0
    # Whether somebody may have got it before: then it says so with its next delivery.
    entry.seen = False
    return entry


class Subscriber:
    """Somebody to whom a queue hands messages. The queue asks `can_take`, then calls `take` or `hand` at once."""

    __slots__ = (
        "active",
        "metered",
        "no_ack",
        "priority",
        "queue",
        "quiet",
        "unacked_bytes",
        "unacked_count",
        "waited",
        "waiting",
    )

    def __init__(self):
        self.queue = None
        self.no_ack = False
        self.priority = 0
        # False for those who stand by behind a single active consumer.
        self.active = True
        # True while it stands in its queue's consumer ring; false once the queue found it full and parked it.
        self.waiting = False
        # Whether what it holds counts against the channel's prefetch: consumers do, gets do not.
        self.metered = False
        # Whether what it gets does not count as delivered: the broker itself looks at its messages.
        self.quiet = False
        self.unacked_count = 0
        self.unacked_bytes = 0
        # How often it was woken since it last got something: whoever waits longest goes first.
        self.waited = 0

    def can_take(self):
        return False

    def take(self, entry):
        """Sends the entry's message and holds the entry until it is settled."""
        raise AssertionError("a subscriber that takes must say how")

    def hand(self, message, redelivered):
        """Sends the message; nobody will acknowledge it."""
        raise AssertionError("a subscriber that takes must say how")

    def park(self):
        """The queue found the subscriber full and will not ask again until `wake`."""
        self.waiting = False
        return 0

    def activity_changed(self, active):
        self.active = active


class Queue:
    """Where messages wait. `record` is the catalog's entry for it, for the control plane."""

    __slots__ = (
        "ack_only",
        "ack_timeout_ms",
        "deleted",
        "queue_log",
        "name",
        "record",
        "sampled",
        "series",
        "single_active",
        "subscribers",
        "window",
    )

    def __init__(self, name, record, single_active=False, queue_log=None):
        self.name = name
        self.record = record
        # Where it notes what must survive; None if nothing of it does.
        self.queue_log = queue_log
        # The keys it has seen, if it takes each message once; None if it does not care.
        self.window = None
        # Only the subscriber that came first gets messages; the next takes over when it goes.
        self.single_active = single_active
        # In the order they came; None while there are none: most queues of a large broker have none.
        self.subscribers = None
        # Milliseconds until an unacked delivery goes back; 0 never, -1 as the node says.
        self.ack_timeout_ms = -1
        # True if a consumer cannot give a message back, nor reject it.
        self.ack_only = False
        self.deleted = False
        self.series = None
        self.sampled = 0

    def subscriber_count(self):
        return len(self.subscribers) if self.subscribers else 0

    def publish(self, message):
        """Takes a message at the tail: ACCEPTED, REFUSED when the queue's overflow rule says so, or KNOWN if it has
        taken the same message before and so need not do it again."""
        raise AssertionError("a queue must say how it takes messages")

    def prepare(self, message, coming):
        """Before a transaction takes effect: whether the queue will take this message of it, too. `coming` has for each
        queue how many messages, and octets of them, the transaction brings; what this one adds is added there."""
        return True

    def keeps(self, message):
        """Whether a message that this queue takes has a record in a log: then a confirm waits for its sync."""
        return False

    def receive(self, message):
        """Like `publish`, for a message that the broker itself sends on, such as a dead letter: never a duplicate."""
        return self.publish(message)

    def receive_again(self, message):
        """The same for one that somebody may have got before a crash: it says so with its next delivery."""
        return self.receive(message)

    def settle(self, entry):
        """The entry's holder is done with it."""
        return 0

    def requeue(self, entry):
        """The entry goes back to its old place; `dispatch` hands it out again."""
        return 0

    def give_back(self, entry):
        """A quiet subscriber is done with the entry: back to its old place as if it had never left; `dispatch` hands it
        out."""
        return 0

    def withdraw(self, entry):
        """A quiet subscriber takes the message away for good: that is nobody's acknowledgement."""
        return self.settle(entry)

    def discard(self, entry):
        """The entry was rejected without requeue."""
        return 0

    def refusal(self, method):
        """What a client is told that asks this queue for something of which queues of its type are not capable; None if
        it is capable of that. `method` is basic.get or queue.purge."""
        return None

    def refuse_return(self, method):
        """Raises what a client gets who gives a message back to a queue that takes acks only."""
        raise AssertionError("a queue that takes acks only must say so")

    def get(self, getter):
        """Gives the next message to a subscriber that is not in the consumer ring: GIVEN if there was one, EMPTY if
        there was none, LATER if it must come from disk first (`await_load` calls when it has)."""
        return 0

    def await_load(self, call):
        """Calls back once the message that a get waits for has come from disk."""
        raise AssertionError("a queue that answers LATER must say when")

    def wake(self, subscriber):
        """A parked subscriber can take again; `dispatch` hands out to it."""
        return 0

    def dispatch(self):
        """Hands out what is ready to those who can take."""
        return 0

    def subscribe(self, subscriber):
        raise AssertionError("a queue must say how it takes subscribers")

    def unsubscribe(self, subscriber):
        raise AssertionError("a queue must say how it loses subscribers")

    def ready_count(self):
        return 0

    def unacked_total(self):
        """Deliveries that consumers have not settled. A queue that counts them itself knows better."""
        return sum([subscriber.unacked_count for subscriber in self.subscribers or ()])

    def activity(self):
        """A number that grows with everything that happens here: the same again, and nothing did."""
        return 0

    def tail_position(self):
        """The position of the next message to come: all that came before have lower ones. 0 if it has no positions."""
        return 0

    def purge(self):
        """Drops what is ready and says how many that were."""
        return 0

    def await_purge(self, call):
        """Calls back once the log knows of all that was purged. False if it does already."""
        return False

    def dressed(self, entry):
        """The message of an entry that was handed out before, as its next consumer is to see it."""
        return entry.message

    def postpone(self, message):
        """Takes a message that is due when its stamp says, whatever the queue's rules."""
        raise AssertionError("a queue must say how it delays messages")

    def arrive(self, message):
        """A delayed message is due: it goes to the tail, or wherever it would have gone at once."""
        return 0

    def arrive_again(self, message):
        """The same for one that somebody may have got before a crash: it says so with its next delivery."""
        return self.arrive(message)

    def letter_sent(self, letter):
        """A letter of this queue (core.queue.office) is wherever it had to go: the original may be forgotten."""
        return 0

    # ---- for recovery, and for compaction of the log; only queues with a queue log are asked

    def restore(self, book, all_seen):
        """What the log has of this queue, see core.log.rebuild. After a crash nobody knows how much more was handed out
        in the last moment, so all of it is marked as seen."""
        raise AssertionError("a queue with a ledger must say how it comes back")

    def has_load(self):
        """Whether something of it is being read."""
        return False

    def collect_located(self, number, found):
        """Adds to `found` every message in memory whose record is in this segment, with how often it was handed out, by
        queue and position."""
        return 0

    def find_stored(self, position, location):
        """Whether the message at this position and location is on disk alone."""
        return False

    def move_stored(self, position, location, to, length):
        """The record of that message was copied elsewhere: how often it was handed out."""
        return 0

    # ---- when memory is short

    def page_entry(self, entry):
        """Lets the body of a message go that a subscriber holds, and says how many octets that frees: should it come
        back, it can be read again."""
        return 0

    # ---- the end

    def close(self):
        """The queue is gone: later settles and requeues have no effect. Its subscribers are not told here, but it lets
        them go: they refer to it, and the garbage collector rarely runs in a broker."""
        self.deleted = True
        self.subscribers = None
