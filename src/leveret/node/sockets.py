"""Sockets for the node's servers of HTTP, bound before anything else happens: a port that is taken ends the start."""

from __future__ import annotations

import socket

from leveret.errors import StartupError

BACKLOG = 512


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
