"""A catalog whose log has lost commands: what is left of it still makes sense, or is left out.

Commands trust each other: a binding's ends exist, and so does everything's virtual host. Where damage took such a
command away, what depends on it is made possible or passed over, and said."""

from __future__ import annotations

from leveret.catalog import commands
from leveret.catalog.catalog import Catalog
from leveret.catalog.commands import Command
from leveret.catalog.records import BindingRecord, Vhost


def missing_vhost(catalog: Catalog, command: Command) -> Command | None:
    """The command that must come first, because the one that did was lost."""
    match command:
        case commands.DeclareExchange(exchange=record) | commands.DeclareQueue(queue=record):
            vhost = record.vhost
        case commands.Bind(binding=record) | commands.Unbind(binding=record):
            vhost = record.vhost
        case commands.DeclareSuperStream(exchange=record):
            vhost = record.vhost
        case commands.PutParameter(parameter=parameter):
            vhost = parameter.vhost
        case commands.PutPolicy(policy=policy):
            vhost = policy.vhost
        case commands.PutJob(job=job):
            vhost = job.vhost
        case commands.DeleteExchange(vhost=vhost) | commands.DeleteQueue(vhost=vhost):
            pass
        case commands.DeletePolicy(vhost=vhost) | commands.DeleteJob(vhost=vhost):
            pass
        case commands.DeleteSuperStream(vhost=vhost):
            pass
        case _:
            return None
    return None if vhost in catalog.vhosts else commands.PutVhost(Vhost(vhost))


def is_possible(catalog: Catalog, command: Command) -> bool:
    """Whether the command can be applied as things are."""
    if isinstance(command, commands.PutJob):
        return command.job.queue in catalog.topologies[command.job.vhost].queues
    return not isinstance(command, commands.Bind) or _has_ends(catalog, command.binding)


def _has_ends(catalog: Catalog, binding: BindingRecord) -> bool:
    topology = catalog.topologies[binding.vhost]
    destinations = topology.queues if binding.to_queue else topology.exchanges
    return binding.source in topology.exchanges and binding.destination in destinations
