"""Listening sockets: accepting within a share of the descriptors, pausing when there is none."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from typing import Any

import pytest

from leveret.runtime import listener as listener_module
from leveret.runtime.descriptors import Share
from leveret.runtime.listener import Acceptor, Listener
from leveret.runtime.network import SocketHub, SocketTransport
from tests.unit.runtime.endpoints import run, until


def listening(accepted: list[SocketTransport], host: str = "127.0.0.1", port: int = 0) -> Listener:
    board = SocketHub(asyncio.get_running_loop())
    return Listener(board, host, port, accepted.append)


def test_a_listener_says_where_it_listens_and_accepts_with_the_peers_address() -> None:
    async def test() -> None:
        accepted: list[SocketTransport] = []
        listener = listening(accepted)
        assert (listener.host, listener.port > 0) == ("127.0.0.1", True)
        with socket.create_connection((listener.host, listener.port)) as client:
            await until(lambda: accepted)
            assert accepted[0].peer == client.getsockname()
        accepted[0].abort("over")
        listener.close()
        listener.close()
        with pytest.raises(OSError):
            socket.create_connection((listener.host, listener.port), timeout=1)

    run(test)


def test_a_listener_listens_on_ipv6_too() -> None:
    async def test() -> None:
        try:
            probe = socket.create_server(("::1", 0), family=socket.AF_INET6)
        except OSError:
            pytest.skip("this machine has no IPv6 loopback")
        probe.close()
        accepted: list[SocketTransport] = []
        listener = listening(accepted, "::1")
        with socket.create_connection(("::1", listener.port)):
            await until(lambda: accepted)
        assert accepted[0].peer[0] == "::1"
        accepted[0].abort("over")
        listener.close()

    run(test)


def test_a_port_in_use_is_an_error_that_leaves_nothing_open() -> None:
    async def test() -> None:
        listener = listening([])
        with pytest.raises(OSError) as error:
            listening([], port=listener.port)
        assert error.value.errno == errno.EADDRINUSE
        listener.close()

    run(test)


class Exhausted:
    """A listening socket of a process without file descriptors to spare."""

    def __init__(self, real: socket.socket, failures: int, error: int = errno.EMFILE) -> None:
        self._real = real
        self._error = error
        self.failures = failures
        self.attempts = 0

    def accept(self) -> tuple[socket.socket, Any]:
        self.attempts += 1
        if self.failures > 0:
            self.failures -= 1
            raise OSError(self._error, "no")
        return self._real.accept()

    def fileno(self) -> int:
        return self._real.fileno()

    def close(self) -> None:
        self._real.close()


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENOMEM, errno.EPROTO, errno.EPERM])
def test_an_error_of_accept_pauses_accepting_and_it_goes_on(monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    monkeypatch.setattr(listener_module, "ACCEPT_PAUSE_S", 0.05)

    async def test() -> None:
        accepted: list[SocketTransport] = []
        listener = listening(accepted)
        exhausted = listener._acceptor._sock = Exhausted(listener._acceptor._sock, failures=3, error=error)  # type: ignore[assignment]
        with socket.create_connection((listener.host, listener.port)):
            await asyncio.sleep(0.02)
            # One attempt and then a pause, not one at every turn of the loop.
            assert exhausted.attempts == 1
            await until(lambda: accepted)
        assert exhausted.attempts >= 4
        accepted[0].abort("over")
        listener.close()

    run(test)


def test_a_listener_closed_in_its_pause_stays_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "ACCEPT_PAUSE_S", 0.02)

    async def test() -> None:
        accepted: list[SocketTransport] = []
        listener = listening(accepted)
        exhausted = listener._acceptor._sock = Exhausted(listener._acceptor._sock, failures=1)  # type: ignore[assignment]
        with socket.create_connection((listener.host, listener.port)) as client:
            await until(lambda: exhausted.attempts)
            listener.close()
            await asyncio.sleep(0.05)
            assert (accepted, exhausted.attempts) == ([], 1)
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError, ConnectionResetError):
                assert client.recv(1) == b""

    run(test)


def test_a_share_that_is_used_up_keeps_peers_waiting_until_one_goes() -> None:
    async def test() -> None:
        accepted: list[SocketTransport] = []
        share = Share("amqp", 2)
        listener = Listener(SocketHub(asyncio.get_running_loop(), share), "127.0.0.1", 0, accepted.append)
        clients = [socket.create_connection((listener.host, listener.port)) for _ in range(3)]
        await until(lambda: share.refused_total)
        assert (len(accepted), share.used, share.room) == (2, 2, 0)
        accepted[0].abort("over")
        await until(lambda: len(accepted) == 3)
        assert share.used == 2
        for transport in accepted:
            transport.abort("over")
        assert share.used == 0
        listener.close()
        for client in clients:
            client.close()

    run(test)


def test_whoever_can_make_room_is_asked_before_a_peer_waits() -> None:
    async def test() -> None:
        share, accepted = Share("http", 1), []
        sock = socket.create_server(("127.0.0.1", 0))

        def accept(made: socket.socket, _peer: Any, _reached: Any) -> None:
            share.used += 1
            accepted.append(made)

        def make_room() -> bool:
            accepted[-1].close()
            share.used -= 1
            return True

        acceptor = Acceptor(asyncio.get_running_loop(), sock, share, accept, make_room)
        clients = [socket.create_connection(sock.getsockname()) for _ in range(2)]
        await until(lambda: len(accepted) == 2)
        assert share.used == 1 and accepted[0].fileno() == -1
        acceptor.close()
        for each in [*clients, accepted[1]]:
            each.close()

    run(test)
