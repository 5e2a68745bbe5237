"""Resolving: addresses of a host by the system, SRV records by asking the servers of resolv.conf."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from leveret.runtime.dns.message import DnsError, Service, Truncated, question, services

RESOLV_CONF = Path("/etc/resolv.conf")
PORT = 53
SERVERS_MAX = 3
ADDRESSES_MAX = 64
ATTEMPT_S = 2.0
_DATAGRAM_BYTES_MAX = 65535


def name_servers(text: str) -> list[tuple[str, int]]:
    """Those that a resolv.conf names."""
    found = []
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 2 and words[0] == "nameserver":
            found.append((words[1], PORT))
    return found[:SERVERS_MAX] or [("127.0.0.1", PORT)]


async def addresses(host: str, port: int, deadline_s: float) -> list[str]:
    """Every A and AAAA record of a host, or itself if it is an address; in the system's order. Raises OSError."""
    async with asyncio.timeout(deadline_s):
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    hosts = dict.fromkeys(str(address[0]) for _, _, _, _, address in found)
    return list(hosts)[:ADDRESSES_MAX]


class ServiceResolver:
    """`number` gives 16 random bits or more: an answer must have those of its question."""

    def __init__(self, number: Callable[[], int], servers: Sequence[tuple[str, int]] | None = None) -> None:
        self._number = number
        self._servers = servers

    async def services(self, name: str, deadline_s: float) -> list[Service]:
        """In their order of preference. Raises OSError or DnsError if no server has an answer."""
        failure: OSError | DnsError = DnsError(f"no server knows {name}")
        async with asyncio.timeout(deadline_s):
            for server in self._servers if self._servers is not None else self._of_system():
                try:
                    async with asyncio.timeout(ATTEMPT_S):
                        return await self._ask(server, name)
                except (OSError, DnsError) as error:
                    failure = error
        raise failure

    @staticmethod
    def _of_system() -> list[tuple[str, int]]:
        try:
            return name_servers(RESOLV_CONF.read_text(errors="replace"))
        except OSError:
            return name_servers("")

    async def _ask(self, server: tuple[str, int], name: str) -> list[Service]:
        number = self._number() & 0xFFFF
        asked = question(number, name)
        try:
            return await self._ask_datagram(server, number, name, asked)
        except Truncated:
            return services(number, name, await _ask_stream(server, asked))

    async def _ask_datagram(self, server: tuple[str, int], number: int, name: str, asked: bytes) -> list[Service]:
        loop = asyncio.get_running_loop()
        family = socket.AF_INET6 if ":" in server[0] else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            # Connected: the kernel drops what others send.
            sock.connect(server)
            await loop.sock_sendall(sock, asked)
            return services(number, name, await loop.sock_recv(sock, _DATAGRAM_BYTES_MAX))


async def _ask_stream(server: tuple[str, int], asked: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(*server)
    try:
        writer.write(len(asked).to_bytes(2, "big") + asked)
        length = int.from_bytes(await reader.readexactly(2), "big")
        return await reader.readexactly(length)
    except asyncio.IncompleteReadError:
        raise DnsError("the server has closed before its answer was complete") from None
    finally:
        writer.close()
