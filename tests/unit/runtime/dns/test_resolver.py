"""Asking servers: over datagrams, over TCP when an answer was cut, the next when one fails."""

from __future__ import annotations

import asyncio
import socket

import pytest

from leveret.runtime.dns.message import DnsError, Service
from leveret.runtime.dns.resolver import ServiceResolver, addresses, name_servers
from tests.unit.runtime.dns.test_message import NAME, answer, packed, record
from tests.unit.runtime.endpoints import run

HARE = [Service(0, 5, 25672, "hare.example.org")]
GOOD = answer(record(packed("hare.example.org")))


def datagram_server(reply: bytes, port: int = 0) -> socket.socket:
    """Answers each question on the running loop."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", port))
    sock.setblocking(False)

    def readable() -> None:
        asked, peer = sock.recvfrom(1000)
        sock.sendto(asked[:2] + reply[2:], peer)

    asyncio.get_running_loop().add_reader(sock.fileno(), readable)
    return sock


def stop(sock: socket.socket) -> None:
    asyncio.get_running_loop().remove_reader(sock.fileno())
    sock.close()


def test_a_datagram_is_enough() -> None:
    async def test() -> None:
        server = datagram_server(GOOD)
        resolver = ServiceResolver(lambda: 0x12345, [server.getsockname()])
        assert await resolver.services(NAME, 10) == HARE
        stop(server)

    run(test)


def test_a_cut_answer_is_asked_for_over_tcp() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        length = int.from_bytes(await reader.readexactly(2), "big")
        asked = await reader.readexactly(length)
        reply = asked[:2] + GOOD[2:]
        writer.write(len(reply).to_bytes(2, "big") + reply)
        writer.close()

    async def test() -> None:
        stream = await asyncio.start_server(serve, "127.0.0.1", 0)
        address = stream.sockets[0].getsockname()
        server = datagram_server(answer(flags=0x8380), address[1])
        assert await ServiceResolver(lambda: 7, [address]).services(NAME, 10) == HARE
        stop(server)
        stream.close()
        await stream.wait_closed()

    run(test)


def test_the_next_server_is_asked_when_one_fails() -> None:
    async def test() -> None:
        bad, good = datagram_server(answer(flags=0x8182)), datagram_server(GOOD)
        servers = [bad.getsockname(), good.getsockname()]
        assert await ServiceResolver(lambda: 7, servers).services(NAME, 10) == HARE
        with pytest.raises(DnsError, match="code 2"):
            await ServiceResolver(lambda: 7, servers[:1]).services(NAME, 10)
        stop(bad)
        stop(good)

    run(test)


def test_a_server_that_is_silent_ends_at_the_deadline() -> None:
    async def test() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
            silent.bind(("127.0.0.1", 0))
            with pytest.raises(TimeoutError):
                await ServiceResolver(lambda: 7, [silent.getsockname()]).services(NAME, 0.05)

    run(test)


def test_addresses_of_this_machine() -> None:
    async def test() -> None:
        assert await addresses("127.0.0.1", 1, 10) == ["127.0.0.1"]
        assert await addresses("::1", 1, 10) == ["::1"]

    run(test)


def test_servers_of_resolv_conf() -> None:
    text = "# a comment\nsearch example.org\nnameserver 10.0.0.1\nnameserver fe80::1\nnameserver a\nnameserver b\n"
    assert name_servers(text) == [("10.0.0.1", 53), ("fe80::1", 53), ("a", 53)]
    assert name_servers("") == [("127.0.0.1", 53)]
