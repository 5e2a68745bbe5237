"""Sockets: bytes between a socket and an endpoint, pausing, closing without losing the last word."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from leveret.runtime import network
from leveret.runtime.network import SocketHub, SocketTransport
from tests.unit.runtime.endpoints import Recorder, run, until


class Pair:
    """A transport on one end of a connection, a plain socket on the other."""

    def __init__(self, board: SocketHub, transport: SocketTransport, endpoint: Recorder, peer: socket.socket) -> None:
        self.board = board
        self.transport = transport
        self.endpoint = endpoint
        self.peer = peer
        self.loop = board.loop

    def write(self, octets: bytes) -> None:
        self.endpoint.write_buffer.write(octets)
        self.board.kick()

    async def read(self, size: int) -> bytes:
        octets = bytearray()
        while len(octets) < size:
            piece = await asyncio.wait_for(self.loop.sock_recv(self.peer, 1 << 20), 60)
            if not piece:
                break
            octets += piece
        return bytes(octets)

    async def read_to_end(self) -> bytes:
        return await self.read(1 << 40)


@asynccontextmanager
async def connected(send_buffer: int | None = None, tcp: bool = False) -> AsyncIterator[Pair]:
    board = SocketHub(asyncio.get_running_loop())
    ours, theirs = tcp_pair() if tcp else socket.socketpair()
    if send_buffer is not None:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
    ours.setblocking(False)
    theirs.setblocking(False)
    transport, endpoint = SocketTransport(board, ours, ("peer", 1)), Recorder(board)
    transport.start(endpoint)
    with theirs:
        yield Pair(board, transport, endpoint, theirs)
        transport.abort("the test is over")
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
            pair.endpoint.write_buffer.refer(body, 0, len(body))
            pair.write(b"the end")
            assert pair.endpoint.write_buffer.congested
            assert await pair.read(len(body) + 7) == body + b"the end"
            await until(lambda: pair.endpoint.calms == 1)
            assert not pair.endpoint.write_buffer.congested

    run(test)


def test_a_paused_pump_reads_nothing_and_loses_nothing() -> None:
    async def test() -> None:
        async with connected() as pair:
            pair.transport.pause_reading()
            pair.peer.send(b"waiting")
            await asyncio.sleep(0.05)
            assert pair.endpoint.octets == b""
            pair.transport.resume_reading()
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
            pair.transport.pause_reading()
            await pair.read(17_500_000)
            pair.peer.send(b"2")
            await asyncio.sleep(0.05)
            assert pair.endpoint.octets == b"1"
            pair.transport.resume_reading()
            await until(lambda: pair.endpoint.octets == b"12")

    run(test)


def test_the_loss_of_the_peer_is_told_once() -> None:
    async def test() -> None:
        async with connected() as pair:
            closed: list[SocketTransport] = []
            pair.transport.on_closed = closed.append
            pair.peer.close()
            await until(lambda: pair.endpoint.losses)
            pair.transport.abort("again")
            pair.transport.close()
            assert pair.endpoint.losses == ["closed by peer"]
            assert closed == [pair.transport]

    run(test)


def test_writing_to_one_who_has_gone_is_told_as_a_loss() -> None:
    async def test() -> None:
        async with connected() as pair:
            pair.transport.pause_reading()
            pair.peer.close()
            pair.write(b"anybody there?")
            await until(lambda: pair.endpoint.losses)
            assert pair.endpoint.losses[0].startswith("writing failed")
            assert pair.endpoint.write_buffer.pending() == 0

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
            pair.transport.pause_reading()
            reset(pair.peer)
            await until(lambda: pair.endpoint.losses == ["reset by peer"])

    run(test)


def test_closing_sends_what_is_left_and_waits_for_the_peer() -> None:
    async def test() -> None:
        async with connected(send_buffer=4096) as pair:
            pair.write(bytes(500_000) + b"goodbye")
            pair.transport.close()
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
            pair.transport.close()
            await until(lambda: pair.endpoint.losses == ["closed"])

    run(test)


def test_an_aborted_pump_is_closed_at_once_and_its_outbox_empty() -> None:
    async def test() -> None:
        async with connected() as pair:
            pair.endpoint.write_buffer.write(b"unsent")
            pair.transport.abort("enough")
            assert pair.endpoint.losses == ["enough"]
            assert pair.endpoint.write_buffer.pending() == 0
            assert await pair.read_to_end() == b""

    run(test)


def test_output_of_one_who_is_gone_is_dropped() -> None:
    async def test() -> None:
        async with connected() as pair:
            pair.transport.abort("gone")
            pair.write(b"for nobody")
            await asyncio.sleep(0.01)
            assert pair.endpoint.write_buffer.pending() == 0
            assert pair.board.dirty == []

    run(test)
