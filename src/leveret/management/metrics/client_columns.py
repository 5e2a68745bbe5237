"""What is told of each channel and connection, under RabbitMQ's names and in its groups.

RabbitMQ counts a channel's messages by exchange and queue; here they are the channel's."""

from __future__ import annotations

from typing import Any, Final

from leveret.core.tally import ChannelTally
from leveret.management.metrics.table import Column, Table


class ChannelView:
    """One channel at one moment."""

    __slots__ = ("channel_prefetch", "consumer_prefetch", "tally", "uncommitted")

    def __init__(self, desk: Any) -> None:
        channel = desk.core
        self.tally = ChannelTally()
        self.tally.add(channel)
        self.consumer_prefetch: int = desk.prefetch_count
        self.channel_prefetch: int = channel.prefetch_count
        self.uncommitted = len(channel.intake.pending or ())


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
                lambda c: max(0, c.tally.publish_confirm - c.tally.confirm),
            ),
            _gauge(
                "channel_messages_uncommitted", "Messages that wait for their transaction", lambda c: c.uncommitted
            ),
            _gauge("consumer_prefetch", "How much each new consumer may hold; 0 any", lambda c: c.consumer_prefetch),
            _gauge("channel_prefetch", "How much all consumers together may hold; 0 any", lambda c: c.channel_prefetch),
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
                "channel_messages_delivered_total", "Deliveries without acknowledgement", lambda c: c.tally.deliver_no_ack
            ),
            _counter("channel_messages_redelivered_total", "Deliveries that were not the first", lambda c: c.tally.redeliver),
            _counter("channel_messages_acked_total", "Acknowledgements", lambda c: c.tally.ack),
            _counter("channel_get_empty_total", "Gets that found nothing", lambda c: c.tally.get_empty),
        ),
    ),
)

# Rows are sessions; of a stream client's, channels are none.
CONNECTION_TABLES: Final = (
    Table(
        "connection_coarse_metrics",
        (
            _counter("connection_incoming_bytes_total", "Octets received", lambda s: s.core.bytes_received),
            _counter("connection_outgoing_bytes_total", "Octets sent", lambda s: s.outbox.bytes_sent),
        ),
    ),
    Table(
        "connection_metrics",
        (
            _counter("connection_incoming_packets_total", "Chunks received", lambda s: s.core.chunks_received),
            _counter("connection_outgoing_packets_total", "Sends", lambda s: s.outbox.sends_total),
            _gauge("connection_pending_bytes", "Octets that wait to be sent", lambda s: s.outbox.pending()),
            _gauge("connection_channels", "Open channels", lambda s: len(getattr(s, "desks", ()))),
        ),
    ),
)
