"""Queues: declaring, deleting and purging them."""

from __future__ import annotations

import asyncio

from leveret.auth.access import Right
from leveret.catalog.records import QueueRecord
from leveret.core.codec.names import name_octets
from leveret.core.queue.contract import Queue
from leveret.management.http.bodies import ACTION_BODY, QUEUE_BODY
from leveret.management.http.errors import bad_request, keys_missing, not_found
from leveret.management.http.fields import Fields
from leveret.management.http.names import checked_name
from leveret.management.http.request import CREATED, DONE, Answer, Request
from leveret.management.http.route import Parameter, Scope, route

FLAG = {"type": "boolean"}
ACTIONS = ("sync", "cancel_sync")


@route(
    "PUT",
    "/api/queues/{vhost}/{queue}",
    Right.MANAGEMENT,
    "Declare a queue",
    answers={201: None, 204: None},
    accepts=QUEUE_BODY,
)
async def put_queue(request: Request) -> Answer:
    who = request.requester()
    fields = Fields(request.body)
    name = checked_name("queue", request.path["queue"])
    node = fields.text("node", request.services.node_name)
    if node != request.services.node_name:
        raise bad_request(f"Node {node[:255]} could not be contacted")
    durable, auto_delete = fields.flag("durable"), fields.flag("auto_delete")
    arguments = fields.table("arguments")
    new = name_octets(name) not in who.vhost.queues
    # No connection could own an exclusive queue that is declared here: RabbitMQ ignores that field as well.
    await request.durably(
        lambda: request.services.topology.declare_queue(who, name, durable, False, auto_delete, arguments)
    )
    return CREATED if new else DONE


@route(
    "DELETE",
    "/api/queues/{vhost}/{queue}",
    Right.MANAGEMENT,
    "Delete a queue with all that is in it",
    query=(
        Parameter("if-empty", "Only if there is no message in it.", FLAG),
        Parameter("if-unused", "Only if it has no consumers.", FLAG),
    ),
)
async def delete_queue(request: Request) -> Answer:
    queue = existing_queue(request)
    who = request.requester()
    name = queue.record.name
    if_unused, if_empty = request.flag("if-unused"), request.flag("if-empty")
    await request.durably(lambda: request.services.topology.delete_queue(who, name, if_unused, if_empty))
    return DONE


@route(
    "DELETE",
    "/api/queues/{vhost}/{queue}/contents",
    Right.MANAGEMENT,
    "Delete all messages that wait in a queue; the header Messages-Deleted says how many they were",
)
async def purge_queue(request: Request) -> Answer:
    # A header, because clients of RabbitMQ take nothing but a 204, which has no body.
    return Answer(204, headers={"Messages-Deleted": str(await purged(request))})


async def purged(request: Request) -> int:
    """Purges the queue of the path: how many messages were deleted."""
    queue = existing_queue(request)
    who = request.requester()
    count = await request.durably(lambda: request.services.topology.purge_queue(who, queue.record.name))
    released = asyncio.Event()
    if queue.await_purge(released.set):
        await released.wait()
    await request.synced()
    return count


@route(
    "POST",
    "/api/queues/{vhost}/{queue}/actions",
    Right.ADMINISTRATOR,
    "Mirrors of a queue: there are none, so there is nothing to do",
    scope=Scope.NAME,
    accepts=ACTION_BODY,
)
def act_on_queue(request: Request) -> Answer:
    existing_queue(request)
    fields = Fields(request.body)
    if "action" not in fields:
        raise keys_missing("action")
    action = fields.text("action")
    if action not in ACTIONS:
        raise bad_request(["unknown", action[:255]])
    return DONE


def existing_queue(request: Request) -> Queue:
    """The queue that the path names."""
    vhost = request.services.broker.vhosts.get(request.path["vhost"])
    queue: Queue | None = None if vhost is None else vhost.queues.get(name_octets(request.path["queue"]))
    if queue is None:
        raise not_found()
    return queue


# ---- replicas

NO_REPLICAS = "this broker has no quorum queues: a queue lives on one node"


@route(
    "POST", "/api/queues/quorum/{vhost}/{queue}/replicas/add", Right.ADMINISTRATOR, "Add a replica", scope=Scope.NAME
)
@route(
    "DELETE",
    "/api/queues/quorum/{vhost}/{queue}/replicas/delete",
    Right.ADMINISTRATOR,
    "Delete a replica",
    scope=Scope.NAME,
)
def change_replicas(request: Request) -> Answer:
    record: QueueRecord = existing_queue(request).record
    raise bad_request(f"queue '{record.name}' is of type {record.kind}; {NO_REPLICAS}")


@route("POST", "/api/queues/quorum/replicas/on/{node}/grow", Right.ADMINISTRATOR, "Add replicas on a node")
@route("DELETE", "/api/queues/quorum/replicas/on/{node}/shrink", Right.ADMINISTRATOR, "Delete replicas on a node")
def change_node_replicas(request: Request) -> Answer:
    raise bad_request(NO_REPLICAS)


@route("GET", "/api/queues/quorum/{vhost}/{queue}/status", Right.MANAGEMENT, "Replicas of a queue")
def get_replicas(request: Request) -> Answer:
    record: QueueRecord = existing_queue(request).record
    raise bad_request(f"queue '{record.name}' is of type {record.kind}; {NO_REPLICAS}")
