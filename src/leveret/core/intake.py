"""The publishing side of one channel: basic.publish and its content become a message in its queues.

Checks every declared size before anything is kept, remembers the last address and the last properties (publishers
repeat themselves), confirms, and holds back what a transaction has not committed. Called by the connection with
frames and by the session with modes; asks the gate, a control-plane object, only when something is new."""

import cython

from leveret.core.batch import Publisher
from leveret.core.dedup import digest_of, own_ttl_of
from leveret.core.office import Office
from leveret.core.wording import frame_problem
from leveret.errors import HardError, SoftError

if not cython.compiled:
    from leveret.core.content import write_confirm, write_return
    from leveret.core.contract import ACCEPTED, REFUSED
    from leveret.core.message import make_message, shown
    from leveret.core.properties import scan_properties
    from leveret.core.pure_octets import read_u16, read_u64, same_octets, take

    IDLE = 0
    WANT_HEADER = 1
    WANT_BODY = 2

PUBLISH = 0x003C0028
ACK = 0x003C0050
NACK = 0x003C0078
NO_ROUTE = 312
NO_ROUTE_TEXT = b"NO_ROUTE"

MANDATORY_BIT = 1
IMMEDIATE_BIT = 2
# Longer properties are not kept for comparison: a connection may have thousands of channels.
REMEMBERED_PROPERTIES_BYTES = 4096
# Exchanges that a channel remembers it may publish to.
WRITABLE_MAX = 1024
# Property flags of what makes a message need the gate's look: user-id, expiration and reply-to.
INSPECTED_FLAGS = 0x0010 | 0x0100 | 0x0200

REPLY_TO = b"amq.rabbitmq.reply-to"
# Milliseconds of at most so many digits are in range whatever they are.
PLAIN_DIGITS_MAX = 9


def is_plain(properties):
    """Whether the gate would let these through as they are: no user id, an ordinary reply address, an expiration of a
    few digits. Decided here, because every task of a task queue has a reply address of its own."""
    if properties.user_id is not None or properties.reply_to == REPLY_TO:
        return False
    expiration = properties.expiration
    return expiration is None or (len(expiration) <= PLAIN_DIGITS_MAX and expiration.isdigit())


class Intake(Publisher):
    def __init__(self, channel, outbox, router, gate, payload_max, body_bytes_max, journal=None, office=None):
        Publisher.__init__(self)
        # Where durable queues keep their messages; None if there is no disk behind this broker.
        self.journal = journal
        # Says what time it is.
        self.office = office if office is not None else Office()
        self.channel = channel
        self.outbox = outbox
        self.router = router
        self.gate = gate
        self.payload_max = payload_max
        self.body_bytes_max = body_bytes_max
        self.stage = IDLE
        self.route = None
        self.properties = None
        # The last properties that the gate let through.
        self.inspected = None
        self.timed = None
        self.timed_as = None
        self.timed_ms = 0
        self.mandatory = False
        self.body_size = 0
        self.body_have = 0
        self.parts = None
        # Exchanges that this user was found to be allowed to publish to; true if each routing key has to be asked for.
        self.writable = None
        self.confirming = False
        # True while the connection has this intake on its list of those that owe confirms.
        self.owing = False
        self.publish_seq = 0
        self.confirmed_seq = 0
        self.pending = None
        self.published_total = 0
        self.returned_total = 0
        self.refused_total = 0
        # Copies that went to queues; messages that no queue wanted and nobody wants back; acks that were sent.
        self.routed_total = 0
        self.dropped_total = 0
        self.confirmed_total = 0
        self.nacked = None
        self.usual_size = 0
        self.usual_count = 0

    # ---- frames

    def begin(self, p, at, end):
        """basic.publish: two reserved octets, exchange, routing key, bits."""
        if end - at < 5:
            raise HardError(501, "basic.publish ends early", PUBLISH)
        x_size = p[at + 2]
        key_at = at + 3 + x_size
        if key_at >= end:
            raise HardError(501, "basic.publish ends early", PUBLISH)
        bits_at = key_at + 1 + p[key_at]
        if bits_at != end - 1:
            raise HardError(501, "basic.publish has the wrong length", PUBLISH)
        bits = p[bits_at]
        if bits & IMMEDIATE_BIT:
            raise HardError(540, "immediate=true", PUBLISH)
        route = self.route
        size = bits_at - at - 2
        if route is None or route.generation != self.router.generation or self.writable is None:
            self.route = self.find_route(take(p, at + 2, bits_at))
        elif len(route.address) != size:
            self.route = self.find_route(take(p, at + 2, bits_at))
        else:
            known = route.address
            if not same_octets(known, 0, p, at + 2, size):
                self.route = self.find_route(take(p, at + 2, bits_at))
        self.mandatory = bits & MANDATORY_BIT
        self.stage = WANT_HEADER
        return 0

    def find_route(self, address):
        route = self.router.route(address)
        if route is None:
            # Also checks what RabbitMQ checks first: the right to write comes before existence.
            self.gate.refuse_unknown_exchange(address)
        if self.writable is None or len(self.writable) > WRITABLE_MAX:
            self.writable = {}
        keyed = self.writable.get(route.exchange)
        if keyed is None:
            keyed = self.gate.check_publish(route.exchange)
            self.writable[route.exchange] = keyed
        if keyed:
            self.gate.check_key(route.exchange, route.key)
        return route

    def header(self, p, at, end):
        """The content header: class, weight, body size, properties."""
        if end - at < 14:
            raise HardError(501, frame_problem(2, take(p, at, end), "unknown_frame"))
        if read_u16(p, at + 2) != 0:
            text = "expected content header for class 60, got non content header frame instead"
            raise HardError(505, text, PUBLISH)
        if read_u16(p, at) != 60:
            text = f"expected content header for class 60, got one for class {read_u16(p, at)} instead"
            raise HardError(505, text, PUBLISH)
        self.body_size = read_u64(p, at + 4)
        if self.body_size > self.body_bytes_max:
            raise SoftError(
                406,
                f"message size {self.body_size} is larger than configured max size {self.body_bytes_max}",
                PUBLISH,
            )
        raw = self.properties.raw if self.properties is not None else None
        if raw is None or len(raw) != end - at - 12:
            self.properties = scan_properties(p, at + 12, end)
        else:
            known = raw
            if not same_octets(known, 0, p, at + 12, end - at - 12):
                self.properties = scan_properties(p, at + 12, end)
        self.body_have = 0
        if self.body_size == 0:
            return self.complete(b"")
        self.stage = WANT_BODY
        return 0

    def body(self, p, at, end):
        size = end - at
        if self.body_have + size > self.body_size:
            raise HardError(505, f"body frames exceed the {self.body_size} octets announced", PUBLISH)
        if size == self.body_size:
            return self.complete(take(p, at, end))
        if self.parts is None:
            # One buffer that grows with what really comes: a list of parts would multiply a body in tiny frames.
            self.parts = bytearray()
        self.parts.extend(take(p, at, end))
        self.body_have += size
        if self.body_have < self.body_size:
            return 0
        whole = bytes(self.parts)
        self.parts = None
        return self.complete(whole)

    # ---- the message is whole

    def offer(self, address, properties, body):
        """A message that comes as a whole, not in frames: whoever has one outside a connection publishes it like this,
        within a transaction, whose `pending` then says where it goes."""
        size = len(body)
        if size > self.body_bytes_max:
            text = f"message size {size} is larger than configured max size {self.body_bytes_max}"
            raise SoftError(406, text, PUBLISH)
        self.route = self.find_route(address)
        self.properties = properties
        self.mandatory = False
        return self.complete(body)

    def complete(self, body):
        self.stage = IDLE
        self.published_total += 1
        self.route.exchange.published_total += 1
        if (
            self.properties.flags & INSPECTED_FLAGS
            and self.properties is not self.inspected
            and not is_plain(self.properties)
        ):
            # May raise, and may swap the properties: a direct reply-to gets its return address here.
            self.inspected = self.gate.inspect(self.properties)
            self.properties = self.inspected
        properties = self.properties
        delay_ms = 0
        if properties.has_delay:
            delay_ms = self.delay(properties)
            properties = self.timed_as
        if delay_ms > 0 and self.route.exchange.holder is not None:
            # Where it goes is decided when its time has come; whether its copies may, now.
            if properties.has_cc:
                self.gate.check_copies(self.route.exchange, properties)
            targets = (self.route.exchange.holder,)
        elif properties.has_cc:
            targets = self.gate.resolve_copies(self.route.exchange, self.route.key, properties)
        elif self.route.targets is not None and self.route.generation == self.router.generation:
            targets = self.route.targets
        else:
            targets = self.router.resolve(self.route.exchange, [self.route.key], properties)
        message = make_message(self.route.address, properties, body)
        if message.body_size != self.usual_size:
            self.flush_sizes()
            self.usual_size = message.body_size
        self.usual_count += 1
        # In a transaction nothing has arrived before it is committed.
        message.stamp = delay_ms if self.pending is not None else self.office.now + delay_ms
        if len(self.properties.raw) > REMEMBERED_PROPERTIES_BYTES:
            self.properties = None
            self.inspected = None
            self.timed = None
        if self.pending is not None:
            self.pending.append((message, self.route.exchange, targets, self.mandatory))
            return 0
        if self.route.exchange.window is not None:
            return self.place_once(message, self.route.exchange, targets, self.mandatory)
        self.place(message, self.route.exchange, targets, self.mandatory)
        return 0

    def flush_sizes(self):
        """The office's histogram gets what it has not seen: publishers repeat themselves, in this as well."""
        self.office.sizes.note_many(self.usual_size, self.usual_count)
        self.usual_count = 0

    def delay(self, properties):
        """How long the message is to wait; what becomes of its properties is in `timed_as`. May raise."""
        if properties is not self.timed:
            self.timed_as, self.timed_ms = self.gate.delay(properties)
            self.timed = properties
        return self.timed_ms

    def place_once(self, message, exchange, targets, mandatory):
        """The same for an exchange that takes each message once."""
        digest = digest_of(message.properties)
        if digest is None:
            self.place(message, exchange, targets, mandatory)
        elif not exchange.window.has(digest, self.office.now):
            # What nobody has, because it was refused or no queue was there, may be sent again.
            if self.place(message, exchange, targets, mandatory):
                properties = message.properties
                exchange.window.remember(digest, self.office.now, own_ttl_of(properties), properties.persistent)
        elif self.confirming:
            self.confirm(message, False, True)
        return 0

    def place(self, message, exchange, targets, mandatory):
        """Gives the message to its queues: whether there are any, and all took it."""
        count = len(targets)
        refused = False
        known = False
        if exchange.tap is not None:
            exchange.tap.see(message)
        if count == 0:
            exchange.unroutable_total += 1
            if mandatory:
                self.give_back(message)
            else:
                self.dropped_total += 1
        else:
            exchange.routed_total += count
            self.routed_total += count
            message.lone = count == 1
            if self.journal is not None:
                self.journal.room = count
            for i in range(count):
                queue = targets[i]
                if not queue.deleted:
                    answer = queue.publish(message)
                    if answer != ACCEPTED:
                        known = True
                        if answer == REFUSED:
                            refused = True
        if refused:
            self.refused_total += 1
        if self.confirming:
            self.confirm(message, refused, known)
        return count > 0 and not refused

    def give_back(self, message):
        """basic.return: nobody wanted it."""
        self.returned_total += 1
        returned = shown(message) if message.properties.has_bcc else message
        return write_return(self.outbox, self.channel, NO_ROUTE, NO_ROUTE_TEXT, returned, self.payload_max)

    # ---- confirms

    def confirm(self, message, refused, known):
        """Counts the publish; acks gather until flush_confirms, a nack goes out at once, after what came before it."""
        if refused:
            self.flush_confirms()
            if self.confirmed_seq == self.publish_seq:
                self.confirmed_seq += 1
            else:
                # A later ack covers its number as well, and must not count it.
                if self.nacked is None:
                    self.nacked = []
                self.nacked.append(self.publish_seq + 1)
            self.publish_seq += 1
            return write_confirm(self.outbox, self.channel, NACK, self.publish_seq, 0)
        self.publish_seq += 1
        self.accepted_seq = self.publish_seq
        if self.journal is not None:
            if self.journal.current is message or self.journal.beside_message is message:
                self.journal.await_batch(self)
            elif known:
                # The first of its kind may not be on disk yet, and what is confirmed must be.
                self.journal.await_batch(self)
                self.journal.want_commit()
        return 0

    def flush_confirms(self):
        """One ack for everything that was taken since the last one, unless some of it is not on disk yet: then the
        journal calls when it is."""
        if self.journal is None or self.awaited_batch <= self.journal.synced_batch:
            self.acknowledge(self.accepted_seq)

    def synced(self, batch, accepted_seq):
        if self.confirming:
            # Nothing of a later batch: then what followed without a record of its own is safe as well.
            self.acknowledge(self.accepted_seq if self.awaited_batch <= batch else accepted_seq)
        return 0

    def acknowledge(self, upto_seq):
        if self.confirmed_seq < upto_seq:
            count = upto_seq - self.confirmed_seq
            write_confirm(self.outbox, self.channel, ACK, upto_seq, count > 1)
            self.confirmed_seq = upto_seq
            while self.nacked and self.nacked[0] <= upto_seq:
                del self.nacked[0]
                count -= 1
            self.confirmed_total += count
        return 0

    # ---- modes, for the session

    def abandon(self):
        """The channel closes: whatever was half received or not committed never was, and nothing more is confirmed."""
        self.confirming = False
        self.stage = IDLE
        self.parts = None
        self.pending = None

    def start_confirming(self):
        self.confirming = True

    def start_transaction(self):
        if self.pending is None:
            self.pending = []

    def commit(self):
        """Publishes what the transaction holds: whether every queue took it. Everything was checked when it came."""
        pending = self.pending
        self.pending = []
        refused = self.refused_total
        for message, exchange, targets, mandatory in pending:
            message.stamp += self.office.now
            if exchange.window is not None:
                self.place_once(message, exchange, targets, mandatory)
            else:
                self.place(message, exchange, targets, mandatory)
        return self.refused_total == refused

    def rollback(self):
        self.pending = []

    def forget_permissions(self):
        """What the user may do has changed: everything is asked again."""
        self.writable = None
        self.inspected = None
