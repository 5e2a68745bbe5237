"""Sockets for the node's servers of HTTP, bound before anything else happens: a port that is taken ends the start."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

from leveret.errors import StartupError

BACKLOG = 512
# What the kernel takes for the path of a unix socket, without the octet at its end.
SOCKET_PATH_OCTETS_MAX = 107


def bound(host: str, port: int, what: str) -> socket.socket:
    """Raises StartupError."""
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(BACKLOG)
    except OSError as error:
        made.close()
        raise StartupError(
            f"cannot listen on {host}:{port} for {what}: {error.strerror}; is another broker running there?"
        ) from None
    return made


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
