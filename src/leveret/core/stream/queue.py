"""A stream as a queue: it takes messages like any other, and its consumers read without taking anything away.

A pure machine on top of the stream's log. Every consumer has a place of its own (core.stream.consumer); acks give
credit, and for a consumer with a name they are how far it has come."""

import cython

from leveret.core.codec.names import NAME_OCTETS_MAX
from leveret.core.queue.contract import Queue
from leveret.core.stream.cursor import Cursor
from leveret.errors import HardError

if not cython.compiled:
    from leveret.core.queue.contract import ACCEPTED, KNOWN
    from leveret.core.stream.log import REWRITE

PRODUCER_HEADER = "x-producer-name"
ID_HEADER = "x-publishing-id"
FILTER_HEADER = "x-stream-filter-value"
OFFSET_HEADER = "x-stream-offset"
STAMP_HEADER = "x-stream-timestamp"
NAME_BYTES_MAX = NAME_OCTETS_MAX


class StreamQueue(Queue):
    def __init__(self, name, record, log, office):
        Queue.__init__(self, name, record)
        self.log = log
        self.office = office
        # Acks are all that it understands: there is nowhere to put a message back to.
        self.ack_only = True
        # Nobody else waits for what one consumer holds.
        self.ack_timeout_ms = 0
        self.address = b"\x00" + bytes([len(name)]) + name
        # Readers of the stream protocol.
        self.subscriptions = 0
        self.published_total = 0
        self.known_total = 0
        self.delivered_total = 0
        # Of these: by the stream protocol.
        self.streamed_total = 0
        self.settled_total = 0

    # ---- offsets

    @property
    def first_offset(self):
        return self.log.first_offset()

    @property
    def next_offset(self):
        return self.log.next_offset

    @property
    def committed_offset(self):
        return self.log.committed_offset

    # ---- messages in

    def publish(self, message):
        properties = message.properties
        if properties.has_stream or properties.has_bcc:
            return self.publish_with_headers(message)
        self.take_in(message, 0, None)
        return ACCEPTED

    def prepare(self, message, coming):
        # A stream without a file to write to says so before anything else of the transaction takes effect.
        self.log.open_part()
        return True

    def take_in(self, message, flags, filter_value):
        self.published_total += 1
        self.log.append(message.address, message.properties.raw, message.body, 1, flags, filter_value, self.office.now)
        self.log.journal.beside_message = message
        return 0

    def publish_with_headers(self, message):
        """The message may have been published before, or have a value to be filtered by."""
        headers = message.properties.headers()
        producer = octets_of(headers.get(PRODUCER_HEADER))
        publishing_id = headers.get(ID_HEADER)
        if producer is not None and is_id(publishing_id) and not self.log.take_id(producer, publishing_id):
            self.known_total += 1
            return KNOWN
        dressed = OFFSET_HEADER in headers or STAMP_HEADER in headers
        flags = REWRITE if dressed or message.properties.has_bcc else 0
        self.take_in(message, flags, octets_of(headers.get(FILTER_HEADER)))
        return ACCEPTED

    def append_entry(self, body, count, flags, extra, filter_value):
        """Takes something of the stream protocol just as it came; where in the stream it is."""
        self.office.stream_sizes.note(len(body))
        self.published_total += count
        return self.log.append(self.address, extra, body, count, flags, filter_value, self.office.now)

    def take_id(self, producer, publishing_id):
        """Whether the producer has not published this id nor a higher one; then the message must follow at once."""
        if self.log.take_id(producer, publishing_id):
            return True
        self.known_total += 1
        return False

    def last_id(self, producer):
        return self.log.tracking.producers.get(producer, -1)

    def await_sync(self, publisher):
        """The publisher is told once everything up to now is on disk."""
        self.log.journal.await_batch(publisher)
        return self.log.journal.want_commit()

    # ---- consumers

    def subscriber_count(self):
        return Queue.subscriber_count(self) + self.subscriptions

    def open_cursor(self, owner, offset=0, blooms=None, unfiltered=False):
        """A reader's place from this offset on; with Bloom filters, for entries that may have one of their values."""
        cursor = Cursor(self.log, owner)
        cursor.blooms = blooms
        cursor.unfiltered = unfiltered
        cursor.seek(offset)
        return cursor

    def stored_offset(self, consumer):
        return self.log.tracking.consumers.get(consumer, -1)

    def store_offset(self, consumer, offset):
        return self.log.store_offset(consumer, offset)

    def forget_offset(self, consumer):
        """Whether the stream knew how far this consumer has come; from now on it does not."""
        return self.log.forget_offset(consumer)

    def stored_lags(self):
        """By the names of consumers: how many messages there are behind what is stored for them."""
        consumers = self.log.tracking.consumers
        # Compared before anything is taken away: an offset may be stored that is not there yet.
        end = self.log.committed_offset
        return {name: end - 1 - offset if offset < end else 0 for name, offset in consumers.items()}

    def subscribe(self, subscriber):
        if self.subscribers is None:
            self.subscribers = {}
        self.subscribers[subscriber] = True

    def unsubscribe(self, subscriber):
        if self.subscribers is not None and self.subscribers.pop(subscriber, None) is not None:
            if not self.subscribers:
                self.subscribers = None
            subscriber.stop()

    def wake(self, subscriber):
        return subscriber.go_on()

    def settle(self, entry):
        self.settled_total += 1
        entry.holder.settled(entry.position)
        return 0

    def keeps(self, message):
        return True

    def refuse_return(self, method):
        if not self.deleted:
            raise HardError(540, self.refusal("basic.nack and basic.reject"), method)

    def refusal(self, what):
        record = self.record
        return f"{what} not supported by stream queues queue '{record.name}' in vhost '{record.vhost}'"

    # ---- what there is

    def activity(self):
        return (
            self.published_total
            + self.known_total
            + self.delivered_total
            + self.settled_total
            + self.log.committed_offset
            + self.log.first_offset()
        )

    def ready_count(self):
        return self.log.committed_offset - self.log.first_offset()

    def close(self):
        self.deleted = True
        for subscriber in list(self.subscribers or ()):
            subscriber.stop()
        self.subscribers = None
        self.log.close()
        self.log.stream_store.remove(self.log)


def octets_of(value):
    """A name or a filter value as octets; None if it is not a text that has a place in the log."""
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogateescape")
    if isinstance(value, bytes) and 0 < len(value) <= NAME_BYTES_MAX:
        return value
    return None


def is_id(value):
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63
