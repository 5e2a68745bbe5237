"""The two kinds of subscriber a channel has: consumers, which are sent messages, and getters, which ask for one."""

import cython

from leveret.core.codec.tables import decode_table, encode_table
from leveret.core.queue.contract import Queue, Subscriber

if not cython.compiled:
    from leveret.core.codec.content import write_deliver, write_get_ok
    from leveret.core.codec.message import shown
    from leveret.core.queue.contract import EMPTY, GIVEN, LATER

DELIVER_ID = b"\x00\x3c\x00\x3c"


def is_bare(entry):
    """Whether the message goes out as it came, as nearly all do."""
    return entry.delivery_count == 0 and not entry.message.properties.has_bcc


def dressed(queue, entry):
    """The message as this consumer is to see it: with what the queue adds, and without what is not for clients."""
    message = queue.dressed(entry)
    return shown(message) if message.properties.has_bcc else message


class Consumer(Subscriber):
    def __init__(
        self,
        channel,
        queue: "Queue | None",
        tag,
        no_ack,
        exclusive,
        priority,
        prefetch_count,
        prefetch_bytes,
        arguments,
    ):
        Subscriber.__init__(self)
        self.channel = channel
        self.queue = queue
        self.tag = tag
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.priority = priority
        self.metered = True
        # basic.qos global=false as it was when the consumer started; 0 is no limit.
        self.prefetch_count = prefetch_count
        self.prefetch_bytes = prefetch_bytes
        # Kept as octets: there may be very many consumers, and a table costs many times as much.
        self.argument_octets = encode_table(arguments) if arguments else b""
        # x-consumer-timeout; 0 is never, -1 as its queue says.
        self.ack_timeout_ms = -1
        self.prefix = DELIVER_ID + bytes([len(tag)]) + tag
        self.delivered_total = 0

    def arguments(self):
        """As a table, for people who ask."""
        return decode_table(self.argument_octets)[0] if self.argument_octets else {}

    def can_take(self):
        # Without acks nothing is held, so that its own limits are never reached. The channel's may be, by others.
        if self.prefetch_count > 0 and self.unacked_count >= self.prefetch_count:
            return False
        if self.prefetch_bytes > 0 and self.unacked_bytes >= self.prefetch_bytes:
            return False
        return not self.channel.is_full()

    def take(self, entry):
        channel = self.channel
        channel.last_tag += 1
        channel.delivered_total += 1
        self.delivered_total += 1
        channel.redelivered_total += entry.seen
        self.waited = 0
        if channel.publish_path.trace is not None:
            channel.publish_path.trace.delivered(self.queue, entry.message, entry.message.body, entry.seen)
        channel.hold(entry, self)
        return write_deliver(
            channel.write_buffer,
            channel.number,
            self.prefix,
            channel.last_tag,
            entry.seen,
            entry.message if is_bare(entry) else dressed(self.queue, entry),
            channel.publish_path.payload_max,
        )

    def hand(self, message, redelivered):
        if message.properties.has_bcc:
            return self.hand(shown(message), redelivered)
        channel = self.channel
        channel.last_tag += 1
        channel.delivered_total += 1
        self.delivered_total += 1
        channel.handed_total += 1
        channel.redelivered_total += redelivered
        self.waited = 0
        if channel.publish_path.trace is not None:
            channel.publish_path.trace.delivered(self.queue, message, message.body, redelivered)
        return write_deliver(
            channel.write_buffer,
            channel.number,
            self.prefix,
            channel.last_tag,
            redelivered,
            message,
            channel.publish_path.payload_max,
        )

    def park(self):
        self.waiting = False
        self.channel.parked.append(self)
        return 0

    def activity_changed(self, active):
        self.active = active


class Getter(Subscriber):
    """basic.get on one queue: takes whenever it is given something, and is never in a consumer ring."""

    def __init__(self, channel, queue, no_ack):
        Subscriber.__init__(self)
        self.channel = channel
        self.queue = queue
        self.no_ack = no_ack

    def can_take(self):
        return True

    def take(self, entry):
        channel = self.channel
        channel.last_tag += 1
        channel.delivered_total += 1
        channel.got_total += 1
        channel.redelivered_total += entry.seen
        if channel.publish_path.trace is not None:
            channel.publish_path.trace.delivered(self.queue, entry.message, entry.message.body, entry.seen)
        channel.hold(entry, self)
        return write_get_ok(
            channel.write_buffer,
            channel.number,
            channel.last_tag,
            entry.seen,
            entry.message if is_bare(entry) else dressed(self.queue, entry),
            self.queue.ready_count(),
            channel.publish_path.payload_max,
        )

    def hand(self, message, redelivered):
        if message.properties.has_bcc:
            return self.hand(shown(message), redelivered)
        channel = self.channel
        channel.last_tag += 1
        channel.delivered_total += 1
        channel.handed_total += 1
        channel.got_no_ack_total += 1
        channel.redelivered_total += redelivered
        if channel.publish_path.trace is not None:
            channel.publish_path.trace.delivered(self.queue, message, message.body, redelivered)
        return write_get_ok(
            channel.write_buffer,
            channel.number,
            channel.last_tag,
            redelivered,
            message,
            self.queue.ready_count(),
            channel.publish_path.payload_max,
        )

    def fetch(self):
        """Asks the queue for one message: true if it came, false if there is none, None if it will come from disk."""
        answer = self.queue.get(self)
        self.channel.get_empty_total += answer == EMPTY
        return None if answer == LATER else answer == GIVEN
