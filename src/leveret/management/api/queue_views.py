"""Queues as operators see them: lists, one with everything about it, and its bindings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from msgspec import Raw

from leveret.auth.access import Right
from leveret.catalog.policies import NOTHING_APPLIED
from leveret.catalog.records import QueueRecord
from leveret.core.codec.names import name_octets, name_text
from leveret.core.queue.classic_queue import ClassicQueue
from leveret.core.queue.contract import Queue
from leveret.core.stream.queue import StreamQueue
from leveret.management.api.backing_queue import STORAGE_VERSION, backing_queue_status
from leveret.management.api.binding_keys import default_binding, described, in_order
from leveret.management.api.consumer_views import consumers_of_queue, describe_consumer
from leveret.management.api.numbers import (
    LENGTHS,
    SPAN_PARAMETERS,
    Described,
    detailed,
    idle_since,
    message_stats,
    moves,
)
from leveret.management.api.visible import meant_queues
from leveret.management.http.bodies import QUEUE
from leveret.management.http.bodies import listed as listing
from leveret.management.http.errors import not_found
from leveret.management.http.lists import LIST_PARAMETERS, Listed, listed, one, shown
from leveret.management.http.request import Answer, Request
from leveret.management.http.route import Parameter, route

# What a queue costs beside its bodies, about: the object itself, and each message's place.
QUEUE_BYTES = 1024
MESSAGE_BYTES = 64
# Of so many consumers it is asked whether they could take a message.
CONSUMERS_ASKED_MAX = 100

QUEUE_PARAMETERS = (
    Parameter("disable_stats", "Only what a queue is, not how it is.", {"type": "boolean"}),
    Parameter("enable_queue_totals", "With disable_stats: how many messages it has, too.", {"type": "boolean"}),
)
COLUMNS = Parameter("columns", "Only these columns, separated by commas.")


# ---- the parts of a description


def describe_basics(request: Request, queue: Queue) -> Described:
    """What it is: known from its record."""
    record: QueueRecord = queue.record
    vhost = request.services.broker.vhosts.get(record.vhost)
    # A list takes its time, in which all of a virtual host may go.
    applied = NOTHING_APPLIED if vhost is None else vhost.policies.of_queue(record)
    return {
        "name": record.name,
        "vhost": record.vhost,
        "type": record.kind,
        "durable": record.durable,
        "auto_delete": record.auto_delete,
        "exclusive": record.owner != 0,
        "arguments": record.arguments,
        "node": request.services.node_name,
        "state": state_of(queue),
        "policy": applied.name,
        "operator_policy": applied.operator_name,
        "effective_policy_definition": applied.definition,
    }


def state_of(queue: Queue) -> str:
    return "paused" if isinstance(queue, ClassicQueue) and queue.paused else "running"


def lengths_of(queue: Queue) -> dict[str, int]:
    ready, unacked = int(queue.ready_count()), int(queue.unacked_total())
    return {"messages": ready + unacked, "messages_ready": ready, "messages_unacknowledged": unacked}


def length_of(queue: Queue) -> int:
    return int(queue.ready_count()) + int(queue.unacked_total())


def describe_classic(request: Request, queue: ClassicQueue) -> Described:
    sizes = request.services.statistics.queue_sizes(queue)
    ready = readiness(queue)
    in_memory = (sizes["message_bytes_ram"] or 0) + MESSAGE_BYTES * (sizes["messages"] or 0)
    return {
        **sizes,
        "backing_queue_status": backing_queue_status(request, queue, sizes),
        "consumer_capacity": ready,
        "consumer_utilisation": ready,
        "exclusive_consumer_tag": _exclusive_tag(queue),
        "single_active_consumer_tag": _active_tag(queue),
        "memory": QUEUE_BYTES + in_memory,
        "recoverable_slaves": None,
        "storage_version": STORAGE_VERSION,
    }


def readiness(queue: Queue) -> float:
    """The part of its consumers that could take a message at this moment. RabbitMQ has the part of the time in which
    some could; both are 1 if consumers keep up and 0 if they do not, or are none."""
    asked = [subscriber for subscriber, _ in zip(queue.subscribers or (), range(CONSUMERS_ASKED_MAX), strict=False)]
    active = [subscriber for subscriber in asked if subscriber.active]
    return sum(1 for subscriber in active if subscriber.can_take()) / len(active) if active else 0


def _exclusive_tag(queue: Queue) -> str | None:
    for consumer in queue.subscribers or ():
        return name_text(consumer.tag) if consumer.exclusive else None
    return None


def _active_tag(queue: Queue) -> str | None:
    if queue.single_active:
        for consumer in queue.subscribers or ():
            if consumer.active:
                tag: str = name_text(consumer.tag)
                return tag
    return None


def describe_stream(request: Request, queue: StreamQueue) -> Described:
    node, log = request.services.node_name, queue.log
    return {
        "leader": node,
        "members": [node],
        "online": [node],
        "readers": {node: queue.subscriber_count()},
        "memory": QUEUE_BYTES,
        "message_bytes": log.size_bytes(),
        "messages_persistent": queue.ready_count(),
        "first_offset": log.first_offset(),
        "committed_offset": log.committed_offset,
        "segments": len(log.segments),
        "segment_bytes": log.segment_bytes,
    }


# ---- whole descriptions


def describe_queue(request: Request, queue: Queue) -> Described:
    """A queue in a list."""
    found = describe_basics(request, queue)
    if request.flag("disable_stats"):
        return found | lengths_of(queue) if request.flag("enable_queue_totals") else found
    if isinstance(queue, StreamQueue):
        found |= describe_stream(request, queue)
    elif isinstance(queue, ClassicQueue):
        found |= describe_classic(request, queue)
    found |= detailed(request, queue, lengths_of(queue), LENGTHS)
    # The same number by its shorter name.
    found["messages_unacked"] = found["messages_unacknowledged"]
    found["consumers"] = queue.subscriber_count()
    found |= message_stats(request, queue, request.services.statistics.queue_stats(queue))
    found |= idle_since(request, queue)
    if queue.record.owner:
        found["owner_pid_details"] = _owner(request, queue.record)
    return found


def _owner(request: Request, record: QueueRecord) -> Described:
    connection = request.services.broker.connections.get(record.owner)
    if connection is None:
        return {}
    seen = connection.seen()
    return {"name": seen.name, "peer_host": seen.peer_host, "peer_port": seen.peer_port}


async def describe_queue_fully(request: Request, queue: Queue) -> Described:
    found = describe_queue(request, queue)
    if not request.flag("disable_stats"):
        found["consumer_details"] = await shown(
            consumers_of_queue(request, queue), lambda seen: describe_consumer(request, seen)
        )
        found |= {"deliveries": [], "incoming": []}
        if isinstance(queue, ClassicQueue):
            waiting = request.services.delayed.of_queue(queue.record.vhost, queue.record.name)
            found["delayed"] = {"count": waiting.count, "bytes": waiting.bytes, "next_due_ms": waiting.next_due_ms}
    return found


def find_queue(request: Request) -> Queue:
    """The queue of the path, even if it is exclusive to a connection."""
    queue = request.vhost.queues.get(name_octets(request.path["queue"]))
    if queue is None:
        raise not_found()
    return queue


QUEUES: Listed[Any] = Listed(
    describe=describe_queue,
    name=lambda queue: queue.record.name,
    cheap={
        "name": lambda queue: queue.record.name,
        "vhost": lambda queue: queue.record.vhost,
        "type": lambda queue: queue.record.kind,
        "durable": lambda queue: queue.record.durable,
        "messages": length_of,
        "messages_ready": lambda queue: queue.ready_count(),
        "messages_unacknowledged": lambda queue: queue.unacked_total(),
        "messages_unacked": lambda queue: queue.unacked_total(),
        "consumers": lambda queue: queue.subscriber_count(),
        "message_stats.publish": lambda queue: queue.published_total,
    },
)


# ---- routes


@route(
    "GET",
    "/api/queues",
    Right.MANAGEMENT,
    "All queues",
    query=LIST_PARAMETERS + QUEUE_PARAMETERS + SPAN_PARAMETERS,
    answers={200: listing(QUEUE)},
)
@route(
    "GET",
    "/api/queues/detailed",
    Right.MANAGEMENT,
    "All queues, with everything about them",
    query=LIST_PARAMETERS + SPAN_PARAMETERS,
)
@route(
    "GET",
    "/api/queues/{vhost}",
    Right.MANAGEMENT,
    "The queues of a virtual host",
    query=LIST_PARAMETERS + QUEUE_PARAMETERS + SPAN_PARAMETERS,
    answers={200: listing(QUEUE)},
)
async def list_queues(request: Request) -> Answer:
    return await listed(
        request, meant_queues(request), replace(QUEUES, cheap={**QUEUES.cheap, **_moving_columns(request)})
    )


def _moving_columns(request: Request) -> dict[str, Callable[[Any], Any]]:
    """What lists are sorted by to find queues that need attention: rates, and the age of the oldest message."""
    statistics, now_ms = request.services.statistics, request.services.broker.clock.now_ms()

    def rate_of(name: str) -> Callable[[Any], Any]:
        return lambda queue: statistics.rate(queue, name) if moves(queue) else 0.0

    def oldest_age_ms(queue: Any) -> int | None:
        head = queue.head() if isinstance(queue, ClassicQueue) else None
        return None if head is None else max(0, now_ms - head.stamp)

    return {
        "messages_details.rate": rate_of("messages"),
        "message_stats.publish_details.rate": rate_of("publish"),
        "message_stats.deliver_get_details.rate": rate_of("deliver_get"),
        "oldest_message_age_ms": oldest_age_ms,
    }


@route(
    "GET",
    "/api/queues/{vhost}/{queue}",
    Right.MANAGEMENT,
    "One queue, with its consumers",
    query=(COLUMNS, *QUEUE_PARAMETERS, *SPAN_PARAMETERS),
    answers={200: QUEUE},
)
async def get_queue(request: Request) -> Described:
    return one(request, await describe_queue_fully(request, find_queue(request)))


@route("GET", "/api/queues/{vhost}/{queue}/bindings", Right.MANAGEMENT, "What leads to a queue")
async def get_queue_bindings(request: Request) -> list[Raw]:
    """None for a queue that is not there; RabbitMQ makes up the one to the default exchange."""
    vhost, name = request.vhost.name, request.path["queue"]
    topology = request.services.broker.catalog.topologies[vhost]
    own = [default_binding(vhost, name)] if name in topology.queues else []
    inbound = topology.bindings_to.get((True, name), {}).values()
    return await shown([*own, *in_order(inbound)], described)
