"""The control-plane side of one channel: what it was told last, and the gate its publishes pass.

The compiled channel does the work per message; this object answers its rare questions and carries the state that only
control methods need. It is also the Requester in whose name things are declared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.broker.access import WRITE, Access
from leveret.broker.connected import SeenConsumer
from leveret.broker.copies import copy_keys, resolve_copies
from leveret.broker.topology import REPLY_TO_PREFIX, exchange_text
from leveret.broker.vhost import LiveVhost
from leveret.catalog.arguments import check_expiration
from leveret.core.channel import Channel
from leveret.core.consumer import Consumer
from leveret.core.contract import Queue
from leveret.core.intake import Intake
from leveret.core.properties import Properties
from leveret.core.router import Exchange
from leveret.errors import SoftError
from leveret.queues.delay import delayed
from leveret.session.ack_timeouts import AckTimeouts
from leveret.session.seen import seen_consumer
from leveret.wire.basic_methods import BasicCancel
from leveret.wire.codec import encode_method
from leveret.wire.method import Method

if TYPE_CHECKING:
    from leveret.session.session import Session

REPLY_TO = REPLY_TO_PREFIX.encode()


class ChannelDesk:
    __slots__ = (
        "__weakref__",
        "ack_timeouts",
        "core",
        "last_queue",
        "number",
        "prefetch_bytes",
        "prefetch_count",
        "reply_name",
        "session",
    )

    def __init__(self, session: Session, number: int) -> None:
        self.session = session
        self.number = number
        # The queue that an empty name means: the last one declared on this channel.
        self.last_queue: str | None = None
        # basic.qos global=false, for consumers that start from now on.
        self.prefetch_count = 0
        self.prefetch_bytes = 0
        # This channel's direct reply-to address while it has a reply consumer.
        self.reply_name: bytes | None = None
        # Made when the first timeout comes into force.
        self.ack_timeouts: AckTimeouts | None = None
        intake = Intake(
            number,
            session.outbox,
            session.vhost.router,
            self,
            session.frame_max - 8,
            session.settings.body_bytes_max,
            session.journal,
            session.broker.office,
        )
        self.core = Channel(number, session.outbox, intake, self)

    # ---- the Requester

    @property
    def vhost(self) -> LiveVhost:
        return self.session.vhost

    @property
    def access(self) -> Access:
        return self.session.access

    @property
    def connection_id(self) -> int:
        return self.session.connection_id

    @property
    def is_open(self) -> bool:
        """False once channel.close was sent or received."""
        return bool(self.core.state == 0)

    def send(self, method: Method) -> None:
        self.session.outbox.write(encode_method(self.number, method))

    def named_queue(self, name: str) -> str:
        """An empty queue name means the last one declared here."""
        if name:
            return name
        if self.last_queue is None:
            raise SoftError(404, "no previously declared queue")
        return self.last_queue

    # ---- the gate of the intake

    def refuse_unknown_exchange(self, address: bytes) -> None:
        name = address[1 : 1 + address[0]].decode("utf-8", "replace")
        self.access.check_exchange(WRITE, name)
        raise SoftError(404, f"no {exchange_text(self.vhost.name, name)}")

    def check_publish(self, exchange: Exchange) -> bool:
        """Whether each routing key has to be asked for, too."""
        name = exchange.record.name
        self.access.check_exchange(WRITE, name)
        if exchange.internal:
            raise SoftError(403, f"cannot publish to internal {exchange_text(self.vhost.name, name)}")
        return self.access.has_topics(exchange.record)

    def check_key(self, exchange: Exchange, key: bytes) -> None:
        self.access.check_topic(WRITE, exchange.record, key.decode("utf-8", "surrogateescape"))

    def check_copies(self, exchange: Exchange, properties: Properties) -> None:
        """The keys in CC and BCC: what may not be published with a key must not get there as a copy."""
        if self.access.has_topics(exchange.record):
            for key in copy_keys(properties):
                self.check_key(exchange, key)

    def inspect(self, properties: Properties) -> Properties:
        """Checks the properties that the broker answers for, and gives a direct reply-to its return address."""
        user_id = properties.user_id
        if user_id is not None and user_id != self.session.user.encode() and not self.session.may_impersonate():
            raise SoftError(
                406,
                f"user_id property set to '{user_id.decode('utf-8', 'replace')}' but authenticated user was "
                f"'{self.session.user}'",
            )
        if properties.expiration is not None:
            check_expiration(properties.expiration)
        if properties.reply_to == REPLY_TO:
            if self.reply_name is None:
                raise SoftError(406, "fast reply consumer does not exist")
            return properties.replace({"reply_to": self.reply_name.decode()})
        return properties

    def resolve_copies(self, exchange: Exchange, key: bytes, properties: Properties) -> tuple[Queue, ...]:
        self.check_copies(exchange, properties)
        return resolve_copies(self.vhost.router, exchange, key, properties)

    def delay(self, properties: Properties) -> tuple[Properties, int]:
        """What a message with x-delay goes on with, and how many milliseconds it waits."""
        if properties.has_cc:
            # Now: when a delayed exchange routes it, nobody can be told any more that its headers are bad.
            copy_keys(properties)
        return delayed(properties)

    # ---- what the broker tells it

    def consumer_lost(self, tag: bytes) -> None:
        """The consumer's queue was deleted."""
        self.core.remove_consumer(tag)
        if self.session.client_can("consumer_cancel_notify"):
            self.session.send_after_reply(self.number, BasicCancel(tag.decode("utf-8", "surrogateescape"), nowait=True))

    def seen_consumer(self, consumer: Consumer) -> SeenConsumer:
        """For operators, who come from the queue's side."""
        return seen_consumer(self, consumer)

    # ---- the end

    def release(self) -> None:
        """Gives everything back. What was unacked returns before the consumers leave, because the next active consumer
        of a single-active queue is handed messages at once and must get them in order; it goes to others all the same,
        since nobody on a closing channel can take."""
        core = self.core
        if self.ack_timeouts is not None:
            self.ack_timeouts.stop()
            self.ack_timeouts = None
        core.intake.flush_confirms()
        core.start_closing()
        core.intake.abandon()
        core.requeue_all()
        left = [core.remove_consumer(tag) for tag in list(core.consumers)]
        core.close()
        if self.reply_name is not None:
            self.vhost.remove_reply(self.reply_name)
            self.reply_name = None
        for consumer in left:
            if consumer.queue.record is not None:
                self.session.topology.consumer_left(self.vhost, consumer.queue)
