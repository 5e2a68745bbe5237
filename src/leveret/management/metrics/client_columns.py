"""What is told of each channel and connection, under RabbitMQ's names and in its groups.

RabbitMQ counts a channel's messages by exchange and queue; here they are the channel's."""

from __future__ import annotations

from typing import Any, Final

from leveret.broker.connected import ChannelInfo
from leveret.core.tally import ChannelTally
from leveret.management.metrics.table import Column, Table


class ChannelView:
    """One channel at one moment."""

    __slots__ = ("seen", "tally")

    def __init__(self, seen: ChannelInfo) -> None:
        self.seen = seen
        self.tally = ChannelTally()
        self.tally.add(seen.core)


def _gauge(name: str, help: str, read: Any) -> Column:
    return Column(name, "gauge", help, read)


def _counter(name: str, help: str, read: Any) -> Column:
    return Column(name, "counter", help, read)


CHANNEL_TABLES: Final = (
    Table(
        "channel_metrics",
        (
            _gauge("channel_consumers", "Consumers of a channel", lambda c: c.tally.consumers),
            _gauge("channel_messages_unacked", "Messages that a channel's client holds", lambda c: c.tally.unacked),
            _gauge(
                "channel_messages_unconfirmed",
                "Messages that were published and not confirmed yet",
                lambda c: c.seen.unconfirmed_count,
            ),
            _gauge(
                "channel_messages_uncommitted",
                "Messages that wait for their transaction",
                lambda c: c.seen.uncommitted_count,
            ),
            _gauge(
                "channel_acks_uncommitted",
                "Acknowledgements that wait for their transaction",
                lambda c: c.seen.uncommitted_acks,
            ),
            _gauge("consumer_prefetch", "How much each new consumer may hold; 0 any", lambda c: c.seen.prefetch_count),
            _gauge(
                "channel_prefetch",
                "How much all consumers together may hold; 0 any",
                lambda c: c.seen.global_prefetch_count,
            ),
        ),
    ),
    Table(
        "channel_exchange_metrics",
        (
            _counter("channel_messages_published_total", "Messages published", lambda c: c.tally.publish),
            _counter("channel_messages_confirmed_total", "Messages confirmed", lambda c: c.tally.confirm),
            _counter(
                "channel_messages_unroutable_returned_total",
                "Messages that found no queue and were returned",
                lambda c: c.tally.return_unroutable,
            ),
            _counter(
                "channel_messages_unroutable_dropped_total",
                "Messages that found no queue and are lost",
                lambda c: c.tally.drop_unroutable,
            ),
        ),
    ),
    Table(
        "channel_queue_metrics",
        (
            _counter("channel_get_ack_total", "Messages that gets took, to be acknowledged", lambda c: c.tally.get),
            _counter("channel_get_total", "Messages that gets took for good", lambda c: c.tally.get_no_ack),
            _counter(
                "channel_messages_delivered_ack_total", "Deliveries to be acknowledged", lambda c: c.tally.deliver
            ),
            _counter(
                "channel_messages_delivered_total",
                "Deliveries without acknowledgement",
                lambda c: c.tally.deliver_no_ack,
            ),
            _counter(
                "channel_messages_redelivered_total", "Deliveries that were not the first", lambda c: c.tally.redeliver
            ),
            _counter("channel_messages_acked_total", "Acknowledgements", lambda c: c.tally.ack),
            _counter("channel_get_empty_total", "Gets that found nothing", lambda c: c.tally.get_empty),
        ),
    ),
)

# Rows are broker.connected.ConnectionInfo.
CONNECTION_TABLES: Final = (
    Table(
        "connection_coarse_metrics",
        (
            _counter("connection_incoming_bytes_total", "Octets received", lambda c: c.received_bytes),
            _counter("connection_outgoing_bytes_total", "Octets sent", lambda c: c.sent_bytes),
        ),
    ),
    Table(
        "connection_metrics",
        (
            _counter("connection_incoming_packets_total", "Chunks received", lambda c: c.received_count),
            _counter("connection_outgoing_packets_total", "Sends", lambda c: c.sent_count),
            _gauge("connection_channels", "Open channels", lambda c: c.channel_count),
            Column(
                "connection_pending_bytes",
                "gauge",
                "Octets that wait to be sent",
                lambda c: c.pending_bytes,
                "leveret_",
            ),
        ),
    ),
)
