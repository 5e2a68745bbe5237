"""Commands about streams as such: making and deleting them, where they are, what super streams are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from leveret.auth.access import CONFIGURE, READ
from leveret.broker.reserved_names import RESERVED_PREFIX
from leveret.broker.topology import strip_line_ends
from leveret.core.codec.names import name_octets
from leveret.core.stream.queue import StreamQueue
from leveret.errors import SoftError
from leveret.wire import stream_commands as commands
from leveret.wire.limits import SHORTSTR_BYTES_MAX
from leveret.wire.stream_codes import COMMAND_VERSIONS, Code, Key
from leveret.wire.stream_commands import Command

if TYPE_CHECKING:
    from leveret.session.stream.session import StreamSession

# Arguments of a stream as this protocol names them; those with True are numbers.
ARGUMENTS = {
    "max-length-bytes": True,
    "max-age": False,
    "stream-max-segment-size-bytes": True,
    "initial-cluster-size": True,
    "queue-leader-locator": False,
    "stream-filter-size-bytes": True,
}
NUMBER_DIGITS_MAX = 19
NO_BROKER = 0xFFFF


def find_stream(session: StreamSession, name: str) -> StreamQueue:
    """Raises 404 if there is none, whatever else has that name."""
    queue = session.vhost.queues.get(name_octets(name))
    if not isinstance(queue, StreamQueue):
        raise SoftError(404, f"no stream '{name}' in vhost '{session.vhost.name}'")
    return queue


def arguments_of(given: dict[str, str]) -> dict[str, Any]:
    """A stream's arguments as AMQP has them."""
    arguments: dict[str, Any] = {"x-queue-type": "stream"}
    for name, value in given.items():
        if name not in ARGUMENTS:
            raise SoftError(406, f"unknown argument '{name}' of a stream")
        if not ARGUMENTS[name]:
            arguments[f"x-{name}"] = value
        elif value.isascii() and value.isdecimal() and len(value) <= NUMBER_DIGITS_MAX:
            arguments[f"x-{name}"] = int(value)
        else:
            raise SoftError(406, f"argument '{name}' of a stream is '{value}', not a number")
    return arguments


def checked_name(name: str) -> str:
    name = strip_line_ends(name)
    if not name or name.startswith(RESERVED_PREFIX) or len(name.encode()) > SHORTSTR_BYTES_MAX:
        raise SoftError(406, f"a stream cannot be called '{name}'")
    return name


def create(session: StreamSession, command: commands.Create) -> None:
    name = checked_name(command.stream)
    session.access.check_queue(CONFIGURE, name)
    exists = name_octets(name) in session.vhost.queues
    # Refused if it exists otherwise: clients take STREAM_ALREADY_EXISTS for a success.
    session.topology.declare_queue(session, name, True, False, False, arguments_of(command.arguments))
    if exists:
        session.refuse(command, Code.STREAM_ALREADY_EXISTS)
        return
    session.send(commands.CreateResponse(command.correlation_id, Code.OK))


def delete(session: StreamSession, command: commands.Delete) -> None:
    session.access.check_queue(CONFIGURE, command.stream)
    find_stream(session, command.stream)
    session.topology.delete_queue(session, command.stream, False, False)
    session.send(commands.DeleteResponse(command.correlation_id, Code.OK))


def metadata(session: StreamSession, command: commands.Metadata) -> None:
    host, port = session.advertised
    found: list[tuple[str, int, int, list[int]]] = []
    for name in command.streams:
        if isinstance(session.vhost.queues.get(name_octets(name)), StreamQueue):
            found.append((name, Code.OK, 0, []))
        else:
            found.append((name, Code.STREAM_DOES_NOT_EXIST, NO_BROKER, []))
    session.send(commands.MetadataResponse(command.correlation_id, [(0, host, port)], found))


def stats(session: StreamSession, command: commands.StreamStats) -> None:
    session.access.check_queue(READ, command.stream)
    stream = find_stream(session, command.stream)
    first, committed = int(stream.first_offset), int(stream.committed_offset)
    empty = first == committed
    statistics = {
        "first_chunk_id": -1 if empty else first,
        "last_chunk_id": -1 if empty else committed - 1,
        "committed_chunk_id": -1 if empty else committed - 1,
        "committed_offset": -1 if empty else committed - 1,
    }
    session.send(commands.StreamStatsResponse(command.correlation_id, Code.OK, statistics))


def versions(session: StreamSession, command: commands.ExchangeCommandVersions) -> None:
    """The client says what it understands, and hears what we do."""
    for key, _, highest in command.commands:
        if key == Key.DELIVER:
            session.deliver_version = 2 if highest >= 2 else 1
    answer = commands.ExchangeCommandVersionsResponse(command.correlation_id, Code.OK, list(COMMAND_VERSIONS))
    session.send(answer)


# ---- super streams


def create_super_stream(session: StreamSession, command: commands.CreateSuperStream) -> None:
    arguments = arguments_of(command.arguments)
    session.super_streams.create(session, command.name, command.binding_keys, arguments, streams=command.partitions)
    session.send(commands.CreateSuperStreamResponse(command.correlation_id, Code.OK))


def delete_super_stream(session: StreamSession, command: commands.DeleteSuperStream) -> None:
    session.super_streams.delete(session, command.name)
    session.send(commands.DeleteSuperStreamResponse(command.correlation_id, Code.OK))


def route(session: StreamSession, command: commands.Route) -> None:
    found = session.super_streams.route(session.vhost.name, command.super_stream, command.routing_key)
    session.send(commands.RouteResponse(command.correlation_id, Code.OK, found))


def partitions(session: StreamSession, command: commands.Partitions) -> None:
    found = session.super_streams.partitions(session.vhost.name, command.super_stream)
    session.send(commands.PartitionsResponse(command.correlation_id, Code.OK, found))


HANDLERS: dict[type[Command], Callable[[StreamSession, Any], None]] = {
    commands.Create: create,
    commands.Delete: delete,
    commands.Metadata: metadata,
    commands.StreamStats: stats,
    commands.ExchangeCommandVersions: versions,
    commands.CreateSuperStream: create_super_stream,
    commands.DeleteSuperStream: delete_super_stream,
    commands.Route: route,
    commands.Partitions: partitions,
}
