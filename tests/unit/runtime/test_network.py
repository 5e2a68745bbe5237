"""Sockets: bytes between a socket and an endpoint, pausing, closing without losing the last word, accepting."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from leveret.runtime import network
from leveret.runtime.network import Listener, Pump, Switchboard
from tests.unit.runtime.endpoints import Recorder, run, until


class Pair:
    """A pump on one end of a connection, a plain socket on the other."""

    def __init__(self, board: Switchboard, pump: Pump, endpoint: Recorder, peer: socket.socket) -> None:
        self.board = board
        self.pump = pump
        self.endpoint = endpoint
        self.peer = peer
        self.loop = board.loop

    def write(self, octets: bytes) -> None:
        self.endpoint.outbox.write(octets)
        self.board.kick()

    async def read(self, size: int) -> bytes:
        octets = bytearray()
        while len(octets) < size:
            piece = await asyncio.wait_for(self.loop.sock_recv(self.peer, 1 << 20), 5)
            if not piece:
                break
            octets += piece
        return bytes(octets)

    async def read_to_end(self) -> bytes:
        return await self.read(1 << 40)


@asynccontextmanager
async def connected(send_buffer: int | None = None, tcp: bool = False) -> AsyncIterator[Pair]:
    board = Switchboard(asyncio.get_running_loop())
    ours, theirs = tcp_pair() if tcp else socket.socketpair()
    if send_buffer is not None:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
    ours.setblocking(False)
    theirs.setblocking(False)
    pump, endpoint = Pump(board, ours, ("peer", 1)), Recorder(board)
    pump.start(endpoint)
    with theirs:
        yield Pair(board, pump, endpoint, theirs)
        pump.abort("the test is over")
        board.close()


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        theirs = socket.create_connection(listening.getsockname())
        return listening.accept()[0], theirs


def reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def test_bytes_go_both_ways() -> None:
    async def test() -> None:
        async with connected() as pair:
            pair.peer.send(b"hello")
            await until(lambda: pair.endpoint.octets == b"hello")
            pair.write(b"good ")
            pair.write(b"day")
            assert await pair.read(8) == b"good day"

    run(test)


def test_what_was_written_in_one_turn_leaves_in_one_send() -> None:
    async def test() -> None:
        async with connected() as pair:
            for _ in range(100):
                pair.write(b"x" * 10)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert len(pair.peer.recv(10_000)) == 1000

    run(test)


def test_a_slow_reader_gets_everything_in_order_and_calm_is_told() -> None:
    async def test() -> None:
        async with connected(send_buffer=4096) as pair:
            body = bytes(range(256)) * 4000
            pair.endpoint.outbox.refer(body, 0, len(body))
            pair.write(b"the end")
            assert pair.endpoint.outbox.congested
            assert await pair.read(len(body) + 7) == body + b"the end"
            await until(lambda: pair.endpoint.calms == 1)
            assert not pair.endpoint.outbox.congested

    run(test)


def test_a_paused_pump_reads_nothing_and_loses_nothing() -> None:
    async def test() -> None:
        async with connected() as pair:
            pair.pump.pause_reading()
            pair.peer.send(b"waiting")
            await asyncio.sleep(0.05)
            assert pair.endpoint.octets == b""
            pair.pump.resume_reading()
            await until(lambda: pair.endpoint.octets == b"waiting")

    run(test)


def test_one_who_does_not_read_is_not_read_until_he_does() -> None:
    async def test() -> None:
        async with connected() as pair:
            pair.write(bytes(17_500_000))
            pair.peer.send(b"first")
            await until(lambda: pair.endpoint.octets == b"first")
            pair.peer.send(b"second")
            await asyncio.sleep(0.05)
            assert pair.endpoint.octets == b"first"
            await pair.read(17_500_000)
            await until(lambda: pair.endpoint.octets == b"firstsecond")

    run(test)


def test_a_pause_of_the_session_outlasts_the_flood() -> None:
    async def test() -> None:
        async with connected() as pair:
            pair.write(bytes(17_500_000))
            pair.peer.send(b"1")
            await until(lambda: pair.endpoint.octets == b"1")
            pair.pump.pause_reading()
            await pair.read(17_500_000)
            pair.peer.send(b"2")
            await asyncio.sleep(0.05)
            assert pair.endpoint.octets == b"1"
            pair.pump.resume_reading()
            await until(lambda: pair.endpoint.octets == b"12")

    run(test)


def test_the_loss_of_the_peer_is_told_once() -> None:
    async def test() -> None:
        async with connected() as pair:
            closed: list[Pump] = []
            pair.pump.on_closed = closed.append
            pair.peer.close()
            await until(lambda: pair.endpoint.losses)
            pair.pump.abort("again")
            pair.pump.close()
            assert pair.endpoint.losses == ["closed by peer"]
            assert closed == [pair.pump]

    run(test)


def test_writing_to_one_who_has_gone_is_told_as_a_loss() -> None:
    async def test() -> None:
        async with connected() as pair:
            pair.pump.pause_reading()
            pair.peer.close()
            pair.write(b"anybody there?")
            await until(lambda: pair.endpoint.losses)
            assert pair.endpoint.losses[0].startswith("writing failed")
            assert pair.endpoint.outbox.pending() == 0

    run(test)


@pytest.mark.parametrize("chunks", [1, 5])
def test_a_reset_right_behind_octets_is_noticed(chunks: int) -> None:
    async def test() -> None:
        async with connected(tcp=True) as pair:
            pair.peer.send(bytes(network.RECEIVE_BYTES * (chunks - 1) + 7))
            # The loop learns of both at once.
            reset(pair.peer)
            await until(lambda: pair.endpoint.losses)
            assert "reset by peer" in pair.endpoint.losses[0]
            assert len(pair.endpoint.octets) >= 7

    run(test)


def test_a_reset_is_noticed_while_nothing_is_read() -> None:
    async def test() -> None:
        async with connected(tcp=True) as pair:
            pair.pump.pause_reading()
            reset(pair.peer)
            await until(lambda: pair.endpoint.losses == ["reset by peer"])

    run(test)


def test_closing_sends_what_is_left_and_waits_for_the_peer() -> None:
    async def test() -> None:
        async with connected(send_buffer=4096) as pair:
            pair.write(bytes(500_000) + b"goodbye")
            pair.pump.close()
            # What still comes is thrown away, or the kernel would reset the connection and lose our last word.
            pair.peer.send(b"late")
            assert (await pair.read_to_end()).endswith(b"goodbye")
            assert pair.endpoint.losses == []
            pair.peer.close()
            await until(lambda: pair.endpoint.losses == ["closed"])
            assert pair.endpoint.octets == b""

    run(test)


def test_closing_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "DRAIN_DEADLINE_S", 0.05)

    async def test() -> None:
        async with connected(send_buffer=4096) as pair:
            pair.write(bytes(5_000_000))
            pair.pump.close()
            await until(lambda: pair.endpoint.losses == ["closed"])

    run(test)


def test_an_aborted_pump_is_closed_at_once_and_its_outbox_empty() -> None:
    async def test() -> None:
        async with connected() as pair:
            pair.endpoint.outbox.write(b"unsent")
            pair.pump.abort("enough")
            assert pair.endpoint.losses == ["enough"]
            assert pair.endpoint.outbox.pending() == 0
            assert await pair.read_to_end() == b""

    run(test)


def test_output_of_one_who_is_gone_is_dropped() -> None:
    async def test() -> None:
        async with connected() as pair:
            pair.pump.abort("gone")
            pair.write(b"for nobody")
            await asyncio.sleep(0.01)
            assert pair.endpoint.outbox.pending() == 0
            assert pair.board.dirty == []

    run(test)


# ---- accepting


def listening(accepted: list[Pump], host: str = "127.0.0.1", port: int = 0) -> Listener:
    board = Switchboard(asyncio.get_running_loop())
    return Listener(board, host, port, accepted.append)


def test_a_listener_says_where_it_listens_and_accepts_with_the_peers_address() -> None:
    async def test() -> None:
        accepted: list[Pump] = []
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
        accepted: list[Pump] = []
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

    def __init__(self, real: socket.socket, failures: int) -> None:
        self._real = real
        self.failures = failures
        self.attempts = 0

    def accept(self) -> tuple[socket.socket, Any]:
        self.attempts += 1
        if self.failures > 0:
            self.failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return self._real.accept()

    def fileno(self) -> int:
        return self._real.fileno()

    def close(self) -> None:
        self._real.close()


def test_out_of_descriptors_accepting_pauses_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "ACCEPT_PAUSE_S", 0.05)

    async def test() -> None:
        accepted: list[Pump] = []
        listener = listening(accepted)
        exhausted = listener._sock = Exhausted(listener._sock, failures=3)  # type: ignore[assignment]
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
    monkeypatch.setattr(network, "ACCEPT_PAUSE_S", 0.02)

    async def test() -> None:
        accepted: list[Pump] = []
        listener = listening(accepted)
        exhausted = listener._sock = Exhausted(listener._sock, failures=1)  # type: ignore[assignment]
        with socket.create_connection((listener.host, listener.port)) as client:
            await until(lambda: exhausted.attempts)
            listener.close()
            await asyncio.sleep(0.05)
            assert (accepted, exhausted.attempts) == ([], 1)
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError, ConnectionResetError):
                assert client.recv(1) == b""

    run(test)
