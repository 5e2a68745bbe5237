"""What is told of each queue and stream, of exchanges and virtual hosts, under RabbitMQ's names and in its groups.

A stream keeps nothing in memory and has no head, so it has no sample of such metrics."""

from __future__ import annotations

from typing import Any, Final

from leveret.core.queue.classic_queue import ClassicQueue
from leveret.core.tally import QueueTally
from leveret.management.metrics.table import CLUSTER, Column, Table


class QueueView:
    """One queue at one moment. Made once a scrape, so that its numbers go together."""

    __slots__ = ("age_s", "head_timestamp", "persistent", "ram", "tally")

    def __init__(self, queue: Any, now_ms: int) -> None:
        self.tally = QueueTally()
        self.tally.add(queue)
        # Ready messages and octets with their bodies in memory; None for streams.
        self.ram: tuple[int, int] | None = None
        # All messages and octets that would survive.
        self.persistent: tuple[int, int] | None = None
        self.age_s: float | None = None
        self.head_timestamp: object = None
        if isinstance(queue, ClassicQueue):
            self._look_inside(queue, now_ms)

    def _look_inside(self, queue: Any, now_ms: int) -> None:
        self.ram = queue.in_memory()
        self.persistent = (0, 0) if queue.queue_log is None else (queue.queue_log.live, queue.queue_log.live_bytes)
        head = queue.head()
        self.head_timestamp = "NaN"
        if head is not None:
            self.age_s = max(0, now_ms - head.stamp) / 1000
            timestamp = head.properties.timestamp
            if timestamp is not None:
                self.head_timestamp = int(timestamp)
        elif self.tally.ready == 0:
            self.age_s = 0.0


def _gauge(name: str, help: str, read: Any, prefix: str = "rabbitmq_") -> Column:
    return Column(name, "gauge", help, read, prefix)


def _counter(name: str, help: str, read: Any, prefix: str = "rabbitmq_") -> Column:
    return Column(name, "counter", help, read, prefix)


COARSE: Final = Table(
    "queue_coarse_metrics",
    (
        _gauge("queue_messages_ready", "Messages that wait for a consumer", lambda q: q.tally.ready),
        _gauge("queue_messages_unacked", "Messages that consumers hold", lambda q: q.tally.unacked),
        _gauge("queue_messages", "Messages ready and unacked together", lambda q: q.tally.ready + q.tally.unacked),
    ),
)
CONSUMERS: Final = _gauge("queue_consumers", "Consumers of a queue", lambda q: q.tally.consumers)
INSIDE: Final = Table(
    "queue_metrics",
    (
        CONSUMERS,
        _gauge(
            "queue_messages_ram",
            "Messages, ready or unacked, with their bodies in memory",
            lambda q: q.ram and q.ram[0] + q.tally.unacked,
        ),
        _gauge(
            "queue_messages_ram_bytes",
            "Octets of the bodies in memory",
            lambda q: q.ram and q.ram[1] + q.tally.unacked_bytes,
        ),
        _gauge("queue_messages_ready_ram", "Ready messages with their bodies in memory", lambda q: q.ram and q.ram[0]),
        _gauge(
            "queue_messages_unacked_ram",
            "Unacked messages with their bodies in memory: all of them",
            lambda q: q.ram and q.tally.unacked,
        ),
        _gauge(
            "queue_messages_persistent",
            "Messages that would survive a restart",
            lambda q: q.persistent and q.persistent[0],
        ),
        _gauge(
            "queue_messages_persistent_bytes",
            "Octets of the messages that would survive a restart",
            lambda q: q.persistent and q.persistent[1],
        ),
        _gauge(
            "queue_messages_bytes",
            "Octets of all bodies",
            lambda q: q.ram and q.tally.ready_bytes + q.tally.unacked_bytes,
        ),
        _gauge("queue_messages_ready_bytes", "Octets of ready messages", lambda q: q.ram and q.tally.ready_bytes),
        _gauge("queue_messages_unacked_bytes", "Octets of unacked messages", lambda q: q.ram and q.tally.unacked_bytes),
        _gauge(
            "queue_messages_paged_out",
            "Ready messages whose bodies are on disk alone",
            lambda q: q.ram and q.tally.ready - q.ram[0],
        ),
        _gauge(
            "queue_messages_paged_out_bytes",
            "Octets of ready messages whose bodies are on disk alone",
            lambda q: q.ram and q.tally.ready_bytes - q.ram[1],
        ),
        _gauge(
            "queue_head_message_timestamp",
            "The timestamp property of the message that is next, if it has one",
            lambda q: q.head_timestamp,
        ),
        _gauge(
            "queue_oldest_message_age_seconds",
            "How long the message that is next has waited; nothing while only the disk knows",
            lambda q: q.age_s,
            "leveret_",
        ),
        _gauge(
            "queue_messages_delayed", "Messages that are not due yet", lambda q: q.ram and q.tally.delayed, "leveret_"
        ),
    ),
)
DELIVERIES: Final = Table(
    "queue_delivery_metrics",
    (
        _counter("queue_messages_published_total", "Messages that came into a queue", lambda q: q.tally.publish),
        _counter("queue_get_ack_total", "Messages that gets took, to be acknowledged", lambda q: q.tally.get),
        _counter("queue_get_total", "Messages that gets took for good", lambda q: q.tally.get_no_ack),
        _counter(
            "queue_messages_delivered_ack_total",
            "Deliveries to consumers that acknowledge",
            lambda q: q.tally.deliver,
        ),
        _counter(
            "queue_messages_delivered_total",
            "Deliveries to consumers that do not acknowledge",
            lambda q: q.tally.deliver_no_ack,
        ),
        _counter("queue_messages_redelivered_total", "Deliveries that were not the first", lambda q: q.tally.redeliver),
        _counter("queue_messages_acked_total", "Acknowledgements", lambda q: q.tally.ack),
        _counter("queue_get_empty_total", "Gets that found nothing", lambda q: q.tally.get_empty),
        _counter(
            "queue_messages_expired_total", "Messages whose time had passed", lambda q: q.tally.expired, "leveret_"
        ),
        _counter(
            "queue_messages_dropped_total",
            "Messages that had to go because the queue was full",
            lambda q: q.tally.dropped,
            "leveret_",
        ),
        _counter(
            "queue_messages_rejected_total",
            "Messages that consumers did not want back",
            lambda q: q.tally.rejected,
            "leveret_",
        ),
        _counter(
            "queue_messages_quarantined_total",
            "Messages whose records are damaged or cannot be read",
            lambda q: q.tally.quarantined,
            "leveret_",
        ),
    ),
)

QUEUE_TABLES: Final = (COARSE, Table("queue_consumer_count", (CONSUMERS,)), INSIDE, DELIVERIES)

# Rows are figures: how far the slowest consumer of a stream is behind.
STREAM_TABLES: Final = (
    Table(
        "stream_consumer_metrics",
        (
            _gauge(
                "stream_consumer_max_offset_lag",
                "Messages between the end of a stream and its slowest consumer",
                lambda lag: lag,
            ),
        ),
    ),
)

# Rows are figures: how far each consumer with a name is behind by what is stored for it, whether it is here or not.
STORED_OFFSET_TABLES: Final = (
    Table(
        "stream_consumer_metrics",
        (
            _gauge(
                "stream_stored_offset_lag",
                "Messages between the end of a stream and the stored offset of a named consumer",
                lambda lag: lag,
                "leveret_",
            ),
        ),
    ),
)

# Rows are figures: messages, ready and unacked, of a queue of dead letters, by a queue they come from.
DEAD_LETTER_TABLES: Final = (
    Table(
        "dead_letter_metrics",
        (
            _gauge(
                "dead_letter_queue_messages",
                "Messages in a queue of dead letters, for each queue whose dead letters go there",
                lambda count: count,
                "leveret_",
            ),
        ),
    ),
)

EXCHANGE_TABLES: Final = (
    Table(
        "exchange_metrics",
        (
            _counter(
                "exchange_messages_published_total", "Messages that came to an exchange", lambda x: x.published_total
            ),
            _counter(
                "exchange_messages_routed_total", "Copies that went on to queues", lambda x: x.routed_total, "leveret_"
            ),
            _counter(
                "exchange_messages_unroutable_total",
                "Messages for which an exchange had no queue",
                lambda x: x.unroutable_total,
                "leveret_",
            ),
        ),
    ),
)

# Rows are figures: how many bindings an exchange has.
BINDING_TABLES: Final = (
    Table("exchange_bindings", (_gauge("exchange_bindings", "Bindings of an exchange", lambda n: n, CLUSTER),)),
    Table("exchange_names", (_gauge("exchange_name", "1 for every exchange", lambda n: 1, CLUSTER),)),
)

VHOST_TABLES: Final = (
    Table("vhost_status", (_gauge("vhost_status", "1 if a virtual host is running", lambda vhost: 1, CLUSTER),)),
)
