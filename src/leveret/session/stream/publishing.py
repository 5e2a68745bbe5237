"""Commands of publishers. Publishing itself is the data plane's (core/stream/publish_path.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from leveret.auth.access import READ, WRITE
from leveret.core.stream.publish_path import StreamPublisher
from leveret.errors import SoftError
from leveret.session.stream.streams import find_stream
from leveret.wire import stream_commands as commands
from leveret.wire.limits import SHORTSTR_BYTES_MAX
from leveret.wire.stream_codes import Code
from leveret.wire.stream_commands import Command

if TYPE_CHECKING:
    from leveret.session.stream.session import StreamSession


def declare(session: StreamSession, command: commands.DeclarePublisher) -> None:
    session.access.check_queue(WRITE, command.stream)
    reference = command.reference.encode()
    if len(reference) > SHORTSTR_BYTES_MAX:
        raise SoftError(406, f"a publisher's name has {len(reference)} bytes of at most {SHORTSTR_BYTES_MAX}")
    if session.broker.blocked_reason is not None:
        raise SoftError(406, f"no publisher can be had: {session.broker.blocked_reason}")
    if command.publisher_id in session.publishers:
        raise SoftError(406, f"publisher {command.publisher_id} exists")
    stream = find_stream(session, command.stream)
    if reference and any(each.stream is stream and each.reference == reference for each in session.publishers.values()):
        raise SoftError(406, f"a publisher named '{command.reference}' of stream '{command.stream}' exists")
    session.publishers[command.publisher_id] = StreamPublisher(
        command.publisher_id, stream, reference or None, session.write_buffer
    )
    session.vhost.watch_stream(command.stream, session)
    session.send(commands.DeclarePublisherResponse(command.correlation_id, Code.OK))


def delete(session: StreamSession, command: commands.DeletePublisher) -> None:
    publisher = session.publishers.get(command.publisher_id)
    if publisher is None:
        session.refuse(command, Code.PUBLISHER_DOES_NOT_EXIST)
        return
    remove(session, publisher)
    session.send(commands.DeletePublisherResponse(command.correlation_id, Code.OK))


def remove(session: StreamSession, publisher: StreamPublisher) -> None:
    publisher.close()
    del session.publishers[publisher.id]
    session.broker.retired.add_publisher(publisher)
    unwatch(session, publisher.stream.record.name)


def unwatch(session: StreamSession, stream: str) -> None:
    """Unless something else of this connection is about the stream."""
    if not any(each.stream.record.name == stream for each in session.publishers.values()) and not any(
        each.stream_name == stream for each in session.subscriptions.values()
    ):
        session.vhost.unwatch_stream(stream, session)


def check_again(session: StreamSession) -> None:
    """The user's permissions have changed."""
    for publisher in session.publishers.values():
        try:
            session.access.check_queue(WRITE, publisher.stream.record.name)
            publisher.refusal = 0
        except SoftError:
            publisher.refusal = Code.ACCESS_REFUSED


def query_sequence(session: StreamSession, command: commands.QueryPublisherSequence) -> None:
    session.access.check_queue(READ, command.stream)
    stream = find_stream(session, command.stream)
    sequence = max(0, stream.last_id(command.reference.encode()))
    session.send(commands.QueryPublisherSequenceResponse(command.correlation_id, Code.OK, sequence))


HANDLERS: dict[type[Command], Callable[[StreamSession, Any], None]] = {
    commands.DeclarePublisher: declare,
    commands.DeletePublisher: delete,
    commands.QueryPublisherSequence: query_sequence,
}
