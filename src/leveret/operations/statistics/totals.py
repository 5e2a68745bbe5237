"""The node's totals: what happened since it started, and what there is now. Computed anew for each request.

None of the counters ever goes down, whatever is closed or deleted. Names are RabbitMQ's where it has the number."""

from __future__ import annotations

from dataclasses import dataclass, field

from leveret.broker.activity import AMQP091, STREAM, Activity
from leveret.broker.broker import Broker
from leveret.core.observe.histogram import Histogram
from leveret.core.queue.office import REASONS
from leveret.core.tally import ChannelTally, QueueTally, add_queues
from leveret.wire.stream_codes import CODE_NAMES, Code

CLASSIC_TYPE, QUORUM_TYPE, STREAM_TYPE = "rabbit_classic_queue", "rabbit_quorum_queue", "rabbit_stream_queue"
# How a queue's rules treat what leaves it: it goes on to somewhere else, or nowhere.
CARRIED, DISABLED = "at_least_once", "disabled"


@dataclass(frozen=True, slots=True)
class Spread:
    """A histogram in the units that people read: octets or seconds. `counts` has one more than `bounds`."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float

    @property
    def count(self) -> int:
        return sum(self.counts)


def spread(histogram: Histogram, unit: float = 1.0, at_once: int = 0) -> Spread:
    """`unit` is what one of the histogram's is worth; `at_once` are values of nothing that it has not seen."""
    counts: list[int] = histogram.counts()
    counts[0] += at_once
    return Spread(tuple(bound * unit for bound in histogram.bounds), tuple(counts), histogram.sum * unit)


@dataclass(slots=True)
class ProtocolTotals:
    received: int = 0
    received_confirm: int = 0
    confirmed: int = 0
    # Copies that went to queues.
    routed: int = 0
    unroutable_dropped: int = 0
    unroutable_returned: int = 0
    # These two are what there is now.
    publishers: int = 0
    consumers: int = 0


@dataclass(slots=True)
class DeliveryTotals:
    """Of one protocol and one type of queue."""

    delivered: int = 0
    delivered_consume_manual_ack: int = 0
    delivered_consume_auto_ack: int = 0
    delivered_get_manual_ack: int = 0
    delivered_get_auto_ack: int = 0
    get_empty: int = 0
    redelivered: int = 0
    acknowledged: int = 0


@dataclass(slots=True)
class Totals:
    # What there is
    connections: int
    channels: int
    queues: int
    consumers: int
    exchanges: int
    messages_ready: int
    messages_unacked: int
    messages_delayed: int
    message_bytes_ready: int
    message_bytes_unacked: int
    publishers_blocked: int
    # What happened, by protocol; and by protocol and type of queue
    protocols: dict[str, ProtocolTotals]
    deliveries: dict[tuple[str, str], DeliveryTotals]
    # By reason, type of queue, and CARRIED or DISABLED
    dead_lettered: dict[tuple[str, str, str], int]
    # By name of the response code, such as "access_refused"; those that never came included
    stream_errors: dict[str, int]
    # RabbitMQ's names: connection_created, connection_closed and so on
    churn: dict[str, int]
    # RabbitMQ's names, as the overview has them
    message_stats: dict[str, int]
    bytes_received: int
    bytes_sent: int
    publishers_blocked_total: int
    publishers_blocked_seconds: float
    # Message sizes in octets by protocol; the others in seconds, by name
    sizes: dict[str, Spread]
    times: dict[str, Spread] = field(default_factory=dict)

    @property
    def messages(self) -> int:
        return self.messages_ready + self.messages_unacked


def totals_of(broker: Broker) -> Totals:
    activity = Activity()
    activity.merge(broker.retired)
    for connection in broker.connections.values():
        connection.count_into(activity)
    classic, stream = broker.retired.queues()
    for vhost in broker.vhosts.values():
        add_queues(vhost.queues, classic, stream)
    office, blocked_connections = broker.office, broker.blocked_connections
    return Totals(
        connections=sum(activity.connections.values()),
        channels=activity.channels.channels,
        queues=classic.queues + stream.queues,
        consumers=activity.channels.consumers + activity.stream_consumers,
        exchanges=sum(len(vhost.exchanges) for vhost in broker.vhosts.values()),
        messages_ready=classic.ready + stream.ready,
        messages_unacked=classic.unacked,
        messages_delayed=classic.delayed,
        message_bytes_ready=classic.ready_bytes,
        message_bytes_unacked=classic.unacked_bytes,
        publishers_blocked=blocked_connections.count,
        protocols=_protocols(activity),
        deliveries=_deliveries(classic, stream),
        dead_lettered=_dead_lettered(broker),
        stream_errors=_stream_errors(broker, activity),
        churn=_churn(broker),
        message_stats=_message_stats(activity, stream),
        bytes_received=activity.bytes_received,
        bytes_sent=activity.bytes_sent,
        publishers_blocked_total=blocked_connections.begun_total,
        publishers_blocked_seconds=blocked_connections.seconds_total,
        sizes={AMQP091: spread(office.sizes), STREAM: spread(office.stream_sizes)},
        times={"time_in_queue": spread(office.waits, 0.001, classic.quick)},
    )


def _protocols(activity: Activity) -> dict[str, ProtocolTotals]:
    channels: ChannelTally = activity.channels
    return {
        AMQP091: ProtocolTotals(
            channels.publish,
            channels.publish_confirm,
            channels.confirm,
            channels.routed,
            channels.drop_unroutable,
            channels.return_unroutable,
            channels.publishers,
            channels.consumers,
        ),
        # There is nothing but confirmed messages to one stream.
        STREAM: ProtocolTotals(
            activity.stream_received,
            activity.stream_received,
            activity.stream_confirmed,
            activity.stream_received,
            0,
            0,
            activity.stream_publishers,
            activity.stream_consumers,
        ),
    }


def _deliveries(classic: QueueTally, stream: QueueTally) -> dict[tuple[str, str], DeliveryTotals]:
    by_amqp = stream.deliver - stream.streamed
    return {
        (AMQP091, CLASSIC_TYPE): DeliveryTotals(
            classic.deliver + classic.deliver_no_ack + classic.get + classic.get_no_ack,
            classic.deliver,
            classic.deliver_no_ack,
            classic.get,
            classic.get_no_ack,
            classic.get_empty,
            classic.redeliver,
            classic.ack,
        ),
        (AMQP091, QUORUM_TYPE): DeliveryTotals(),
        (AMQP091, STREAM_TYPE): DeliveryTotals(by_amqp, by_amqp, acknowledged=stream.ack),
        # Credit is no acknowledgement.
        (STREAM, STREAM_TYPE): DeliveryTotals(stream.streamed, 0, stream.streamed),
    }


def _dead_lettered(broker: Broker) -> dict[tuple[str, str, str], int]:
    found = {}
    for number, reason in REASONS.items():
        found[reason, CLASSIC_TYPE, CARRIED] = broker.dead_letter_worker.dead_lettered_total[number]
        found[reason, CLASSIC_TYPE, DISABLED] = broker.office.lost_total(number)
    return found


def _stream_errors(broker: Broker, activity: Activity) -> dict[str, int]:
    """By RabbitMQ's names."""
    errors = broker.churn.stream_errors
    found = {}
    for code, name in CODE_NAMES.items():
        if code != Code.OK:
            found[name.replace("virtual host", "vhost").replace(" ", "_")] = errors[code] + activity.stream_errors[code]
    return found


def _churn(broker: Broker) -> dict[str, int]:
    churn = broker.churn
    return {
        "connection_created": broker.connections_opened_total,
        "connection_closed": broker.connections_closed_total,
        "channel_created": churn.channels_opened,
        "channel_closed": churn.channels_closed,
        "queue_declared": churn.queues_declared,
        "queue_created": churn.queues_created,
        "queue_deleted": churn.queues_deleted,
    }


def _message_stats(activity: Activity, stream: QueueTally) -> dict[str, int]:
    """Of both protocols, and of all queues."""
    channels: ChannelTally = activity.channels
    deliver = channels.deliver + stream.streamed
    return {
        "ack": channels.ack,
        "confirm": channels.confirm + activity.stream_confirmed,
        "deliver": deliver,
        "deliver_get": deliver + channels.deliver_no_ack + channels.get + channels.get_no_ack,
        "deliver_no_ack": channels.deliver_no_ack,
        "drop_unroutable": channels.drop_unroutable,
        "get": channels.get,
        "get_empty": channels.get_empty,
        "get_no_ack": channels.get_no_ack,
        "publish": channels.publish + activity.stream_received,
        "redeliver": channels.redeliver,
        "return_unroutable": channels.return_unroutable,
    }
