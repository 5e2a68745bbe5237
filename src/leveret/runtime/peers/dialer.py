"""Dialling: a connected socket to a host and port or to a unix socket, within a deadline.

Several addresses of a host are tried in the resolver's order. The caller makes a transport of the socket and owns it
from then on."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

# Addresses of one host that are tried.
ADDRESSES_MAX = 8


async def dial(host: str, port: int, deadline_s: float) -> socket.socket:
    """Raises OSError (TimeoutError among them) with the reason of the last address that was tried."""
    async with asyncio.timeout(deadline_s):
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        failure: OSError = OSError(f"{host} has no address")
        addresses = found[:ADDRESSES_MAX]
        for number, (family, _, _, _, address) in enumerate(addresses):
            # A host that does not answer at its first address leaves time for the others.
            share_s = deadline_s / (len(addresses) - number + 1) if number + 1 < len(addresses) else deadline_s
            try:
                return await _connect(family, address, share_s)
            except OSError as error:
                failure = error
        raise failure


async def dial_unix(path: str, deadline_s: float) -> socket.socket:
    """Raises OSError."""
    return await _connect(socket.AF_UNIX, path, deadline_s)


async def _connect(family: int, address: Any, deadline_s: float) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        if family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        async with asyncio.timeout(deadline_s):
            await asyncio.get_running_loop().sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock
