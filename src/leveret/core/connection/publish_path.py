"""The publishing side of one channel: basic.publish and its content become a message in its queues.

Checks every declared size before anything is kept, remembers the last address and the last properties (publishers
repeat themselves), confirms, and holds back what a transaction has not committed. Called by the connection with
frames and by the session with modes; asks the gate, a control-plane object, only when something is new."""

import cython

from leveret.core.codec.wording import frame_problem
from leveret.core.connection.confirms import Confirms
from leveret.core.queue.dedup import digest_of, own_ttl_of
from leveret.core.queue.office import Office
from leveret.errors import HardError, SoftError

if not cython.compiled:
    from leveret.core.codec.content import write_return
    from leveret.core.codec.message import make_message, shown
    from leveret.core.codec.method_ids import PUBLISH
    from leveret.core.codec.properties import scan_properties
    from leveret.core.codec.pure_octets import read_u16, read_u64, same_octets, take
    from leveret.core.connection.transaction import logged_bytes, refusing, too_much_work, work_of
    from leveret.core.connection.unfinished import MESSAGE_BYTES
    from leveret.core.log.journal import GROWN_BYTES_MAX
    from leveret.core.log.records import record_bytes
    from leveret.core.observe.meter import PLACED_WORK
    from leveret.core.queue.contract import ACCEPTED, REFUSED

    IDLE = 0
    WANT_HEADER = 1
    WANT_BODY = 2
    ROUTING = 3

NO_ROUTE = 312
NO_ROUTE_TEXT = b"NO_ROUTE"

MANDATORY_BIT = 1
IMMEDIATE_BIT = 2
# Longer properties are not kept for comparison: a connection may have thousands of channels.
REMEMBERED_PROPERTIES_BYTES = 4096
# Exchanges that a channel remembers it may publish to. Deleted ones are forgotten whenever their number has doubled.
WRITABLE_MAX = 1024
WRITABLE_FEW = 16
# Property flags of what makes a message need the gate's look: user-id, expiration and reply-to.
INSPECTED_FLAGS = 0x0010 | 0x0100 | 0x0200
MESSAGE_ID_FLAG = 0x0080

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


class PublishPath(Confirms):
    def __init__(
        self,
        channel,
        write_buffer,
        router,
        gate,
        payload_max,
        body_bytes_max,
        journal=None,
        office=None,
        unfinished=None,
    ):
        Confirms.__init__(self, channel, write_buffer, journal)
        # Says what time it is.
        self.office = office if office is not None else Office()
        self.router = router
        self.gate = gate
        # While the virtual host is traced.
        self.trace = None
        self.payload_max = payload_max
        self.body_bytes_max = body_bytes_max
        # The connection's account of what is not complete or not committed; None where nothing comes in parts.
        self.unfinished = unfinished
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
        # While it is ROUTING: how far that is, and the message so far.
        self.walk = None
        self.routed_body = None
        self.routed_properties = None
        self.routed_delay_ms = 0
        # Exchanges that this user was found to be allowed to publish to; true if each routing key has to be asked for.
        self.writable = None
        # When it has so many, it is looked through for exchanges that are gone.
        self.writable_most = WRITABLE_FEW
        self.pending = None
        # What of it is in the account.
        self.pending_bytes = 0
        # What its commit will have to do (core.connection.transaction), and how much that may be; 0 for no limit.
        self.pending_work = 0
        self.transaction_work_max = 0
        # Something that was published or committed had been taken before: the first of its kind may not be on disk yet.
        self.met_known = False
        self.published_total = 0
        self.returned_total = 0
        self.refused_total = 0
        # Copies that went to queues; messages that no queue wanted and nobody wants back.
        self.routed_total = 0
        self.dropped_total = 0
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
        if self.writable is None:
            self.writable = {}
        keyed = self.writable.get(route.exchange)
        if keyed is None:
            keyed = self.gate.check_publish(route.exchange)
            if len(self.writable) >= self.writable_most:
                self.forget_deleted()
            self.writable[route.exchange] = keyed
        if keyed:
            self.gate.check_key(route.exchange, route.key)
        return route

    def forget_deleted(self):
        """Exchanges that are gone are not kept in memory by a channel that once published to them."""
        self.writable = {exchange: keyed for exchange, keyed in self.writable.items() if not exchange.deleted}
        if len(self.writable) > WRITABLE_MAX:
            self.writable = {}
        self.writable_most = max(WRITABLE_FEW, 2 * len(self.writable))
        return 0

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
        if self.unfinished is not None:
            self.unfinished.take(size)
        if self.parts is None:
            # One buffer that grows with what really comes: a list of parts would multiply a body in tiny frames.
            self.parts = bytearray()
        self.parts.extend(take(p, at, end))
        self.body_have += size
        if self.body_have < self.body_size:
            return 0
        whole = bytes(self.parts)
        self.drop_parts()
        return self.complete(whole)

    def drop_parts(self):
        if self.parts is not None:
            self.parts = None
            if self.unfinished is not None:
                self.unfinished.give(self.body_have)
        return 0

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
        self.complete(body)
        while self.stage == ROUTING:
            self.go_on()
        return 0

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
        if properties.has_delay or properties.has_death:
            delay_ms = self.delay(properties)
            properties = self.timed_as
        if self.route.exchange.gives_ids and not properties.flags & MESSAGE_ID_FLAG:
            # Not into `self.properties`: the next message may come with the same ones, and gets an id of its own.
            properties = self.gate.identify(properties)
        if delay_ms > 0 and self.route.exchange.holder is not None:
            # Where it goes is decided when its time has come; whether its copies may, now.
            if properties.has_cc:
                self.gate.check_copies(self.route.exchange, properties)
            targets = (self.route.exchange.holder,)
        elif properties.has_cc:
            targets = self.gate.resolve_copies(self.route.exchange, self.route.key, properties)
        elif self.route.targets is not None and self.route.generation == self.router.generation:
            targets = self.route.targets
        elif self.router.is_short(self.route.exchange):
            targets = self.router.resolve(self.route.exchange, [self.route.key], properties)
            self.router.remember(self.route, targets)
        else:
            self.stage = ROUTING
            self.walk = self.router.walk(self.route.exchange, self.route.key, properties)
            self.routed_body = body
            self.routed_properties = properties
            self.routed_delay_ms = delay_ms
            return self.go_on()
        return self.publish(body, properties, delay_ms, targets)

    def go_on(self):
        """Goes on with routing the message, and publishes it if that is done before the meter is over."""
        if not self.walk.go_on(self.office.meter):
            return 0
        targets = tuple(self.walk.reached)
        body = self.routed_body
        properties = self.routed_properties
        self.router.remember(self.route, targets)
        self.stage = IDLE
        self.forget_walk()
        return self.publish(body, properties, self.routed_delay_ms, targets)

    def forget_walk(self):
        self.walk = None
        self.routed_body = None
        self.routed_properties = None
        return 0

    def publish(self, body, properties, delay_ms, targets):
        """Everything is known of the message."""
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
            work = work_of(message, targets)
            if 0 < self.transaction_work_max < self.pending_work + work and self.pending:
                raise too_much_work(PUBLISH, self.transaction_work_max)
            self.pending_work += work
            if self.unfinished is not None:
                size = message.body_size + len(properties.raw) + MESSAGE_BYTES
                self.unfinished.take(size)
                self.pending_bytes += size
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
        else:
            self.met_known = True
            if self.confirming:
                self.confirm(message, False, True)
        return 0

    def place(self, message, exchange, targets, mandatory):
        """Gives the message to its queues: whether there are any, and all took it."""
        count = len(targets)
        refused = False
        known = False
        gone = 0
        if exchange.tap is not None:
            exchange.tap.see(message)
        if self.trace is not None:
            self.trace.published(message, targets)
        if count == 0:
            self.find_none(message, exchange, mandatory)
        else:
            exchange.routed_total += count
            self.routed_total += count
            self.office.meter.spent += PLACED_WORK * count
            message.lone = count == 1
            if self.journal is not None:
                self.journal.room = count
                if self.journal.segment.end > GROWN_BYTES_MAX and not self.log_takes(message, count):
                    refused = True
                    # None of the queues gets it.
                    count = 0
            for i in range(count):
                queue = targets[i]
                if queue.deleted:
                    gone += 1
                else:
                    answer = queue.publish(message)
                    if answer != ACCEPTED:
                        known = True
                        if answer == REFUSED:
                            refused = True
                        else:
                            self.met_known = True
            if gone > 0:
                exchange.routed_total -= gone
                self.routed_total -= gone
                if gone == count:
                    count = 0
                    self.find_none(message, exchange, mandatory)
        if refused:
            self.refused_total += 1
        if self.confirming:
            self.confirm(message, refused, known)
        return count > 0 and not refused

    def find_none(self, message, exchange, mandatory):
        """No queue is there for the message, or none any more: some time has passed since it was routed if it was part
        of a transaction or routed in steps."""
        exchange.unroutable_total += 1
        if mandatory:
            return self.give_back(message)
        self.dropped_total += 1
        return 0

    def log_takes(self, message, count):
        """Whether the log has room, if the message may need any: its segment has grown far beyond its size."""
        return not message.properties.persistent or self.journal.has_room(record_bytes(message, count))

    def give_back(self, message):
        """basic.return: nobody wanted it."""
        self.returned_total += 1
        returned = shown(message) if message.properties.has_bcc else message
        return write_return(self.write_buffer, self.channel, NO_ROUTE, NO_ROUTE_TEXT, returned, self.payload_max)

    # ---- modes, for the session

    def abandon(self):
        """The channel closes: whatever was half received or not committed never was, and nothing more is confirmed."""
        self.confirming = False
        self.stage = IDLE
        self.drop_parts()
        self.forget_walk()
        self.pending = None
        self.give_pending()

    def give_pending(self):
        if self.unfinished is not None:
            self.unfinished.give(self.pending_bytes)
        self.pending_bytes = 0
        return 0

    def start_transaction(self):
        if self.pending is None:
            self.pending = []

    def prepare(self):
        """Asks all queues whether they will take what the transaction holds, all of it at once: the one that will not,
        or None. Nothing has taken effect by then."""
        return refusing(self.pending, self.office.now)

    def fits_log(self):
        """Whether the log has room for all that the transaction holds: it goes there in one batch."""
        return self.journal is None or self.journal.has_room(logged_bytes(self.pending))

    def commit_prepared(self):
        """Publishes what the transaction holds after `prepare` found nothing against it: no queue refuses any of it."""
        self.office.committing = True
        if self.journal is not None:
            self.journal.transacted = True
        try:
            self.commit()
        finally:
            self.office.committing = False

    def commit(self):
        """Publishes what the transaction holds: whether every queue took it. Everything was checked when it came."""
        pending = self.pending
        self.pending = []
        self.give_pending()
        self.pending_work = 0
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
        self.give_pending()
        self.pending_work = 0

    def forget_permissions(self):
        """What the user may do has changed: everything is asked again."""
        self.writable = None
        self.inspected = None
