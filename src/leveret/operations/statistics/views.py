"""One object's counters by RabbitMQ's names. A group of them is there as a whole once one of it was ever used."""

from __future__ import annotations

from leveret.core.connection.channel import Channel
from leveret.core.connection.router import Exchange
from leveret.core.queue.classic_queue import ClassicQueue
from leveret.core.queue.contract import Queue
from leveret.core.tally import CHANNEL_VALUES, QUEUE_VALUES, channel_values, queue_values

Stats = dict[str, int]

DELIVER_GROUP = ("ack", "deliver", "deliver_get", "deliver_no_ack", "get", "get_empty", "get_no_ack", "redeliver")
PUBLISH_GROUP = ("confirm", "drop_unroutable", "publish", "return_unroutable")
DELIVER_GET = ("deliver", "deliver_no_ack", "get", "get_no_ack")


def _groups(values: Stats, *groups: tuple[str, ...]) -> Stats:
    values["deliver_get"] = sum(values[name] for name in DELIVER_GET)
    return {name: values[name] for group in groups if any(values[name] for name in group) for name in group}


def queue_stats(queue: Queue) -> Stats:
    """Empty if nothing ever happened to the queue."""
    return _groups(dict(zip(QUEUE_VALUES, queue_values(queue), strict=True)), DELIVER_GROUP, ("publish",))


def channel_stats(channel: Channel) -> Stats:
    return _groups(dict(zip(CHANNEL_VALUES, channel_values(channel), strict=True)), DELIVER_GROUP, PUBLISH_GROUP)


def exchange_stats(exchange: Exchange) -> Stats:
    if not exchange.published_total:
        return {}
    return {"publish_in": exchange.published_total, "publish_out": exchange.routed_total}


def queue_sizes(queue: Queue, now_ms: int) -> dict[str, int | None]:
    """What a queue holds, in messages and octets, by RabbitMQ's names; and the age of its head in milliseconds, None if
    that is not in memory. What the log has of the queue counts as persistent, delayed messages included. Of messages
    that are unacknowledged all bodies count as being in memory, though some may be on disk alone."""
    if not isinstance(queue, ClassicQueue):
        ready = queue.ready_count()
        return {"messages": ready, "messages_ready": ready, "messages_unacknowledged": 0}
    ready, unacked, delayed = queue.ready_count(), queue.unacked_count, queue.delayed_count()
    ready_bytes, queue_log, head = queue.ready_bytes(), queue.queue_log, queue.head()
    ready_ram, ready_ram_bytes = queue.in_memory()
    timestamp = None if head is None else head.properties.timestamp
    return {
        "messages": ready + unacked,
        "messages_ready": ready,
        "messages_unacknowledged": unacked,
        "messages_delayed": delayed,
        "messages_quarantined": queue.quarantined_count(),
        "messages_ram": ready_ram + unacked,
        "messages_ready_ram": ready_ram,
        "messages_unacknowledged_ram": unacked,
        "messages_paged_out": ready - ready_ram,
        "messages_persistent": 0 if queue_log is None else queue_log.live,
        "message_bytes": ready_bytes + queue.unacked_bytes,
        "message_bytes_ready": ready_bytes,
        "message_bytes_unacknowledged": queue.unacked_bytes,
        "message_bytes_ram": ready_ram_bytes + queue.unacked_bytes,
        "message_bytes_paged_out": ready_bytes - ready_ram_bytes,
        "message_bytes_persistent": 0 if queue_log is None else queue_log.live_bytes,
        "head_message_timestamp": None if timestamp is None else int(timestamp),
        "oldest_message_age_ms": None if head is None else max(0, now_ms - head.stamp),
    }
