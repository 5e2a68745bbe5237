"""What of the catalog survives, and the catalog as the shortest list of commands that makes it."""

from __future__ import annotations

from leveret.catalog import commands
from leveret.catalog.catalog import Catalog
from leveret.catalog.commands import Change, Command
from leveret.catalog.records import BindingRecord, ExchangeRecord, QueueRecord, Reprocessing

PREDECLARED_PREFIX = "amq."


def survives(queue: QueueRecord) -> bool:
    """An exclusive queue goes with its connection, and no connection outlives the broker."""
    return queue.durable and queue.owner == 0


def is_durable(catalog: Catalog, change: Change) -> bool:
    """Whether a change concerns something that survives, so that the command behind it must be logged."""
    record = change.record
    if isinstance(record, QueueRecord):
        return survives(record)
    if isinstance(record, ExchangeRecord):
        return record.durable
    if isinstance(record, BindingRecord):
        return binding_survives(catalog, record)
    if isinstance(record, Reprocessing):
        return job_survives(catalog, record)
    return True


def binding_survives(catalog: Catalog, binding: BindingRecord) -> bool:
    """A binding is as durable as both of its ends. One that is gone already counts as durable: the command that took it
    along may be needed, and does no harm."""
    topology = catalog.topologies.get(binding.vhost)
    if topology is None:
        return True
    source = topology.exchanges.get(binding.source)
    if source is not None and not source.durable:
        return False
    if binding.to_queue:
        queue = topology.queues.get(binding.destination)
        return queue is None or survives(queue)
    destination = topology.exchanges.get(binding.destination)
    return destination is None or destination.durable


def job_survives(catalog: Catalog, job: Reprocessing) -> bool:
    """A job is as durable as its queue; that of a queue that has gone counts as durable, as bindings do."""
    topology = catalog.topologies.get(job.vhost)
    queue = None if topology is None else topology.queues.get(job.queue)
    return queue is None or survives(queue)


def snapshot(catalog: Catalog) -> list[Command]:
    """Applied in this order to an empty catalog they make all of this one that survives."""
    made: list[Command] = [commands.SkipQueueIds(catalog.next_queue_id)]
    made += [commands.PutVhost(vhost) for vhost in catalog.vhosts.values()]
    made += [commands.PutUser(user) for user in catalog.users.values()]
    made += [commands.SuspendUser(suspension) for suspension in catalog.suspensions.values()]
    made += [commands.PutPermission(permission) for permission in catalog.permissions.values()]
    made += [commands.PutTopicPermission(permission) for permission in catalog.topic_permissions.values()]
    made += [commands.PutParameter(parameter) for parameter in catalog.parameters.values()]
    made += [commands.PutGlobalParameter(parameter) for parameter in catalog.global_parameters.values()]
    # Before the queues they apply to: those are then right from the start.
    made += [commands.PutPolicy(policy) for book in catalog.policies.values() for policy in book.all()]
    for topology in catalog.topologies.values():
        made += [
            commands.DeclareExchange(exchange)
            for exchange in topology.exchanges.values()
            if exchange.durable and exchange.name and not exchange.name.startswith(PREDECLARED_PREFIX)
        ]
        made += [commands.DeclareQueue(queue) for queue in topology.queues.values() if survives(queue)]
        for bindings in topology.bindings_from.values():
            made += [commands.Bind(binding) for binding in bindings.values() if binding_survives(catalog, binding)]
    made += [commands.PutJob(job) for job in catalog.jobs.values() if job_survives(catalog, job)]
    return made
