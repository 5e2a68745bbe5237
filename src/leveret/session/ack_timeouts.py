"""The clock beside a channel's unacked deliveries: what is not acknowledged in time goes back, or the channel closes.

One timer per channel, and none on a channel where no timeout is in force. `core.connection.ack_watch` knows who is
late; this module looks at the clock for it and does what the node's setting says."""

from __future__ import annotations

import asyncio
from math import ceil
from typing import TYPE_CHECKING

from leveret.core.connection.ack_watch import AckWatch, effective_timeout, own_timeout
from leveret.core.queue.contract import Entry, Subscriber
from leveret.errors import SoftError
from leveret.runtime.log import get_logger

if TYPE_CHECKING:
    from leveret.session.channel import ChannelSession

log = get_logger(__name__)

REQUEUE = "requeue"
CLOSE = "close"
ACTIONS = (REQUEUE, CLOSE)
# How often a channel looks at least whether its connection is read again.
HELD_UP_MS = 100.0


class AckTimeouts:
    __slots__ = ("_channel_session", "_looked_at", "_stood_ms", "_timer", "_watch")

    def __init__(self, channel_session: ChannelSession) -> None:
        self._channel_session = channel_session
        self._watch = AckWatch(channel_session.core, channel_session.session.settings.ack_timeout_ms)
        self._timer: asyncio.TimerHandle | None = None
        self._looked_at = channel_session.session.broker.clock.monotonic() * 1000
        # How long this clock stood, because the connection was not read.
        self._stood_ms = 0.0

    def add(self, subscriber: Subscriber) -> None:
        """Acks are expected of a consumer, or of a get, from now on."""
        if self._watch.add(subscriber) or self._timer is None:
            self._arm()

    def recheck(self) -> bool:
        """A queue got another timeout, or a rollback brought back what was acknowledged: false if no timeout is in
        force now."""
        self._watch.rebuild()
        self._arm()
        return self._timer is not None

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _now_ms(self) -> float:
        """Stands still while the broker does not read the client, whose acks may lie unread in the socket."""
        session = self._channel_session.session
        now_ms = session.broker.clock.monotonic() * 1000
        if session.held_up:
            self._stood_ms += now_ms - self._looked_at
        self._looked_at = now_ms
        return now_ms - self._stood_ms

    def _arm(self) -> None:
        self.stop()
        session = self._channel_session.session
        wait_ms = self._watch.wait_ms(self._now_ms())
        if wait_ms is not None:
            if session.held_up:
                wait_ms = max(wait_ms, HELD_UP_MS)
            self._timer = session.board.loop.call_later(ceil(wait_ms) / 1000, self._tick)

    def _tick(self) -> None:
        self._timer = None
        session = self._channel_session.session
        try:
            late = self._watch.look(self._now_ms())
            if late:
                self._act(late)
        except Exception:
            log.exception(
                "acknowledgement timeout failed", peer=session.peer_name, channel=self._channel_session.number
            )
            session.fail_internally()
        session.board.kick()
        if self._channel_session.is_open:
            self._arm()

    def _act(self, late: list[Entry]) -> None:
        channel_session = self._channel_session
        session = channel_session.session
        timeout_ms = self._watch.timeout_of(late[0])
        if session.settings.ack_timeout_action == CLOSE:
            # RabbitMQ's text, which clients and people look for.
            text = (
                f"delivery acknowledgement on channel {channel_session.number} timed out. "
                f"Timeout value used: {timeout_ms} ms. "
                "This timeout value can be configured, see consumers doc guide to learn more"
            )
            session.close_channel(channel_session, SoftError(406, text))
            return
        # The first time is worth a line; a consumer that hangs would write one in every timeout.
        tell = log.debug if channel_session.core.timed_out_total else log.warning
        tell(
            "deliveries not acknowledged in time went back to their queues",
            peer=session.peer_name,
            channel=channel_session.number,
            count=len(late),
            timeout_ms=timeout_ms,
        )
        channel_session.core.time_out(late)


def expect_acks(channel_session: ChannelSession, subscriber: Subscriber) -> None:
    """Watches over what the subscriber gets, if a timeout is in force for it; else it costs this question."""
    if channel_session.ack_timeouts is None:
        default_ms = channel_session.session.settings.ack_timeout_ms
        if effective_timeout(own_timeout(subscriber), subscriber.queue, default_ms) == 0:
            return
        channel_session.ack_timeouts = AckTimeouts(channel_session)
    channel_session.ack_timeouts.add(subscriber)


def recheck_acks(channel_session: ChannelSession) -> None:
    """Queues of this channel may have got a timeout, or another one."""
    timeouts = channel_session.ack_timeouts or AckTimeouts(channel_session)
    channel_session.ack_timeouts = timeouts if timeouts.recheck() else None
