"""The catalog: what exists on this broker, changed only by commands applied in order.

A pure machine without clock, disk or dice, so that a log or Raft can feed it. It trusts its commands: who may do what,
and whether it makes sense, was decided before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import structs

from leveret.catalog import commands
from leveret.catalog.commands import Added, Change, Command, Removed
from leveret.catalog.policies import PolicyBook
from leveret.catalog.records import (
    BindingRecord,
    ExchangeRecord,
    GlobalParameter,
    Parameter,
    Permission,
    Reprocessing,
    Suspension,
    TopicPermission,
    User,
    Vhost,
)
from leveret.catalog.topology import Topology
from leveret.core.codec.field_types import Int64
from leveret.core.matching.super_stream_matcher import PARTITION_ORDER

# What every virtual host is born with: name, type, internal.
PREDECLARED_EXCHANGES = (
    ("", "direct", False),
    ("amq.direct", "direct", False),
    ("amq.fanout", "fanout", False),
    ("amq.headers", "headers", False),
    ("amq.match", "headers", False),
    ("amq.rabbitmq.trace", "topic", True),
    ("amq.topic", "topic", False),
)


class Catalog:
    def __init__(self) -> None:
        self.vhosts: dict[str, Vhost] = {}
        self.users: dict[str, User] = {}
        # Those of the users who are not let in.
        self.suspensions: dict[str, Suspension] = {}
        # By (user, vhost)
        self.permissions: dict[tuple[str, str], Permission] = {}
        # By (user, vhost, exchange)
        self.topic_permissions: dict[tuple[str, str, str], TopicPermission] = {}
        # By (vhost, component, name)
        self.parameters: dict[tuple[str, str, str], Parameter] = {}
        self.global_parameters: dict[str, GlobalParameter] = {}
        self.topologies: dict[str, Topology] = {}
        # By virtual host, as the topologies.
        self.policies: dict[str, PolicyBook] = {}
        # By (vhost, queue): the job that is running there, or the last one.
        self.jobs: dict[tuple[str, str], Reprocessing] = {}
        # Greater than the id of every queue that ever was.
        self.next_queue_id = 1
        self._appliers: dict[type[Any], Callable[[Any], list[Change]]] = {
            commands.Together: lambda c: [change for one in c.commands for change in self.apply(one)],
            commands.PutVhost: self._put_vhost,
            commands.DeleteVhost: self._delete_vhost,
            commands.PutUser: self._put_user,
            commands.DeleteUser: self._delete_user,
            commands.SuspendUser: self._suspend_user,
            commands.ReleaseUser: lambda c: _removed(self.suspensions, c.name),
            commands.PutPermission: self._put_permission,
            commands.DeletePermission: lambda c: _removed(self.permissions, (c.user, c.vhost)),
            commands.PutTopicPermission: self._put_topic_permission,
            commands.DeleteTopicPermission: lambda c: _removed(self.topic_permissions, (c.user, c.vhost, c.exchange)),
            commands.PutParameter: self._put_parameter,
            commands.DeleteParameter: lambda c: _removed(self.parameters, (c.vhost, c.component, c.name)),
            commands.PutGlobalParameter: self._put_global_parameter,
            commands.DeleteGlobalParameter: lambda c: _removed(self.global_parameters, c.name),
            commands.DeclareExchange: self._declare_exchange,
            commands.DeleteExchange: lambda c: self.topologies[c.vhost].remove_exchange(c.name),
            commands.DeclareQueue: self._declare_queue,
            commands.SkipQueueIds: self._skip_queue_ids,
            commands.DeleteQueue: self._delete_queue,
            commands.Bind: lambda c: self.topologies[c.binding.vhost].bind(c.binding),
            commands.Unbind: lambda c: self.topologies[c.binding.vhost].unbind(c.binding),
            commands.DeclareSuperStream: self._declare_super_stream,
            commands.DeleteSuperStream: self._delete_super_stream,
            commands.PutPolicy: self._put_policy,
            commands.DeletePolicy: self._delete_policy,
            commands.PutJob: self._put_job,
            commands.DeleteJob: lambda c: self._remove_job(c.vhost, c.queue),
        }

    def apply(self, command: Command) -> list[Change]:
        return self._appliers[type(command)](command)

    # ---- vhosts

    def _put_vhost(self, command: commands.PutVhost) -> list[Change]:
        vhost = command.vhost
        new = vhost.name not in self.vhosts
        self.vhosts[vhost.name] = vhost
        changes: list[Change] = [Added(vhost)]
        if new:
            topology = self.topologies[vhost.name] = Topology()
            self.policies[vhost.name] = PolicyBook()
            for name, kind, internal in PREDECLARED_EXCHANGES:
                changes += topology.add_exchange(ExchangeRecord(vhost.name, name, kind, True, False, internal, {}))
        return changes

    def _delete_vhost(self, command: commands.DeleteVhost) -> list[Change]:
        vhost = self.vhosts.pop(command.name, None)
        if vhost is None:
            return []
        topology = self.topologies.pop(command.name)
        changes: list[Change] = []
        for queue in list(topology.queues):
            changes += topology.remove_queue(queue)
            changes += self._remove_job(command.name, queue)
        for exchange in list(topology.exchanges):
            changes += topology.remove_exchange(exchange)
        # After queues and exchanges, so that nobody works out anew what applies to things that are about to go.
        changes += [Removed(policy) for policy in self.policies.pop(command.name).all()]
        for permissions in (self.permissions, self.topic_permissions):
            changes += _removed_where(permissions, lambda key: key[1] == command.name)
        changes += _removed_where(self.parameters, lambda key: key[0] == command.name)
        changes.append(Removed(vhost))
        return changes

    # ---- exchanges and queues

    def _declare_exchange(self, command: commands.DeclareExchange) -> list[Change]:
        self.next_queue_id = max(self.next_queue_id, command.exchange.id + 1)
        return self.topologies[command.exchange.vhost].add_exchange(command.exchange)

    def _declare_queue(self, command: commands.DeclareQueue) -> list[Change]:
        self.next_queue_id = max(self.next_queue_id, command.queue.id + 1)
        return self.topologies[command.queue.vhost].add_queue(command.queue)

    def _delete_queue(self, command: commands.DeleteQueue) -> list[Change]:
        changes = self.topologies[command.vhost].remove_queue(command.name)
        return changes + self._remove_job(command.vhost, command.name)

    def _skip_queue_ids(self, command: commands.SkipQueueIds) -> list[Change]:
        self.next_queue_id = max(self.next_queue_id, command.next_id)
        return []

    # ---- super streams

    def _declare_super_stream(self, command: commands.DeclareSuperStream) -> list[Change]:
        exchange, first = command.exchange, command.stream
        changes = self._declare_exchange(commands.DeclareExchange(exchange))
        for order, (name, _) in enumerate(command.partitions):
            stream = structs.replace(first, name=name, id=first.id + order if first.id else 0)
            changes += self._declare_queue(commands.DeclareQueue(stream))
        for order, (name, key) in enumerate(command.partitions):
            # An integer of 64 bits, as RabbitMQ has it: a binding is found again by the octets of its arguments.
            arguments = {PARTITION_ORDER: Int64(order)}
            binding = BindingRecord(exchange.vhost, exchange.name, True, name, key, arguments)
            changes += self.topologies[exchange.vhost].bind(binding)
        return changes

    def _delete_super_stream(self, command: commands.DeleteSuperStream) -> list[Change]:
        changes = self.topologies[command.vhost].remove_exchange(command.name)
        for name in command.streams:
            changes += self._delete_queue(commands.DeleteQueue(command.vhost, name))
        return changes

    # ---- policies

    def _put_policy(self, command: commands.PutPolicy) -> list[Change]:
        self.policies[command.policy.vhost].put(command.policy)
        return [Added(command.policy)]

    def _delete_policy(self, command: commands.DeletePolicy) -> list[Change]:
        policy = self.policies[command.vhost].remove(command.name, command.operator)
        return [] if policy is None else [Removed(policy)]

    # ---- jobs

    def _put_job(self, command: commands.PutJob) -> list[Change]:
        self.jobs[command.job.vhost, command.job.queue] = command.job
        return [Added(command.job)]

    def _remove_job(self, vhost: str, queue: str) -> list[Change]:
        return _removed(self.jobs, (vhost, queue))

    # ---- users

    def _put_user(self, command: commands.PutUser) -> list[Change]:
        self.users[command.user.name] = command.user
        return [Added(command.user)]

    def _delete_user(self, command: commands.DeleteUser) -> list[Change]:
        user = self.users.pop(command.name, None)
        if user is None:
            return []
        changes: list[Change] = []
        for permissions in (self.permissions, self.topic_permissions):
            changes += _removed_where(permissions, lambda key: key[0] == command.name)
        # A user of this name who is made later is another one.
        changes += _removed(self.suspensions, command.name)
        changes.append(Removed(user))
        return changes

    def _suspend_user(self, command: commands.SuspendUser) -> list[Change]:
        self.suspensions[command.suspension.user] = command.suspension
        return [Added(command.suspension)]

    def _put_permission(self, command: commands.PutPermission) -> list[Change]:
        permission = command.permission
        self.permissions[permission.user, permission.vhost] = permission
        return [Added(permission)]

    def _put_topic_permission(self, command: commands.PutTopicPermission) -> list[Change]:
        permission = command.permission
        self.topic_permissions[permission.user, permission.vhost, permission.exchange] = permission
        return [Added(permission)]

    # ---- parameters

    def _put_parameter(self, command: commands.PutParameter) -> list[Change]:
        parameter = command.parameter
        self.parameters[parameter.vhost, parameter.component, parameter.name] = parameter
        return [Added(parameter)]

    def _put_global_parameter(self, command: commands.PutGlobalParameter) -> list[Change]:
        self.global_parameters[command.parameter.name] = command.parameter
        return [Added(command.parameter)]


def _removed(records: dict[Any, Any], key: object) -> list[Change]:
    record = records.pop(key, None)
    return [] if record is None else [Removed(record)]


def _removed_where(records: dict[Any, Any], is_meant: Callable[[Any], bool]) -> list[Change]:
    return [Removed(records.pop(key)) for key in list(records) if is_meant(key)]
