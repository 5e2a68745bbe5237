"""Sums of what queues and channels have counted, by RabbitMQ's names.

The data plane counts each event once, at the queue and at the channel where it happens; here that becomes what people
ask for. Of one object, of all there are, or of those that are gone: a sum that gets everything before it goes never
becomes less. Runs over ten thousand queues at a time, hence in C."""

from leveret.core.queue.classic_queue import ClassicQueue
from leveret.core.stream.queue import StreamQueue

DELIVERIES = ("deliver", "deliver_no_ack", "get", "get_no_ack", "get_empty", "redeliver", "ack")
QUEUE_VALUES = ("publish", *DELIVERIES, "messages_ready", "messages_unacknowledged")
CHANNEL_VALUES = ("publish", "confirm", "return_unroutable", "drop_unroutable", *DELIVERIES)


class QueueTally:
    """What is there now (`merge` leaves it alone), and what happened so far."""

    def __init__(self):
        self.queues = 0
        self.consumers = 0
        self.ready = 0
        self.unacked = 0
        self.delayed = 0
        self.ready_bytes = 0
        self.unacked_bytes = 0
        self.publish = 0
        # To consumers that acknowledge, and to those that do not; by gets; and gets in vain.
        self.deliver = 0
        self.deliver_no_ack = 0
        self.get = 0
        self.get_no_ack = 0
        self.get_empty = 0
        # Of those, not for the first time.
        self.redeliver = 0
        self.ack = 0
        self.requeued = 0
        self.rejected = 0
        self.purged = 0
        # By the broker itself, to put them elsewhere.
        self.withdrawn = 0
        self.expired = 0
        # What damaged or unreadable records have.
        self.quarantined = 0
        # For others, because the queue was full, and for having been handed out too often.
        self.dropped = 0
        self.limited = 0
        self.refused = 0
        self.buried = 0
        # Left in the millisecond they came in, which the office's histogram does not know of.
        self.quick = 0
        # Of the deliveries: by the stream protocol.
        self.streamed = 0

    def add(self, queue):
        """Other kinds of queues, reply addresses for one, count nothing here."""
        if isinstance(queue, ClassicQueue):
            self.add_classic(queue)
        elif isinstance(queue, StreamQueue):
            self.add_stream(queue)

    def add_classic(self, queue):
        self.queues += 1
        if queue.subscribers is not None:
            self.consumers += len(queue.subscribers)
        self.ready += queue.ready_total()
        self.ready_bytes += queue.ready_bytes_total()
        self.unacked += queue.unacked_count
        self.unacked_bytes += queue.unacked_bytes
        self.quarantined += queue.quarantined_total
        if queue.delays is not None:
            self.delayed += queue.delays.slots.count
            self.quarantined += queue.delays.quarantined_total
        self.publish += queue.published_total
        self.deliver += queue.delivered_total - queue.handed_total - queue.got_total
        self.deliver_no_ack += queue.handed_total - queue.got_no_ack_total
        self.get += queue.got_total
        self.get_no_ack += queue.got_no_ack_total
        self.get_empty += queue.get_empty_total
        self.redeliver += queue.redelivered_total
        self.ack += queue.settled_total - queue.handed_total
        self.requeued += queue.requeued_total
        self.rejected += queue.discarded_total - queue.purged_total
        self.purged += queue.purged_total
        self.withdrawn += queue.withdrawn_total
        self.expired += queue.expired_total
        self.dropped += queue.dropped_total
        self.limited += queue.limited_total
        self.refused += queue.refused_total
        self.buried += queue.buried_total
        self.quick += queue.quick_total + queue.handed_total - queue.waited_total
        return 0

    def add_stream(self, queue):
        self.queues += 1
        self.consumers += queue.subscriptions
        if queue.subscribers is not None:
            self.consumers += len(queue.subscribers)
        self.ready += queue.ready_count()
        self.publish += queue.published_total
        self.deliver += queue.delivered_total
        self.streamed += queue.streamed_total
        self.ack += queue.settled_total
        return 0

    def merge(self, other):
        """Adds what happened elsewhere."""
        self.publish += other.publish
        self.deliver += other.deliver
        self.deliver_no_ack += other.deliver_no_ack
        self.get += other.get
        self.get_no_ack += other.get_no_ack
        self.get_empty += other.get_empty
        self.redeliver += other.redeliver
        self.ack += other.ack
        self.requeued += other.requeued
        self.rejected += other.rejected
        self.purged += other.purged
        self.withdrawn += other.withdrawn
        self.expired += other.expired
        self.quarantined += other.quarantined
        self.dropped += other.dropped
        self.limited += other.limited
        self.refused += other.refused
        self.buried += other.buried
        self.quick += other.quick
        self.streamed += other.streamed


def add_queues(queues, classic, stream):
    """Adds all queues of a virtual host, each kind to its own."""
    for queue in queues.values():
        if isinstance(queue, ClassicQueue):
            classic.add_classic(queue)
        elif isinstance(queue, StreamQueue):
            stream.add_stream(queue)


def queue_values(queue):
    """One queue's numbers for its series, in the order of QUEUE_VALUES."""
    tally = QueueTally()
    tally.add(queue)
    return (
        tally.publish,
        tally.deliver,
        tally.deliver_no_ack,
        tally.get,
        tally.get_no_ack,
        tally.get_empty,
        tally.redeliver,
        tally.ack,
        tally.ready,
        tally.unacked,
    )


class ChannelTally:
    """The same for channels of AMQP: what is there now, and what happened so far."""

    def __init__(self):
        self.channels = 0
        self.consumers = 0
        # Channels that have published something.
        self.publishers = 0
        self.unacked = 0
        # Messages that came in, those of them that are to be confirmed, and those that were.
        self.publish = 0
        self.publish_confirm = 0
        self.confirm = 0
        # Copies that went to queues; messages that no queue wanted: sent back, or gone; and those that one refused.
        self.routed = 0
        self.return_unroutable = 0
        self.drop_unroutable = 0
        self.refused = 0
        self.deliver = 0
        self.deliver_no_ack = 0
        self.get = 0
        self.get_no_ack = 0
        self.get_empty = 0
        self.redeliver = 0
        self.ack = 0
        self.rejected = 0

    def add(self, channel):
        publish_path = channel.publish_path
        publish_path.flush_sizes()
        self.channels += 1
        self.consumers += len(channel.consumers)
        self.publishers += publish_path.published_total > 0
        self.unacked += channel.unacked.count
        self.publish += publish_path.published_total
        self.publish_confirm += publish_path.publish_seq
        self.confirm += publish_path.confirmed_total
        self.routed += publish_path.routed_total
        self.return_unroutable += publish_path.returned_total
        self.drop_unroutable += publish_path.dropped_total
        self.refused += publish_path.refused_total
        self.deliver += channel.delivered_total - channel.handed_total - channel.got_total
        self.deliver_no_ack += channel.handed_total - channel.got_no_ack_total
        self.get += channel.got_total
        self.get_no_ack += channel.got_no_ack_total
        self.get_empty += channel.get_empty_total
        self.redeliver += channel.redelivered_total
        self.ack += channel.acked_total
        self.rejected += channel.rejected_total

    def merge(self, other):
        """Adds what happened elsewhere."""
        self.publish += other.publish
        self.publish_confirm += other.publish_confirm
        self.confirm += other.confirm
        self.routed += other.routed
        self.return_unroutable += other.return_unroutable
        self.drop_unroutable += other.drop_unroutable
        self.refused += other.refused
        self.deliver += other.deliver
        self.deliver_no_ack += other.deliver_no_ack
        self.get += other.get
        self.get_no_ack += other.get_no_ack
        self.get_empty += other.get_empty
        self.redeliver += other.redeliver
        self.ack += other.ack
        self.rejected += other.rejected


def channel_values(channel):
    """One channel's numbers for its series, in the order of CHANNEL_VALUES."""
    tally = ChannelTally()
    tally.add(channel)
    return (
        tally.publish,
        tally.confirm,
        tally.return_unroutable,
        tally.drop_unroutable,
        tally.deliver,
        tally.deliver_no_ack,
        tally.get,
        tally.get_no_ack,
        tally.get_empty,
        tally.redeliver,
        tally.ack,
    )
