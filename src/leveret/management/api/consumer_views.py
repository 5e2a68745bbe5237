"""Consumers as operators see them, of both protocols."""

from __future__ import annotations

from collections.abc import Iterator

from leveret.auth.access import Right
from leveret.broker.connected import ConsumerInfo
from leveret.core.queue.contract import Queue
from leveret.core.stream.queue import StreamQueue
from leveret.management.api.numbers import Described
from leveret.management.api.visible import meant_consumers
from leveret.management.http.bodies import CONSUMER
from leveret.management.http.bodies import listed as listing
from leveret.management.http.lists import LIST_PARAMETERS, Listed, listed
from leveret.management.http.request import Answer, Request
from leveret.management.http.route import route


def describe_consumer(request: Request, seen: ConsumerInfo) -> Described:
    connection = seen.connection.seen()
    return {
        "arguments": seen.arguments,
        "ack_required": seen.ack_required,
        "active": seen.active,
        "activity_status": seen.activity_status,
        "channel_details": {
            "connection_name": connection.name,
            "name": f"{connection.name} ({seen.channel_number})",
            "node": request.services.node_name,
            "number": seen.channel_number,
            "peer_host": connection.peer_host,
            "peer_port": connection.peer_port,
            "user": connection.user,
        },
        "consumer_tag": seen.tag,
        "consumer_timeout": seen.ack_timeout_ms or 0,
        "exclusive": seen.exclusive,
        "messages_unacknowledged": seen.unacked_count,
        "prefetch_count": seen.prefetch_count,
        "prefetch_size": seen.prefetch_bytes,
        "queue": {"name": seen.queue, "vhost": seen.vhost},
    }


def consumers_of_queue(request: Request, queue: Queue) -> Iterator[ConsumerInfo]:
    """Those of AMQP are known to the queue, those of the stream protocol to the connections that watch the stream."""
    for consumer in list(queue.subscribers or ()):
        yield consumer.channel.channel_session.seen_consumer(consumer)
    if isinstance(queue, StreamQueue):
        watchers = request.services.broker.vhosts[queue.record.vhost].watchers.get(queue.record.name, {})
        for watcher in list(watchers):
            yield from (seen for seen in watcher.consumers() if seen.queue == queue.record.name)


CONSUMERS: Listed[ConsumerInfo] = Listed(
    describe=describe_consumer,
    name=lambda seen: seen.tag,
    cheap={"consumer_tag": lambda seen: seen.tag, "queue.name": lambda seen: seen.queue},
)


@route(
    "GET", "/api/consumers", Right.MANAGEMENT, "All consumers", query=LIST_PARAMETERS, answers={200: listing(CONSUMER)}
)
@route(
    "GET",
    "/api/consumers/{vhost}",
    Right.MANAGEMENT,
    "The consumers in a virtual host",
    query=LIST_PARAMETERS,
    answers={200: listing(CONSUMER)},
)
async def list_consumers(request: Request) -> Answer:
    return await listed(request, meant_consumers(request), CONSUMERS)
