"""One node: made of a broker and its listeners, started and stopped on a running loop.

Assembles the rooms and holds nothing else. Several nodes can run in one process."""

from __future__ import annotations

import asyncio

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
STOP_POLL_S = 0.01


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
        # Every accepted socket, those in their handshake included.
        self._pumps: set[Pump] = set()

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
        self._pumps.add(pump)
        pump.on_closed = self._pumps.discard
        pump.start(Session(self.broker, self.topology, self._session_settings, self._board, pump))

    def kick(self) -> None:
        """After changing the broker from outside a session: sends what that has put into outboxes."""
        if self._board is not None:
            self._board.kick()

    async def stop(self) -> None:
        """Accepts no more, closes connections with 320, waits a moment for them, then closes their sockets."""
        if self._listener is not None:
            self._listener.close()
        self.broker.close_connections("broker forced connection closure with reason 'shutdown'")
        self.kick()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + STOP_DEADLINE_S
        while self.broker.connections and loop.time() < deadline:
            await asyncio.sleep(STOP_POLL_S)
        while any(pump.finishing for pump in self._pumps) and loop.time() < deadline:
            await asyncio.sleep(STOP_POLL_S)
        for pump in list(self._pumps):
            pump.abort("shutdown")
        self.broker.close()
