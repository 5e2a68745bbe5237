"""The links of a node, and the door inside it by which they reach its own broker: a pair of connected sockets, no port
and no network, with an ordinary session behind them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from leveret.auth.identity import Identity
from leveret.broker.link_identity import LinkIdentity
from leveret.broker.link_status import LinkStatus
from leveret.client.errors import ConnectionFailed
from leveret.client.options import Options
from leveret.client.transport.handshake import open_link
from leveret.client.transport.link import Link
from leveret.client.url import Address
from leveret.errors import LoginRefused, StartupError
from leveret.links.dialing import Dialer, LocalLogin
from leveret.links.federation.federation import Federation
from leveret.links.placement import Alone
from leveret.links.shovels import Shovels
from leveret.links.static_shovels import StaticShovels, read_static_shovels
from leveret.runtime.network import SocketHub, SocketTransport

if TYPE_CHECKING:
    from leveret.node.config.settings import Settings
    from leveret.node.node import Node

LOOPBACK = "127.0.0.1"


class LocalDoor:
    """`accepted` makes a session of a transport, for somebody who need not log in any more unless it is None."""

    def __init__(self, node: Node, accepted: Callable[[SocketTransport, Identity | None], None]) -> None:
        self._node = node
        self._accepted = accepted
        self._count = 0

    async def open(self, login: LocalLogin, options: Options) -> Link:
        """Raises ConnectionFailed."""
        board = self._node.board
        if board is None or not self._node.in_service:
            raise ConnectionFailed("this broker is not in service")
        identity = self._identity(login)
        ours = self._open_pair(board, identity)
        address = Address(LOOPBACK, 0, user=login.user or "", password=login.password or "", vhost=login.vhost)
        return await open_link(address, options, ours)

    def _identity(self, login: LocalLogin) -> Identity | None:
        """None if a password has to be checked."""
        if login.user is None:
            return LinkIdentity(login.vhost)
        if login.password is not None:
            return None
        try:
            return self._node.broker.logins.admit(login.user, LOOPBACK)
        except LoginRefused as error:
            raise ConnectionFailed(f"user {login.user!r} is not let in: {error.reason}") from None

    def _open_pair(self, board: SocketHub, identity: Identity | None) -> socket.socket:
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            raise ConnectionFailed(f"no descriptor is left: {error.strerror}") from None
        ours.setblocking(False)
        theirs.setblocking(False)
        self._count = self._count % 0xFFFFFFFF + 1
        transport = SocketTransport(board, theirs, (LOOPBACK, self._count))
        transport.reached = (LOOPBACK, 0)
        self._accepted(transport, identity)
        board.kick()
        return ours


class NodeLinks:
    """Shovels and federation of one node."""

    def __init__(self, node: Node, accepted: Callable[[SocketTransport, Identity | None], None]) -> None:
        settings = node.settings
        self._door = LocalDoor(node, accepted)
        self.dialer = Dialer(self._door.open)
        self.shovel_desk = Shovels(
            node.broker, self.dialer, Alone(), settings.chosen_node_name, lambda: node.settings.cluster_name
        )
        self.federation_desk = Federation(
            node.broker,
            self.dialer,
            Alone(),
            settings.chosen_node_name,
            lambda: (node.settings.cluster_name, node.cluster_id),
        )
        node.on_reload.append(self._reload)

    def open(self, settings: Settings) -> None:
        """Raises StartupError."""
        self.shovel_desk.open(self._read(settings))
        self.federation_desk.open()

    def _reload(self, settings: Settings) -> None:
        self.shovel_desk.reload(self._read(settings))

    def _read(self, settings: Settings) -> StaticShovels:
        path = settings.links.static_shovels
        if not path:
            return {}
        try:
            return read_static_shovels(Path(path).read_bytes())
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise StartupError(f"the static shovels in {path} cannot be used: {reason}") from None

    async def close(self) -> None:
        await asyncio.gather(self.shovel_desk.close(), self.federation_desk.close())

    # ---- for the management API

    def shovels(self, vhost: str | None = None) -> list[LinkStatus]:
        return self.shovel_desk.shovels(vhost)

    def restart_shovel(self, vhost: str, name: str) -> bool:
        return self.shovel_desk.restart_shovel(vhost, name)

    def pause_shovel(self, vhost: str, name: str, paused: bool) -> bool:
        return self.shovel_desk.pause_shovel(vhost, name, paused)

    def federation(self, vhost: str | None = None) -> list[LinkStatus]:
        return self.federation_desk.links(vhost)

    def restart_federation(self, vhost: str, link_id: str) -> bool:
        return self.federation_desk.restart(vhost, link_id)
