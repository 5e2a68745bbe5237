"""What tests of TLS on transports share: a transport on one end, on the other a client whose TLS the test has in its
hands."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from leveret.runtime.network import SocketHub
from leveret.runtime.tls import ServerCertificates, TlsOptions
from leveret.runtime.tls_transport import TlsDoor, TlsTransport
from tests.conformance.authority import Authority
from tests.unit.runtime.endpoints import Recorder


class TlsClient:
    """The other end, with its socket and its TLS in the hands of the test."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        self.sock = sock
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.ssl = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        self.loop = asyncio.get_running_loop()

    async def shake_hands(self) -> None:
        while True:
            try:
                self.ssl.do_handshake()
            except ssl.SSLWantReadError:
                await self.send_sealed()
                await self.receive()
            else:
                await self.send_sealed()
                return

    async def send_sealed(self) -> None:
        await self.loop.sock_sendall(self.sock, self.outgoing.read())

    async def receive(self) -> None:
        octets = await asyncio.wait_for(self.loop.sock_recv(self.sock, 1 << 20), 60)
        if octets:
            self.incoming.write(octets)
        else:
            self.incoming.write_eof()

    async def write(self, octets: bytes) -> None:
        self.ssl.write(octets)
        await self.send_sealed()

    async def read(self, size: int) -> bytes:
        """Up to so much; less only if the broker said that it has no more. Raises SSLEOFError if it did not say so."""
        octets = bytearray()
        while len(octets) < size:
            try:
                piece = self.ssl.read(1 << 20)
            except ssl.SSLWantReadError:
                await self.receive()
                continue
            except ssl.SSLZeroReturnError:
                break
            if not piece:
                break
            octets += piece
        return bytes(octets)


class Pair:
    """A transport on one end, a client on the other."""

    def __init__(self, board: SocketHub, transport: TlsTransport, endpoint: Recorder, client: TlsClient) -> None:
        self.board = board
        self.transport = transport
        self.endpoint = endpoint
        self.client = client

    def write(self, octets: bytes) -> None:
        self.endpoint.write_buffer.write(octets)
        self.board.kick()


class Doors:
    """Makes pairs whose server has the authority's certificate."""

    def __init__(self, authority: Authority) -> None:
        self.authority = authority
        papers = authority.server()
        self.certificates = ServerCertificates(
            TlsOptions(
                certificate=str(papers.certificate), key=str(papers.key), verify="optional", ca=str(authority.file)
            )
        )
        self.context = authority.context()
        self.door: TlsDoor

    @asynccontextmanager
    async def stranger(self, send_buffer: int | None = None) -> AsyncIterator[Pair]:
        """The handshake is still to come."""
        loop = asyncio.get_running_loop()
        board = SocketHub(loop)
        self.door = TlsDoor(loop, self.certificates)
        ours, theirs = socket.socketpair()
        if send_buffer is not None:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
        ours.setblocking(False)
        theirs.setblocking(False)
        transport, endpoint = self.door(board, ours, ("peer", 1)), Recorder(board)
        assert isinstance(transport, TlsTransport)
        transport.start(endpoint)
        with theirs:
            yield Pair(board, transport, endpoint, TlsClient(theirs, self.context))
            transport.abort("the test is over")

    @asynccontextmanager
    async def connected(self, send_buffer: int | None = None) -> AsyncIterator[Pair]:
        async with self.stranger(send_buffer) as pair:
            await pair.client.shake_hands()
            yield pair
