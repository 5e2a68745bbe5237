"""Queues: declaring, deleting and purging them."""

from __future__ import annotations

from leveret.broker.access import Right
from leveret.broker.vhost import octets
from leveret.catalog.records import QueueRecord
from leveret.core.contract import Queue
from leveret.management.http.ask import CREATED, DONE, Answer, Ask
from leveret.management.http.bodies import ACTION_BODY, QUEUE_BODY
from leveret.management.http.errors import bad_request, keys_missing, not_found
from leveret.management.http.fields import Fields
from leveret.management.http.names import checked_name
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
async def put_queue(ask: Ask) -> Answer:
    who = ask.requester()
    fields = Fields(ask.body)
    name = checked_name("queue", ask.path["queue"])
    node = fields.text("node", ask.services.node_name)
    if node != ask.services.node_name:
        raise bad_request(f"Node {node[:255]} could not be contacted")
    durable, auto_delete = fields.flag("durable"), fields.flag("auto_delete")
    arguments = fields.table("arguments")
    new = octets(name) not in who.vhost.queues
    # A queue that is exclusive to nobody's connection makes no sense: RabbitMQ does not look at that field either.
    await ask.durably(lambda: ask.services.topology.declare_queue(who, name, durable, False, auto_delete, arguments))
    return CREATED if new else DONE


@route(
    "DELETE",
    "/api/queues/{vhost}/{queue}",
    Right.MANAGEMENT,
    "Delete a queue with all that is in it",
    query=(
        Parameter("if-empty", "Only if there is no message in it.", FLAG),
        Parameter("if-unused", "Only if nobody consumes from it.", FLAG),
    ),
)
async def delete_queue(ask: Ask) -> Answer:
    queue = existing_queue(ask)
    who = ask.requester()
    name = queue.record.name
    if_unused, if_empty = ask.flag("if-unused"), ask.flag("if-empty")
    await ask.durably(lambda: ask.services.topology.delete_queue(who, name, if_unused, if_empty))
    return DONE


@route("DELETE", "/api/queues/{vhost}/{queue}/contents", Right.MANAGEMENT, "Delete all messages that wait in a queue")
async def purge_queue(ask: Ask) -> Answer:
    queue = existing_queue(ask)
    who = ask.requester()
    await ask.durably(lambda: ask.services.topology.purge_queue(who, queue.record.name))
    await ask.synced()
    return DONE


@route(
    "POST",
    "/api/queues/{vhost}/{queue}/actions",
    Right.ADMINISTRATOR,
    "Mirrors of a queue: there are none, so there is nothing to do",
    scope=Scope.NAME,
    accepts=ACTION_BODY,
)
def act_on_queue(ask: Ask) -> Answer:
    existing_queue(ask)
    fields = Fields(ask.body)
    if "action" not in fields:
        raise keys_missing("action")
    action = fields.text("action")
    if action not in ACTIONS:
        raise bad_request(["unknown", action[:255]])
    return DONE


def existing_queue(ask: Ask) -> Queue:
    """The queue that the path names."""
    vhost = ask.services.broker.vhosts.get(ask.path["vhost"])
    queue: Queue | None = None if vhost is None else vhost.queues.get(octets(ask.path["queue"]))
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
def change_replicas(ask: Ask) -> Answer:
    record: QueueRecord = existing_queue(ask).record
    raise bad_request(f"queue '{record.name}' is of type {record.kind}; {NO_REPLICAS}")


@route("POST", "/api/queues/quorum/replicas/on/{node}/grow", Right.ADMINISTRATOR, "Add replicas on a node")
@route("DELETE", "/api/queues/quorum/replicas/on/{node}/shrink", Right.ADMINISTRATOR, "Delete replicas on a node")
def change_node_replicas(ask: Ask) -> Answer:
    raise bad_request(NO_REPLICAS)


@route("GET", "/api/queues/quorum/{vhost}/{queue}/status", Right.MANAGEMENT, "Replicas of a queue")
def get_replicas(ask: Ask) -> Answer:
    record: QueueRecord = existing_queue(ask).record
    raise bad_request(f"queue '{record.name}' is of type {record.kind}; {NO_REPLICAS}")
