"""One node: made of a broker and its listeners, started and stopped on a running loop.

Assembles the rooms and holds nothing else. Several nodes can run in one process."""

from __future__ import annotations

import asyncio
import contextlib

from leveret.broker.broker import Broker
from leveret.broker.topology import Topology
from leveret.errors import StartupError
from leveret.node.settings import Settings
from leveret.runtime.clock import Clock
from leveret.runtime.dice import Dice
from leveret.runtime.network import Listener, Pump, Switchboard
from leveret.session.session import Session
from leveret.session.settings import SessionSettings

# How long connections get to answer the close of a stopping node.
STOP_DEADLINE_S = 3.0


class Node:
    def __init__(self, settings: Settings) -> None:
        if not __debug__:
            raise StartupError("python -O removes the checks that guard the data; start without it")
        self.settings = settings
        self.broker = Broker(Dice(), Clock())
        self.topology = Topology(self.broker)
        self._session_settings = SessionSettings(
            frame_max=settings.limits.frame_max,
            channel_max=settings.limits.channel_max,
            heartbeat_s=settings.limits.heartbeat_s,
            body_bytes_max=settings.limits.body_bytes_max,
            handshake_deadline_s=settings.limits.handshake_deadline_s,
            loopback_users=settings.auth.loopback_users,
            cluster_name=settings.cluster_name,
        )
        self._board: Switchboard | None = None
        self._listener: Listener | None = None
        # Every accepted connection, those in their handshake included.
        self._sessions: dict[Pump, Session] = {}
        # Set by the last of them when the node stops.
        self._drained: asyncio.Event | None = None

    def start(self) -> None:
        """Listens; must be called on the loop that the node is to run on."""
        self.broker.create_defaults()
        self._board = Switchboard(asyncio.get_running_loop())
        listen = self.settings.listen
        try:
            self._listener = Listener(self._board, listen.host, listen.port, self._accepted)
        except OSError as error:
            raise StartupError(
                f"cannot listen on {listen.host}:{listen.port}: {error.strerror}; is another broker running there?"
            ) from None

    @property
    def host(self) -> str:
        assert self._listener is not None
        return self._listener.host

    @property
    def port(self) -> int:
        assert self._listener is not None
        return self._listener.port

    def _accepted(self, pump: Pump) -> None:
        assert self._board is not None
        session = Session(self.broker, self.topology, self._session_settings, self._board, pump)
        self._sessions[pump] = session
        pump.on_closed = self._closed
        pump.start(session)

    def _closed(self, pump: Pump) -> None:
        self._sessions.pop(pump, None)
        if self._drained is not None and not self._sessions:
            self._drained.set()

    def kick(self) -> None:
        """After changing the broker from outside a session: sends what that has put into outboxes."""
        if self._board is not None:
            self._board.kick()

    async def stop(self, deadline_s: float = STOP_DEADLINE_S) -> None:
        """Accepts no more, closes connections with 320, waits a moment for them, then closes their sockets."""
        if self._listener is not None:
            self._listener.close()
        for session in list(self._sessions.values()):
            session.shut_down("broker forced connection closure with reason 'shutdown'")
        self.kick()
        if self._sessions:
            self._drained = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._drained.wait(), deadline_s)
        for pump in list(self._sessions):
            pump.abort("shutdown")
        self.broker.close()
