"""Class channel: opening, closing, and channel.flow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.errors import HardError
from leveret.session.channel import ChannelSession
from leveret.wire.channel_methods import (
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ChannelOpenOk,
)
from leveret.wire.codec import encode_open_ok_of_0_8
from leveret.wire.constants import AMQP_0_8

if TYPE_CHECKING:
    from leveret.session.session import Session


def open_channel(session: Session, number: int) -> None:
    opened = len(session.channel_sessions)
    if opened >= session.channel_max:
        raise HardError(
            530, f"number of channels opened ({opened}) has reached the negotiated channel_max ({session.channel_max})"
        )
    session.broker.limits.take_channel(session.identity)
    channel_session = session.channel_sessions[number] = ChannelSession(session, number)
    session.core.put_channel(channel_session.core)
    session.broker.churn.channels_opened += 1
    if session.protocol_version == AMQP_0_8:
        session.write_buffer.write(encode_open_ok_of_0_8(number))
    else:
        channel_session.send(ChannelOpenOk())


def forget_channel(channel_session: ChannelSession) -> None:
    """The number is free again. Unties the compiled channel from its channel session, so that both are freed at once
    and need not wait for the garbage collector, which rarely runs in a broker."""
    channel_session.session.core.drop_channel(channel_session.number)
    del channel_session.session.channel_sessions[channel_session.number]
    channel_session.session.broker.limits.leave_channel(channel_session.session.user)
    channel_session.session.broker.churn.channels_closed += 1
    channel_session.session.broker.retired.add_channel(channel_session.core)
    channel_session.core.channel_session = None
    channel_session.core.publish_path.gate = None


def reopen(channel_session: ChannelSession, method: ChannelOpen) -> None:
    raise HardError(504, "second 'channel.open' seen")


def close(channel_session: ChannelSession, method: ChannelClose) -> None:
    if not channel_session.is_open:
        # The client's close crossed ours: both are answered, and the channel ends with the client's answer.
        channel_session.send(ChannelCloseOk())
        return
    channel_session.release()
    channel_session.send(ChannelCloseOk())
    forget_channel(channel_session)


def close_ok(channel_session: ChannelSession, method: ChannelCloseOk) -> None:
    if channel_session.is_open:
        raise HardError(503, "unimplemented method")
    forget_channel(channel_session)


def flow(channel_session: ChannelSession, method: ChannelFlow) -> None:
    """RabbitMQ refuses active=false; here it does what AMQP says: the channel's consumers get nothing until true."""
    channel_session.core.flowing = method.active
    channel_session.send(ChannelFlowOk(method.active))
    if method.active:
        channel_session.core.unpark()


HANDLERS = {
    ChannelOpen.METHOD: reopen,
    ChannelClose.METHOD: close,
    ChannelCloseOk.METHOD: close_ok,
    ChannelFlow.METHOD: flow,
}
