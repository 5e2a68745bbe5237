"""The control-plane side of one channel: what it was told last.

The compiled channel does the work per message; this object answers its rare questions and carries the state that only
control methods need. It is also the Requester in whose name things are declared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.auth.access import Access
from leveret.auth.audit import Actor
from leveret.broker.connected import ConsumerInfo
from leveret.broker.gate import Gate
from leveret.broker.vhost import LiveVhost
from leveret.core.codec.names import name_text
from leveret.core.connection.channel import Channel
from leveret.core.connection.consumer import Consumer
from leveret.core.connection.publish_path import PublishPath
from leveret.errors import SoftError
from leveret.session.ack_timeouts import AckTimeouts
from leveret.session.seen import seen_consumer
from leveret.wire.basic_methods import BasicCancel
from leveret.wire.codec import encode_method
from leveret.wire.method import Method

if TYPE_CHECKING:
    from leveret.session.session import Session


class ChannelSession:
    __slots__ = (
        "__weakref__",
        "ack_timeouts",
        "core",
        "gate",
        "last_queue",
        "number",
        "prefetch_bytes",
        "prefetch_count",
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
        # Made when the first timeout comes into force.
        self.ack_timeouts: AckTimeouts | None = None
        # What is published here passes it.
        self.gate = Gate(session.vhost, session.access)
        publish_path = PublishPath(
            number,
            session.write_buffer,
            session.vhost.router,
            self.gate,
            session.frame_max - 8,
            session.settings.body_bytes_max,
            session.journal,
            session.broker.office,
            session.unfinished,
        )
        self.core = Channel(number, session.write_buffer, publish_path, self)
        self.heed_tracing()

    def heed_tracing(self) -> None:
        """Has its messages noted while the virtual host is traced."""
        session, firehose = self.session, self.session.vhost.firehose
        traced = None if firehose is None else firehose.trace(session.name, self.number, session.user)
        self.core.publish_path.trace = traced

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
    def actor(self) -> Actor:
        return self.session.actor

    @property
    def reply_name(self) -> bytes | None:
        """This channel's direct reply-to address while it has a reply consumer."""
        return self.gate.reply_name

    @reply_name.setter
    def reply_name(self, name: bytes | None) -> None:
        self.gate.reply_name = name

    @property
    def is_open(self) -> bool:
        """False once channel.close was sent or received."""
        return bool(self.core.state == 0)

    def send(self, method: Method) -> None:
        self.session.write_buffer.write(encode_method(self.number, method))

    def named_queue(self, name: str) -> str:
        """An empty queue name means the last one declared here."""
        if name:
            return name
        if self.last_queue is None:
            raise SoftError(404, "no previously declared queue")
        return self.last_queue

    # ---- consumers

    def add_consumer(self, consumer: Consumer) -> None:
        """Raises 530 or 406 if the channel, the connection or the user has as many as may be."""
        session = self.session
        session.broker.limits.consumers.take(
            session.connection_id, session.user, len(consumer.argument_octets), len(self.core.consumers)
        )
        self.core.add_consumer(consumer)

    def remove_consumer(self, tag: bytes) -> Consumer | None:
        """Takes the consumer out of its queue, if there is such a one."""
        consumer: Consumer | None = self.core.remove_consumer(tag)
        if consumer is not None:
            session = self.session
            session.broker.limits.consumers.leave(session.connection_id, session.user, len(consumer.argument_octets))
        return consumer

    # ---- what the broker tells it

    def consumer_lost(self, tag: bytes) -> None:
        """The consumer's queue was deleted."""
        self.remove_consumer(tag)
        if self.session.client_can("consumer_cancel_notify"):
            self.session.send_after_reply(self.number, BasicCancel(name_text(tag), nowait=True))

    def seen_consumer(self, consumer: Consumer) -> ConsumerInfo:
        """For operators, who come from the queue's side."""
        return seen_consumer(self, consumer)

    # ---- the end

    def release(self) -> None:
        """Gives everything back. What was unacked returns before the consumers leave, because the next active consumer
        of a single-active queue is handed messages at once and must get them in order; it goes to others all the same,
        since consumers of a closing channel take nothing."""
        core = self.core
        if self.ack_timeouts is not None:
            self.ack_timeouts.stop()
            self.ack_timeouts = None
        core.publish_path.flush_confirms()
        core.start_closing()
        core.publish_path.abandon()
        core.requeue_all()
        left = [consumer for tag in list(core.consumers) if (consumer := self.remove_consumer(tag)) is not None]
        core.close()
        if self.reply_name is not None:
            self.vhost.remove_reply(self.reply_name)
            self.reply_name = None
        for consumer in left:
            if consumer.queue.record is not None:
                self.session.topology.consumer_left(self.vhost, consumer.queue)
