"""Listening sockets: accept in small batches, within the share of descriptors that their kind has.

A peer that there is no descriptor for waits in the kernel's backlog until there is one."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable

from leveret.runtime.descriptors import Share
from leveret.runtime.log import get_logger
from leveret.runtime.network import SocketHub, SocketTransport
from leveret.runtime.proxy_acceptor import Accepted, ProxyAcceptor, ProxyNetworks
from leveret.runtime.proxy_header import Address

log = get_logger(__name__)

ACCEPTS_A_TURN = 64
# How long accepting pauses when there is no room, and when somebody is being closed to make some.
ACCEPT_PAUSE_S = 0.1
EVICTION_PAUSE_S = 0.005
SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
MakeTransport = Callable[[SocketHub, socket.socket, tuple[str, int]], SocketTransport]


class Acceptor:
    """Owns a socket that listens. `accepted` gets each new one, which it counts in the share; `make_room` may close
    somebody else's to make room in a share that is used up, and says whether it did. Connections from `proxies` are
    accepted once their header has come."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        share: Share,
        accepted: Accepted,
        make_room: Callable[[], bool] = lambda: False,
        proxies: ProxyNetworks | None = None,
    ) -> None:
        self._loop = loop
        self._sock = sock
        self._share = share
        self._accepted = accepted
        self._make_room = make_room
        self._proxies = proxies
        self._proxied = ProxyAcceptor(loop, share, accepted)
        self._resume: asyncio.TimerHandle | None = None
        sock.setblocking(False)
        loop.add_reader(sock.fileno(), self._acceptable)

    def _acceptable(self) -> None:
        if not self._share.room:
            self._share.refused_total += 1
            self._pause(EVICTION_PAUSE_S if self._make_room() else ACCEPT_PAUSE_S)
            return
        for _ in range(min(ACCEPTS_A_TURN, self._share.room)):
            try:
                sock, peer = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                break
            except OSError as error:
                if error.errno in SHORTAGES:
                    self._share.refused_total += 1
                else:
                    # What became of a peer's connection before it was accepted (EPROTO, EHOSTUNREACH), or a firewall.
                    log.warning("a connection could not be accepted", error=error.strerror)
                self._pause(ACCEPT_PAUSE_S)
                break
            sock.setblocking(False)
            if self._proxies is not None and self._proxies.has(peer[0]):
                self._proxied.await_header(sock, (peer[0], peer[1]))
            else:
                self._accepted(sock, peer, None)

    def _pause(self, pause_s: float) -> None:
        self._loop.remove_reader(self._sock.fileno())
        self._resume = self._loop.call_later(pause_s, self._unpause)

    def _unpause(self) -> None:
        self._resume = None
        self._loop.add_reader(self._sock.fileno(), self._acceptable)

    def close(self) -> None:
        if self._resume is not None:
            self._resume.cancel()
            self._resume = None
        if self._sock.fileno() >= 0:
            self._loop.remove_reader(self._sock.fileno())
            self._sock.close()
        self._proxied.close()


class Listener:
    """Accepts connections of AMQP or the stream protocol; each becomes a transport."""

    def __init__(
        self,
        board: SocketHub,
        host: str,
        port: int,
        accept: Callable[[SocketTransport], None],
        make_transport: MakeTransport = SocketTransport,
        proxies: ProxyNetworks | None = None,
    ) -> None:
        self._board = board
        self._accept = accept
        self._make_transport = make_transport
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((host, port))
            sock.listen(1024)
        except OSError:
            sock.close()
            raise
        name = sock.getsockname()
        self.host: str = name[0]
        self.port: int = name[1]
        self._acceptor = Acceptor(board.loop, sock, board.descriptors, self._accepted, proxies=proxies)

    def _accepted(self, sock: socket.socket, peer: Address, local: Address | None) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport = self._make_transport(self._board, sock, (peer[0], peer[1]))
        transport.reached = local
        self._accept(transport)
        self._board.kick()

    def close(self) -> None:
        self._acceptor.close()
