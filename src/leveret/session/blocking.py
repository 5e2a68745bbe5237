"""Holding a publisher up: while the broker is short of memory or disk, a client that publishes is told and not read.

Consumers go on, and so do connections that do not publish. Everything goes on by itself when the alarm ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.session.suspension import FOR_ALARM
from leveret.wire.connection_methods import ConnectionBlocked, ConnectionUnblocked

if TYPE_CHECKING:
    from leveret.session.session import Session


class Blocking:
    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = False

    def alarm_changed(self, session: Session, reason: str | None) -> None:
        """An alarm began (its reason) or the last one ended (None)."""
        session.core.alarmed = reason is not None
        if reason is None and self._held:
            self._held = False
            if session.client_can("connection.blocked"):
                session.send(ConnectionUnblocked())
            session.resume(FOR_ALARM)
            session.heed_heartbeats()

    def published(self, session: Session) -> None:
        """The client publishes although there is an alarm: it is told, and read no further until that ends."""
        reason = session.broker.blocked_reason
        if reason is None or self._held:
            return
        self._held = True
        if session.client_can("connection.blocked"):
            session.send(ConnectionBlocked(reason))
        session.suspend(FOR_ALARM)
        session.heed_heartbeats()
