"""Connections that come through a proxy: the header in which it names its client is read before anything else.

Only addresses within configured networks are proxies: they must send a header, and nobody else's is believed. What
comes behind the header stays in the socket, for TLS or whatever protocol is spoken there. Used by acceptors, before a
connection has a session; a socket that waits for its header counts in its acceptor's share of the descriptors."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable

from leveret.runtime.descriptors import Share
from leveret.runtime.log import get_logger
from leveret.runtime.proxy_header import Address, BadHeader, HeaderParser, Proxied

log = get_logger(__name__)

HEADER_DEADLINE_S = 5.0
# The client of a proxy that does not know it: an address that is nobody's, and so never one of this machine.
UNKNOWN = ("0.0.0.0", 0)
# The socket, the address of the client, and the address that the client has connected to if a proxy said so.
Accepted = Callable[[socket.socket, Address, Address | None], None]


class ProxyNetworks:
    """Whose headers are believed. One belongs to a node; a reload replaces the networks for connections to come."""

    def __init__(self, networks: tuple[str, ...] = ()) -> None:
        self.set(networks)

    def set(self, networks: tuple[str, ...]) -> None:
        """Raises ValueError with the reason if one is no network."""
        self._networks = tuple(ipaddress.ip_network(network) for network in networks)

    def has(self, host: str) -> bool:
        if not self._networks:
            return False
        address = _address(host)
        return any(address in network for network in self._networks)


class ProxyAcceptor:
    """Reads the headers of one acceptor's connections, and hands each on with its client's address."""

    def __init__(self, loop: asyncio.AbstractEventLoop, share: Share, accepted: Accepted) -> None:
        self._loop = loop
        self._share = share
        self._accepted = accepted
        self._waiting: set[_Waiting] = set()

    def await_header(self, sock: socket.socket, proxy: Address) -> None:
        self._share.used += 1
        self._waiting.add(_Waiting(self, self._loop, sock, proxy))

    def over(self, waiting: _Waiting) -> None:
        self._waiting.discard(waiting)
        self._share.used -= 1

    def introduced(self, sock: socket.socket, proxy: Address, said: Proxied) -> None:
        if said.local:
            self._accepted(sock, proxy, None)
        else:
            self._accepted(sock, _client(said.source, proxy), said.destination)

    def close(self) -> None:
        for waiting in list(self._waiting):
            waiting.drop()


class _Waiting:
    """A connection whose header has not come yet."""

    __slots__ = ("_acceptor", "_loop", "_parser", "_proxy", "_sock", "_timer")

    def __init__(
        self, acceptor: ProxyAcceptor, loop: asyncio.AbstractEventLoop, sock: socket.socket, proxy: Address
    ) -> None:
        self._acceptor = acceptor
        self._loop = loop
        self._sock = sock
        self._proxy = proxy
        self._parser = HeaderParser()
        self._timer = loop.call_later(HEADER_DEADLINE_S, self._late)
        loop.add_reader(sock.fileno(), self._readable)

    def _readable(self) -> None:
        try:
            # Bounded by the size of a header.
            while True:
                data = self._sock.recv(self._parser.wanted)
                if not data:
                    if self._parser.started:
                        self._refuse("closed within its header")
                    else:
                        # A check whether somebody listens.
                        self.drop()
                    return
                said = self._parser.feed(data)
                if said is not None:
                    break
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._refuse(f"reading failed: {error.strerror}")
            return
        except BadHeader as error:
            self._refuse(str(error))
            return
        self._leave()
        self._acceptor.introduced(self._sock, self._proxy, said)

    def _late(self) -> None:
        self._refuse(f"its header did not come within {HEADER_DEADLINE_S:.0f} s")

    def _refuse(self, reason: str) -> None:
        log.warning(
            "a connection from listen.proxy_networks is refused",
            peer=f"{self._proxy[0]}:{self._proxy[1]}",
            reason=reason,
        )
        self.drop()

    def drop(self) -> None:
        self._leave()
        self._sock.close()

    def _leave(self) -> None:
        self._timer.cancel()
        self._loop.remove_reader(self._sock.fileno())
        self._acceptor.over(self)


def _client(source: Address | None, proxy: Address) -> Address:
    if source is None:
        return UNKNOWN
    if _address(source[0]).is_loopback and not _address(proxy[0]).is_loopback:
        # The loopback of the proxy's machine, which is not this one.
        return proxy[0], source[1]
    return source


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    address = ipaddress.ip_address(host)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
