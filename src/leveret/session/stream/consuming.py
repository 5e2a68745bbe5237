"""Commands of consumers: subscriptions, their credit, and the offsets that the stream keeps for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from leveret.auth.access import READ
from leveret.broker.stream_groups import GroupKey
from leveret.catalog.argument_size import argument_bytes
from leveret.core.stream.chunk import CHUNK_BYTES_MAX, StreamSubscription
from leveret.errors import SoftError
from leveret.runtime.log import get_logger
from leveret.session.stream.publishing import unwatch
from leveret.session.stream.streams import find_stream
from leveret.session.stream.subscription import Subscription, locate
from leveret.wire import stream_commands as commands
from leveret.wire.limits import SHORTSTR_BYTES_MAX
from leveret.wire.stream_codes import Code, OffsetType
from leveret.wire.stream_commands import Command

if TYPE_CHECKING:
    from leveret.session.stream.session import StreamSession

log = get_logger(__name__)

FILTER_PREFIX = "filter."
# Of one subscription: each entry of the stream is compared with them.
FILTER_VALUES_MAX = 256
# What a frame has beside the chunk's entries.
FRAME_ROOM = 128


def subscribe(session: StreamSession, command: commands.Subscribe) -> None:
    session.access.check_queue(READ, command.stream)
    stream = find_stream(session, command.stream)
    if command.subscription_id in session.subscriptions:
        session.refuse(command, Code.SUBSCRIPTION_ID_ALREADY_EXISTS)
        return
    if command.offset.kind == OffsetType.NONE:
        raise SoftError(406, "a subscription must say where it begins")
    bytes_max = max(0, min(CHUNK_BYTES_MAX, session.frame_max - FRAME_ROOM))
    core = StreamSubscription(command.subscription_id, stream, session.write_buffer, session.deliver_version, bytes_max)
    choose(core, command.properties)
    subscription = Subscription(session, core, stream, command.offset, command.properties)
    subscription.group = group_of(session, command)
    session.broker.limits.consumers.take(session.connection_id, session.user, argument_bytes(command.properties))
    session.subscriptions[command.subscription_id] = subscription
    stream.subscriptions += 1
    session.vhost.watch_stream(command.stream, session)
    session.wait_for(_begin(session, command, subscription))


async def _begin(session: StreamSession, command: commands.Subscribe, subscription: Subscription) -> None:
    """Answers, then sends what there is, or waits for its turn."""
    place = 0 if subscription.group is not None else await locate(session, subscription.stream, command.offset)
    if session.gone or subscription.gone:
        return
    if subscription.group is not None:
        try:
            session.broker.stream_groups.join(subscription.group, subscription)
        except SoftError as error:
            remove(session, subscription)
            session.refuse(command, Code.PRECONDITION_FAILED, str(error.text))
            return
    session.send(commands.SubscribeResponse(command.correlation_id, Code.OK))
    subscription.core.add_credit(command.credit)
    if subscription.group is None:
        subscription.core.begin(place)


def choose(core: StreamSubscription, properties: dict[str, str]) -> None:
    """Takes over the filter values."""
    values = {value.encode() for name, value in properties.items() if name.startswith(FILTER_PREFIX)}
    if len(values) > FILTER_VALUES_MAX:
        raise SoftError(406, f"a subscription has {len(values)} filter values of at most {FILTER_VALUES_MAX}")
    if values:
        core.filter(sorted(values), properties.get("match-unfiltered") == "true")


def group_of(session: StreamSession, command: commands.Subscribe) -> GroupKey | None:
    properties = command.properties
    name = properties.get("name", "")
    if len(name.encode()) > SHORTSTR_BYTES_MAX:
        raise SoftError(406, f"a consumer's name has more than {SHORTSTR_BYTES_MAX} bytes")
    if properties.get("single-active-consumer") != "true":
        return None
    if not name:
        raise SoftError(406, "a single active consumer must have a name")
    partition = session.super_streams.of_stream(session.vhost.name, command.stream)
    wanted = properties.get("super-stream")
    if wanted is not None and (partition is None or partition.super_stream != wanted):
        raise SoftError(406, f"stream '{command.stream}' is no partition of super stream '{wanted}'")
    return GroupKey(session.vhost.name, command.stream, name, None if partition is None else partition.index)


def unsubscribe(session: StreamSession, command: commands.Unsubscribe) -> None:
    subscription = session.subscriptions.get(command.subscription_id)
    if subscription is None:
        session.refuse(command, Code.SUBSCRIPTION_ID_DOES_NOT_EXIST)
        return
    session.send(commands.UnsubscribeResponse(command.correlation_id, Code.OK))
    remove(session, subscription)


def remove(session: StreamSession, subscription: Subscription) -> None:
    del session.subscriptions[subscription.core.id]
    session.broker.limits.consumers.leave(session.connection_id, session.user, argument_bytes(subscription.properties))
    subscription.end()
    unwatch(session, subscription.stream_name)


def credit(session: StreamSession, command: commands.Credit) -> None:
    subscription = session.subscriptions.get(command.subscription_id)
    if subscription is None:
        session.broker.churn.stream_errors[Code.SUBSCRIPTION_ID_DOES_NOT_EXIST] += 1
        session.send(commands.CreditResponse(Code.SUBSCRIPTION_ID_DOES_NOT_EXIST, command.subscription_id))
        return
    if subscription.group is not None and not subscription.active:
        # What a member that was active has left over: it keeps it for its next turn.
        session.broker.churn.stream_errors[Code.PRECONDITION_FAILED] += 1
        session.send(commands.CreditResponse(Code.PRECONDITION_FAILED, command.subscription_id))
    subscription.core.add_credit(command.credit)


# ---- offsets


def store_offset(session: StreamSession, command: commands.StoreOffset) -> None:
    """The command has no response, so an error is only logged."""
    reference = command.reference.encode()
    try:
        session.access.check_queue(READ, command.stream)
        stream = find_stream(session, command.stream)
        if not 0 < len(reference) <= SHORTSTR_BYTES_MAX:
            raise SoftError(406, f"a consumer's name has {len(reference)} bytes")
    except SoftError as error:
        log.info("offset not stored", peer=session.peer_name, user=session.user, error=str(error))
        return
    stream.store_offset(reference, command.offset)


def query_offset(session: StreamSession, command: commands.QueryOffset) -> None:
    session.access.check_queue(READ, command.stream)
    offset = find_stream(session, command.stream).stored_offset(command.reference.encode())
    if offset < 0:
        session.refuse(command, Code.NO_OFFSET)
    else:
        session.send(commands.QueryOffsetResponse(command.correlation_id, Code.OK, offset))


def resolve_offset(session: StreamSession, command: commands.ResolveOffsetSpec) -> None:
    session.access.check_queue(READ, command.stream)
    session.wait_for(_resolve(session, command))


async def _resolve(session: StreamSession, command: commands.ResolveOffsetSpec) -> None:
    place = await locate(session, find_stream(session, command.stream), command.offset)
    session.send(commands.ResolveOffsetSpecResponse(command.correlation_id, Code.OK, OffsetType.OFFSET, place))


HANDLERS: dict[type[Command], Callable[[StreamSession, Any], None]] = {
    commands.Subscribe: subscribe,
    commands.Unsubscribe: unsubscribe,
    commands.Credit: credit,
    commands.StoreOffset: store_offset,
    commands.QueryOffset: query_offset,
    commands.ResolveOffsetSpec: resolve_offset,
}
