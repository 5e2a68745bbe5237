"""What happened to messages, by protocol and type of queue, and what all queues hold together.

These counters are of the node and never go down; sums over what is connected at the moment would, and every rate with
them. Names beginning with channel_ and queue_ are for dashboards that are older than the global ones: /metrics alone
has them, because /metrics/per-object tells them by channel and by queue."""

from __future__ import annotations

from dataclasses import fields
from typing import Final

from leveret.management.metrics.exposition import Family
from leveret.management.metrics.node_families import family
from leveret.management.metrics.source import Source
from leveret.management.metrics.sums import QueueSums
from leveret.operations.statistics.totals import CARRIED, CLASSIC_TYPE, DeliveryTotals, Totals

BY_PROTOCOL: Final = {
    "received": "Messages that publishers sent",
    "received_confirm": "Messages whose publishers want a confirm",
    "confirmed": "Messages that were confirmed",
    "routed": "Copies that went to queues",
    "unroutable_dropped": "Messages that found no queue and are lost",
    "unroutable_returned": "Messages that found no queue and were returned",
}
BY_QUEUE_TYPE: Final = {
    "delivered": "Messages that were handed out, by consumers and gets together",
    "delivered_consume_manual_ack": "Deliveries to consumers that acknowledge",
    "delivered_consume_auto_ack": "Deliveries to consumers that do not acknowledge",
    "delivered_get_manual_ack": "Messages that gets took, to be acknowledged",
    "delivered_get_auto_ack": "Messages that gets took for good",
    "get_empty": "Gets that found nothing",
    "redelivered": "Deliveries that were not the first",
    "acknowledged": "Messages that were acknowledged",
}
assert set(BY_QUEUE_TYPE) == {each.name for each in fields(DeliveryTotals)}
LETTERS: Final = {
    "expired": "because their time had passed",
    "rejected": "because a consumer did not want them",
    "maxlen": "because their queue was full",
    "delivery_limit": "because they came back too often",
}


def messages(totals: Totals) -> list[Family]:
    found = []
    for name, text in BY_PROTOCOL.items():
        counted = Family(f"rabbitmq_global_messages_{name}_total", "counter", text)
        for protocol, of_protocol in totals.protocols.items():
            counted.add(getattr(of_protocol, name), (("protocol", protocol),))
        found.append(counted)
    for name, text in BY_QUEUE_TYPE.items():
        counted = Family(f"rabbitmq_global_messages_{name}_total", "counter", text)
        for (protocol, queue_type), of_type in totals.deliveries.items():
            counted.add(getattr(of_type, name), (("protocol", protocol), ("queue_type", queue_type)))
        found.append(counted)
    for name, text in (("publishers", "Who has published"), ("consumers", "Consumers there are")):
        there = Family(f"rabbitmq_global_{name}", "gauge", text)
        for protocol, of_protocol in totals.protocols.items():
            there.add(getattr(of_protocol, name), (("protocol", protocol),))
        found.append(there)
    sizes = Family("rabbitmq_message_size_bytes", "histogram", "Octets of the bodies that were published")
    for protocol, spread in totals.sizes.items():
        sizes.add_histogram(spread.bounds, spread.counts, spread.sum, (("protocol", protocol),))
    return [*found, sizes]


def dead_letters(source: Source, totals: Totals) -> list[Family]:
    """The strategy "disabled" is RabbitMQ's word for a queue without a dead letter exchange: these are gone."""
    text = "Copies of dead letters that queues have taken"
    taken = source.broker.dead_letter_worker.carried_total
    labels = (("queue_type", CLASSIC_TYPE), ("dead_letter_strategy", CARRIED))
    found = [family("rabbitmq_global_messages_dead_lettered_confirmed_total", "counter", text, taken, labels)]
    for reason, text in LETTERS.items():
        counted = Family(
            f"rabbitmq_global_messages_dead_lettered_{reason}_total", "counter", f"Messages that left {text}"
        )
        for (of_reason, queue_type, strategy), count in totals.dead_lettered.items():
            if of_reason == reason:
                counted.add(count, (("queue_type", queue_type), ("dead_letter_strategy", strategy)))
        found.append(counted)
    return found


def stream_errors(totals: Totals) -> list[Family]:
    return [
        family(
            f"rabbitmq_global_stream_error_{name}_total",
            "counter",
            f"Commands of the stream protocol that failed with {name.replace('_', ' ')}",
            count,
            (("protocol", "stream"),),
        )
        for name, count in totals.stream_errors.items()
    ]


def all_queues(totals: Totals, sums: QueueSums) -> list[Family]:
    """What /metrics adds up, and /metrics/per-object does not."""
    amqp = totals.protocols["amqp091"]
    stats = totals.message_stats
    gauges = {
        "rabbitmq_queue_messages_ready": ("Messages that wait for a consumer", totals.messages_ready),
        "rabbitmq_queue_messages_unacked": ("Messages that consumers hold", totals.messages_unacked),
        "rabbitmq_queue_messages": ("Messages ready and unacked together", totals.messages),
        "rabbitmq_queue_consumers": ("Consumers of queues", totals.consumers),
        "rabbitmq_queue_messages_bytes": (
            "Octets of all bodies in classic queues",
            totals.message_bytes_ready + totals.message_bytes_unacked,
        ),
        "rabbitmq_queue_messages_ready_bytes": ("Octets of ready messages", totals.message_bytes_ready),
        "rabbitmq_queue_messages_unacked_bytes": ("Octets of unacked messages", totals.message_bytes_unacked),
        "rabbitmq_queue_messages_ram": ("Messages with their bodies in memory", sums.ram),
        "rabbitmq_queue_messages_ram_bytes": ("Octets of the bodies in memory", sums.ram_bytes),
        "rabbitmq_queue_messages_ready_ram": ("Ready messages with their bodies in memory", sums.ready_ram),
        "rabbitmq_queue_messages_unacked_ram": ("Unacked messages, which count as in memory", totals.messages_unacked),
        "rabbitmq_queue_messages_persistent": ("Messages that would survive a restart", sums.persistent),
        "rabbitmq_queue_messages_persistent_bytes": ("Octets of these", sums.persistent_bytes),
        "rabbitmq_queue_messages_paged_out": ("Ready messages whose bodies are on disk alone", sums.paged_out),
        "rabbitmq_queue_messages_paged_out_bytes": ("Octets of these", sums.paged_out_bytes),
        "rabbitmq_stream_consumer_max_offset_lag": (
            "Messages between the end of a stream and its slowest consumer, of all streams the most",
            sums.stream_lag,
        ),
        "leveret_queue_oldest_message_age_seconds": (
            "How long the message that is next has waited, of all classic queues the longest",
            sums.oldest_age_s,
        ),
        "rabbitmq_channel_consumers": ("Consumers of channels", amqp.consumers),
        "rabbitmq_connection_channels": ("Channels of connections", totals.channels),
    }
    counters = {
        "rabbitmq_channel_messages_published_total": ("Messages that came by AMQP", amqp.received),
        "rabbitmq_channel_messages_confirmed_total": ("Messages that were confirmed by AMQP", amqp.confirmed),
        "rabbitmq_channel_messages_unroutable_returned_total": ("Messages returned", amqp.unroutable_returned),
        "rabbitmq_channel_messages_unroutable_dropped_total": ("Messages lost", amqp.unroutable_dropped),
        "rabbitmq_channel_get_ack_total": ("Messages that gets took, to be acknowledged", stats["get"]),
        "rabbitmq_channel_get_total": ("Messages that gets took for good", stats["get_no_ack"]),
        "rabbitmq_channel_messages_delivered_ack_total": ("Deliveries to be acknowledged", stats["deliver"]),
        "rabbitmq_channel_messages_delivered_total": ("Deliveries without", stats["deliver_no_ack"]),
        "rabbitmq_channel_messages_redelivered_total": ("Deliveries that were not the first", stats["redeliver"]),
        "rabbitmq_channel_messages_acked_total": ("Acknowledgements", stats["ack"]),
        "rabbitmq_channel_get_empty_total": ("Gets that found nothing", stats["get_empty"]),
        "rabbitmq_connection_incoming_bytes_total": ("Octets that clients have sent", totals.bytes_received),
        "rabbitmq_connection_outgoing_bytes_total": ("Octets that were sent to clients", totals.bytes_sent),
        "rabbitmq_queue_messages_published_total": ("Copies that went to queues", amqp.routed),
    }
    return [
        *(family(name, "gauge", text, value) for name, (text, value) in gauges.items()),
        *(family(name, "counter", text, value) for name, (text, value) in counters.items()),
    ]
