"""Connections through proxies: who must send a header, whose address counts, and what becomes of those without."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from leveret.runtime import proxy_acceptor
from leveret.runtime.descriptors import Share
from leveret.runtime.listener import Acceptor, Listener
from leveret.runtime.network import SocketHub, SocketTransport
from leveret.runtime.proxy_acceptor import UNKNOWN, ProxyNetworks
from tests.unit.runtime.endpoints import Recorder, run, until

PROXY = "127.0.0.5"
LINE = b"PROXY TCP4 203.0.113.7 198.51.100.1 40001 5672\r\n"
CLIENT = ("203.0.113.7", 40001)
LOCAL = b"\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"


@contextmanager
def connection(listener: Listener, source: str = PROXY) -> Iterator[socket.socket]:
    with socket.create_connection((listener.host, listener.port), 5, source_address=(source, 0)) as made:
        yield made


@contextmanager
def listening(
    accepted: list[SocketTransport], networks: tuple[str, ...] = (f"{PROXY}/32",)
) -> Iterator[tuple[Listener, Share]]:
    board = SocketHub(asyncio.get_running_loop(), Share("test", 10))
    listener = Listener(board, "127.0.0.1", 0, accepted.append, proxies=ProxyNetworks(networks))
    try:
        yield listener, board.descriptors
    finally:
        for transport in accepted:
            transport.abort("over")
        listener.close()
    assert board.descriptors.used == 0


async def ended(client: socket.socket) -> None:
    """The other side has closed, without a word; with octets unread that resets the connection."""
    client.setblocking(False)
    with suppress(ConnectionResetError):
        assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 1), 5) == b""


def test_a_header_names_the_client_and_what_follows_is_its_own() -> None:
    async def test() -> None:
        accepted: list[SocketTransport] = []
        with listening(accepted) as (listener, share), connection(listener) as client:
            # In pieces, the last of which has the client's first octets.
            client.sendall(LINE[:20])
            await until(lambda: share.used == 1)
            assert not accepted
            client.sendall(LINE[20:] + b"AMQP")
            await until(lambda: accepted)
            assert (accepted[0].peer, accepted[0].local) == (CLIENT, ("198.51.100.1", 5672))
            assert share.used == 1
            board = accepted[0]._board
            recorder = Recorder(board)
            accepted[0].start(recorder)
            await until(lambda: recorder.octets == b"AMQP")

    run(test)


def test_others_need_no_header_and_are_not_believed() -> None:
    async def test() -> None:
        accepted: list[SocketTransport] = []
        with listening(accepted) as (listener, _), connection(listener, "127.0.0.1") as client:
            client.sendall(LINE)
            await until(lambda: accepted)
            assert accepted[0].peer == client.getsockname()
            recorder = Recorder(accepted[0]._board)
            accepted[0].start(recorder)
            await until(lambda: recorder.octets == LINE)

    run(test)


@pytest.mark.parametrize(
    ("header", "peer"),
    [
        (LOCAL, None),
        (b"PROXY UNKNOWN\r\n", UNKNOWN),
        # The proxy is on this machine, and so is its client.
        (b"PROXY TCP4 127.0.0.9 127.0.0.1 7 5672\r\n", ("127.0.0.9", 7)),
    ],
    ids=["local", "unknown", "loopback"],
)
def test_what_a_proxy_says_of_itself_and_of_strangers(header: bytes, peer: tuple[str, int] | None) -> None:
    async def test() -> None:
        accepted: list[SocketTransport] = []
        with listening(accepted) as (listener, _), connection(listener) as client:
            client.sendall(header)
            await until(lambda: accepted)
            assert accepted[0].peer == (peer or client.getsockname())

    run(test)


def test_the_loopback_of_another_machine_is_not_ours() -> None:
    assert proxy_acceptor._client(("127.0.0.1", 7), ("192.0.2.1", 9)) == ("192.0.2.1", 7)
    assert proxy_acceptor._client(("::1", 7), ("::ffff:192.0.2.1", 9)) == ("::ffff:192.0.2.1", 7)
    assert proxy_acceptor._client(("::1", 7), ("127.0.0.1", 9)) == ("::1", 7)
    assert proxy_acceptor._client(("203.0.113.7", 7), ("127.0.0.1", 9)) == ("203.0.113.7", 7)


@pytest.mark.parametrize(
    "octets", [b"AMQP\x00\x00\x09\x01", b"PROXY nonsense\r\n", b"\r\n\r\n\x00\r\nQUIT\n\x99\x11\x00\x00"]
)
def test_a_proxy_without_a_header_is_refused(octets: bytes) -> None:
    async def test() -> None:
        accepted: list[SocketTransport] = []
        with listening(accepted) as (listener, share), connection(listener) as client:
            client.sendall(octets)
            await ended(client)
            assert (accepted, share.used) == ([], 0)

    run(test)


def test_a_header_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_acceptor, "HEADER_DEADLINE_S", 0.05)

    async def test() -> None:
        accepted: list[SocketTransport] = []
        with listening(accepted) as (listener, share), connection(listener) as client:
            client.sendall(LINE[:-1])
            await ended(client)
            assert (accepted, share.used) == ([], 0)

    run(test)


def test_a_proxy_that_hangs_up_leaves_nothing() -> None:
    async def test() -> None:
        accepted: list[SocketTransport] = []
        with listening(accepted) as (listener, share):
            for octets in (b"", LINE[:9]):
                with connection(listener) as client:
                    client.sendall(octets)
                    await until(lambda: share.used == 1)
                await until(lambda: share.used == 0)
            assert not accepted

    run(test)


def test_sockets_that_wait_for_a_header_count_and_end_with_the_listener() -> None:
    async def test() -> None:
        share = Share("test", 2)
        sock = socket.create_server(("127.0.0.1", 0))
        taken: list[Any] = []
        acceptor = Acceptor(
            asyncio.get_running_loop(),
            sock,
            share,
            lambda made, peer, reached: taken.append(made),
            proxies=ProxyNetworks((f"{PROXY}/32",)),
        )
        place = sock.getsockname()
        clients = [socket.create_connection(place, 5, source_address=(PROXY, 0)) for _ in range(3)]
        await until(lambda: share.refused_total)
        assert (share.used, taken) == (2, [])
        acceptor.close()
        assert share.used == 0
        for client in clients:
            await ended(client)
            client.close()

    run(test)


def test_networks_hold_addresses_of_both_kinds() -> None:
    networks = ProxyNetworks(("10.0.0.0/28", "2001:db8::/64"))
    assert [networks.has(host) for host in ("10.0.0.15", "::ffff:10.0.0.1", "2001:db8::1", "fe80::1%lo")] == [
        True,
        True,
        True,
        False,
    ]
    assert not networks.has("10.0.0.16")
    networks.set(())
    assert not networks.has("10.0.0.15")
    with pytest.raises(ValueError, match="host bits"):
        networks.set(("10.0.0.1/28",))
