"""Unix sockets: binding one that only its owner can open, accepting from it, and who is at the other end.

The kernel says which user that is, for both sides: nobody can claim it."""

from __future__ import annotations

import os
import socket
import stat
import struct
from collections.abc import Callable
from pathlib import Path

from leveret.errors import StartupError
from leveret.runtime.listener import Acceptor
from leveret.runtime.network import SocketHub, SocketTransport
from leveret.runtime.proxy_header import Address

BACKLOG = 512
# What the kernel takes for the path of a unix socket, without the octet at its end.
SOCKET_PATH_OCTETS_MAX = 107
# Process, user and group.
_CREDENTIALS = struct.Struct("3i")


def is_too_long(path: str) -> bool:
    return len(os.fsencode(path)) > SOCKET_PATH_OCTETS_MAX


def bound_path(path: str) -> socket.socket:
    """A unix socket that only its owner can open. Raises StartupError."""
    Path(path).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Ours from a life that ended without a word: the store's lock says that nobody else lives here.
    if os.path.lexists(path) and stat.S_ISSOCK(os.lstat(path).st_mode):
        os.unlink(path)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # From the first moment on: between bind and chmod others could come in.
    mask = os.umask(0o177)
    try:
        made.bind(path)
        made.listen(BACKLOG)
    except OSError as error:
        made.close()
        raise StartupError(f"cannot listen on the unix socket {path}: {error.strerror}") from None
    finally:
        os.umask(mask)
    return made


def user_of_peer(sock: socket.socket) -> int:
    """The user that runs the other end: who listens there, if this end has connected."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    user: int = _CREDENTIALS.unpack(raw)[1]
    return user


def own_user() -> int:
    return os.geteuid()


class UnixListener:
    """Accepts connections of this machine; `accept` gets a transport, not started, and the user at the other end."""

    def __init__(self, board: SocketHub, path: str, accept: Callable[[SocketTransport, int], None]) -> None:
        """Raises StartupError."""
        self._board = board
        self._accept = accept
        self.path = path
        if is_too_long(path):
            raise StartupError(f"the path of the unix socket {path} is longer than {SOCKET_PATH_OCTETS_MAX} octets")
        self._acceptor = Acceptor(board.loop, bound_path(path), board.descriptors, self._accepted)

    def _accepted(self, sock: socket.socket, peer: Address, local: Address | None) -> None:
        try:
            user = user_of_peer(sock)
        except OSError:
            sock.close()
            return
        self._accept(SocketTransport(self._board, sock, (self.path, 0)), user)
        self._board.kick()

    def close(self) -> None:
        self._acceptor.close()
        Path(self.path).unlink(missing_ok=True)
