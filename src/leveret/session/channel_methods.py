"""Class channel: opening, closing, and channel.flow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.errors import HardError
from leveret.session.channel import ChannelDesk
from leveret.wire.channel_methods import (
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ChannelOpenOk,
)

if TYPE_CHECKING:
    from leveret.session.session import Session


def open_channel(session: Session, number: int) -> None:
    opened = len(session.desks)
    if opened >= session.channel_max:
        raise HardError(
            530, f"number of channels opened ({opened}) has reached the negotiated channel_max ({session.channel_max})"
        )
    session.broker.limits.take_channel(session.identity)
    desk = session.desks[number] = ChannelDesk(session, number)
    session.core.put_channel(desk.core)
    session.broker.churn.channels_opened += 1
    desk.send(ChannelOpenOk())


def forget_channel(desk: ChannelDesk) -> None:
    """The number is free again. Unties the compiled channel from its desk, so that both are freed at once and need
    not wait for the garbage collector, which rarely runs in a broker."""
    desk.session.core.drop_channel(desk.number)
    del desk.session.desks[desk.number]
    desk.session.broker.limits.leave_channel(desk.session.user)
    desk.session.broker.churn.channels_closed += 1
    desk.session.broker.retired.add_channel(desk.core)
    desk.core.desk = None
    desk.core.intake.gate = None


def reopen(desk: ChannelDesk, method: ChannelOpen) -> None:
    raise HardError(504, "second 'channel.open' seen")


def close(desk: ChannelDesk, method: ChannelClose) -> None:
    if not desk.is_open:
        # The client's close crossed ours: both are answered, and the channel ends with the client's answer.
        desk.send(ChannelCloseOk())
        return
    desk.release()
    desk.send(ChannelCloseOk())
    forget_channel(desk)


def close_ok(desk: ChannelDesk, method: ChannelCloseOk) -> None:
    if desk.is_open:
        raise HardError(503, "unimplemented method")
    forget_channel(desk)


def flow(desk: ChannelDesk, method: ChannelFlow) -> None:
    """RabbitMQ refuses active=false; here it does what AMQP says: the channel's consumers get nothing until true."""
    desk.core.flowing = method.active
    desk.send(ChannelFlowOk(method.active))
    if method.active:
        desk.core.unpark()


HANDLERS = {
    ChannelOpen.METHOD: reopen,
    ChannelClose.METHOD: close,
    ChannelCloseOk.METHOD: close_ok,
    ChannelFlow.METHOD: flow,
}
