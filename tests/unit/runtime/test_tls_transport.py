"""TLS on a transport: octets both ways, bounds, and every way to end."""

from __future__ import annotations

import asyncio
import socket
import ssl

import pytest

from leveret.runtime import network, tls_transport
from leveret.runtime.network import PAUSE_SESSION, RECEIVE_BYTES, SocketTransport
from leveret.runtime.tls_transport import CHUNK_BYTES, SEALED_BYTES
from tests.unit.runtime.endpoints import run, until
from tests.unit.runtime.tls_pairs import Doors

# ---- octets


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_octets_go_both_ways(doors: Doors, version: ssl.TLSVersion) -> None:
    doors.context.maximum_version = version

    async def test() -> None:
        async with doors.connected() as pair:
            assert pair.transport.tls is None or pair.endpoint.octets == b""
            await pair.client.write(b"hello")
            await until(lambda: pair.endpoint.octets == b"hello")
            pair.write(b"good ")
            pair.write(b"day")
            assert await pair.client.read(8) == b"good day"
            assert pair.transport.tls is not None
            assert pair.transport.tls.protocol == ("tlsv1.2" if version == ssl.TLSVersion.TLSv1_2 else "tlsv1.3")
            assert pair.transport.tls.certificate is None
            assert doors.door.handshakes_total == 1

    run(test)


def test_the_first_words_may_come_with_the_end_of_the_handshake(doors: Doors) -> None:
    async def test() -> None:
        async with doors.stranger() as pair:
            client = pair.client
            with pytest.raises(ssl.SSLWantReadError):
                client.ssl.do_handshake()
            await client.send_sealed()
            await client.receive()
            client.ssl.do_handshake()
            client.ssl.write(b"eager")
            await client.send_sealed()
            await until(lambda: pair.endpoint.octets == b"eager")

    run(test)


def test_one_who_is_held_up_at_the_end_of_his_handshake_loses_nothing(doors: Doors) -> None:
    async def test() -> None:
        async with doors.stranger() as pair:
            client = pair.client
            with pytest.raises(ssl.SSLWantReadError):
                client.ssl.do_handshake()
            await client.send_sealed()
            await client.receive()
            client.ssl.do_handshake()
            client.ssl.write(b"eager")
            await client.send_sealed()
            # Between the turn that reads and the turn that shakes hands.
            pair.transport._readable()
            pair.transport.pause_reading(PAUSE_SESSION)
            await until(lambda: pair.transport.tls)
            await asyncio.sleep(0.02)
            assert pair.endpoint.octets == b""
            pair.transport.resume_reading()
            # And paused again before the loop comes to it.
            pair.transport.pause_reading()
            await asyncio.sleep(0.02)
            assert pair.endpoint.octets == b""
            pair.transport.resume_reading()
            await until(lambda: pair.endpoint.octets == b"eager")

    run(test)


def test_nothing_stays_inside_openssl(doors: Doors) -> None:
    """However the stream is cut into records and chunks: when the socket is empty, the session has got everything."""

    async def test() -> None:
        async with doors.connected() as pair:
            sent = b""
            for size in (1, 100, 16383, 16384, 16385, 65536, CHUNK_BYTES, RECEIVE_BYTES, RECEIVE_BYTES + 1, 600_000):
                body = bytes([size % 251]) * size
                await pair.client.write(body)
                sent += body
                await until(lambda: len(pair.endpoint.octets) == len(sent))  # noqa: B023
            assert pair.endpoint.octets == sent

    run(test)


def test_records_in_any_pieces(doors: Doors) -> None:
    async def test() -> None:
        async with doors.connected() as pair:
            for letter in b"abcdefghij":
                pair.client.ssl.write(bytes([letter]) * 30)
            octets = pair.client.outgoing.read()
            for at in range(0, len(octets), 7):
                pair.client.sock.send(octets[at : at + 7])
                await asyncio.sleep(0)
            await until(lambda: len(pair.endpoint.octets) == 300)
            assert pair.endpoint.octets == b"".join(bytes([letter]) * 30 for letter in b"abcdefghij")

    run(test)


def test_a_paused_pump_hands_over_nothing_more_and_loses_nothing(doors: Doors) -> None:
    async def test() -> None:
        async with doors.connected() as pair:
            await pair.client.write(b"x")
            await until(lambda: pair.endpoint.octets == b"x")
            pair.transport.pause_reading()
            for _ in range(20):
                await pair.client.write(b"waiting ")
            await asyncio.sleep(0.05)
            assert pair.endpoint.octets == b"x"
            pair.transport.resume_reading()
            await until(lambda: pair.endpoint.octets == b"x" + b"waiting " * 20)

    run(test)


def test_a_session_that_pauses_in_the_middle_gets_the_chunk_and_no_more(doors: Doors) -> None:
    async def test() -> None:
        async with doors.connected() as pair:
            received = pair.endpoint.received

            def pause(data: bytearray, size: int) -> None:
                received(data, size)
                pair.transport.pause_reading()

            pair.endpoint.received = pause  # type: ignore[method-assign]
            for _ in range(4):
                pair.client.ssl.write(b"12345678")
            await pair.client.send_sealed()
            await until(lambda: pair.endpoint.octets)
            assert pair.endpoint.octets == b"12345678" * 4
            await pair.client.write(b"later")
            await asyncio.sleep(0.02)
            assert pair.endpoint.octets == b"12345678" * 4
            pair.transport.resume_reading()
            await until(lambda: pair.endpoint.octets.endswith(b"later"))

    run(test)


# ---- out, and one who does not read


def test_a_slow_reader_gets_everything_in_order_and_calm_is_told(doors: Doors) -> None:
    async def test() -> None:
        async with doors.connected(send_buffer=4096) as pair:
            body = bytes(range(256)) * 4000
            for _ in range(3):
                pair.write(b"head")
                pair.endpoint.write_buffer.refer(body, 0, len(body))
            pair.write(b"the end")
            assert pair.endpoint.write_buffer.congested
            expected = (b"head" + body) * 3 + b"the end"
            assert await pair.client.read(len(expected)) == expected
            await until(lambda: pair.endpoint.calms == 1)
            assert not pair.endpoint.write_buffer.congested

    run(test)


def test_little_is_sealed_for_one_who_does_not_read(doors: Doors) -> None:
    async def test() -> None:
        async with doors.connected(send_buffer=4096) as pair:
            body = bytes(50_000_000)
            pair.endpoint.write_buffer.refer(body, 0, len(body), True)
            pair.board.kick()
            await asyncio.sleep(0.05)
            write_buffer, transport = pair.endpoint.write_buffer, pair.transport
            sealed = len(transport._sealed) + transport._outgoing.pending
            assert 0 < sealed < SEALED_BYTES + 1024
            # What the kernel holds, what is sealed, and the rest where it was.
            assert write_buffer.pending() > len(body) - 1_000_000
            # He is still listened to: these are deliveries, no answers.
            await pair.client.write(b"ack")
            await until(lambda: pair.endpoint.octets == b"ack")

    run(test)


def test_small_pieces_share_records(doors: Doors) -> None:
    async def test() -> None:
        async with doors.connected() as pair:
            for number in range(200):
                pair.endpoint.write_buffer.write(b"small")
                pair.endpoint.write_buffer.refer(bytes([number]) * 10, 0, 10)
            pair.board.kick()
            await asyncio.sleep(0.02)
            sealed = pair.client.sock.recv(1 << 20)
            # 400 pieces, of which 64 go at a time. Tickets are not sent where certificates are asked for.
            assert len(sealed) < 200 * 15 + 8 * 30
            pair.client.incoming.write(sealed)
            assert await pair.client.read(3000) == b"".join(b"small" + bytes([each]) * 10 for each in range(200))

    run(test)


def test_one_who_does_not_read_is_not_read_until_he_does(doors: Doors) -> None:
    async def test() -> None:
        async with doors.connected() as pair:
            pair.write(bytes(17_500_000))
            await pair.client.write(b"first")
            await until(lambda: pair.endpoint.octets == b"first")
            assert pair.transport.flooded
            await pair.client.write(b"second")
            await asyncio.sleep(0.05)
            assert pair.endpoint.octets == b"first"
            await pair.client.read(17_500_000)
            await until(lambda: pair.endpoint.octets == b"firstsecond")

    run(test)


def test_nothing_is_sent_before_it_is_on_disk(doors: Doors) -> None:
    async def test() -> None:
        async with doors.connected() as pair:
            pair.write(b"safe ")
            assert await pair.client.read(5) == b"safe "
            pair.endpoint.write_buffer.barrier = 7
            pair.write(b"answer")
            await asyncio.sleep(0.05)
            with pytest.raises(BlockingIOError):
                pair.client.sock.recv(1)
            pair.board.batch_synced(7)
            assert await pair.client.read(6) == b"answer"

    run(test)


def test_what_is_sealed_leaves_while_the_rest_waits_for_the_disk(doors: Doors) -> None:
    async def test() -> None:
        async with doors.connected(send_buffer=4096) as pair:
            pair.write(bytes(SEALED_BYTES))
            await asyncio.sleep(0.02)
            assert pair.transport._sealed
            pair.endpoint.write_buffer.barrier = 3
            pair.write(b"answer")
            assert await pair.client.read(SEALED_BYTES) == bytes(SEALED_BYTES)
            await asyncio.sleep(0.05)
            assert pair.endpoint.write_buffer.pending() == 6
            pair.board.batch_synced(3)
            assert await pair.client.read(6) == b"answer"

    run(test)


def test_one_who_makes_tls_answer_without_reading_is_dropped(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_transport, "UNREAD_BYTES_MAX", 50_000)

    async def test() -> None:
        async with doors.connected(send_buffer=4096) as pair:
            pair.write(bytes(SEALED_BYTES))
            await asyncio.sleep(0.02)
            pair.transport._outgoing.write(b"an answer")
            await pair.client.write(b"new keys, please")
            await until(lambda: pair.endpoint.losses)
            assert pair.endpoint.losses == ["the peer does not read what TLS answers"]

    run(test)


# ---- the end


def test_closing_sends_what_is_left_and_says_that_it_is_all(doors: Doors) -> None:
    async def test() -> None:
        async with doors.connected(send_buffer=4096) as pair:
            await pair.client.write(b"x")
            await until(lambda: pair.endpoint.octets == b"x")
            pair.write(bytes(500_000) + b"goodbye")
            pair.transport.close()
            await pair.client.write(b"late")
            # With a close_notify at the end; without it this raises.
            assert (await pair.client.read(1 << 40)).endswith(b"goodbye")
            assert pair.endpoint.losses == []
            pair.client.sock.close()
            await until(lambda: pair.endpoint.losses == ["closed"])
            assert pair.endpoint.octets == b"x"

    run(test)


def test_closing_does_not_wait_for_ever(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "DRAIN_DEADLINE_S", 0.05)

    async def test() -> None:
        async with doors.connected(send_buffer=4096) as pair:
            await asyncio.sleep(0.01)
            pair.write(bytes(5_000_000))
            pair.transport.close()
            await until(lambda: pair.endpoint.losses == ["closed"])

    run(test)


def test_closing_before_the_handshake_is_over(doors: Doors) -> None:
    async def test() -> None:
        async with doors.stranger() as pair:
            pair.transport.close()
            assert await pair.client.loop.sock_recv(pair.client.sock, 100) == b""
            pair.client.sock.close()
            await until(lambda: pair.endpoint.losses == ["closed"])

    run(test)


def test_an_aborted_pump_is_closed_at_once_without_a_word(doors: Doors) -> None:
    async def test() -> None:
        async with doors.connected() as pair:
            await asyncio.sleep(0.01)
            pair.endpoint.write_buffer.write(b"unsent")
            pair.transport.abort("enough")
            assert pair.endpoint.losses == ["enough"]
            assert pair.endpoint.write_buffer.pending() == 0
            with pytest.raises(ssl.SSLEOFError):
                await pair.client.read(1)

    run(test)


def test_a_peer_that_says_goodbye_is_answered(doors: Doors) -> None:
    async def test() -> None:
        async with doors.connected() as pair:
            closed: list[SocketTransport] = []
            pair.transport.on_closed = closed.append
            pair.client.ssl.write(b"last words")
            with pytest.raises(ssl.SSLWantReadError):
                pair.client.ssl.unwrap()
            await pair.client.send_sealed()
            await until(lambda: pair.endpoint.losses)
            assert (pair.endpoint.octets, pair.endpoint.losses) == (b"last words", ["closed by peer"])
            assert await pair.client.read(1) == b""
            assert closed == [pair.transport]

    run(test)


def test_half_a_record_and_the_end_is_a_loss(doors: Doors) -> None:
    async def test() -> None:
        async with doors.connected() as pair:
            await pair.client.write(b"whole")
            pair.client.ssl.write(b"half of it never comes")
            pair.client.sock.send(pair.client.outgoing.read()[:20])
            pair.client.sock.close()
            await until(lambda: pair.endpoint.losses)
            assert (pair.endpoint.octets, pair.endpoint.losses) == (b"whole", ["closed by peer"])

    run(test)


def test_a_changed_record_ends_the_connection_behind_what_was_good(doors: Doors) -> None:
    async def test() -> None:
        async with doors.connected() as pair:
            await asyncio.sleep(0.01)
            pair.client.ssl.write(b"good")
            good = pair.client.outgoing.read()
            pair.client.ssl.write(b"changed")
            changed = bytearray(pair.client.outgoing.read())
            changed[-1] ^= 1
            pair.client.sock.send(good + changed)
            await until(lambda: pair.endpoint.losses)
            assert pair.endpoint.octets == b"good"
            assert pair.endpoint.losses[0].startswith("reading failed: decryption failed or bad record mac")
            with pytest.raises(ssl.SSLError, match="BAD_RECORD_MAC"):
                await pair.client.read(1)

    run(test)


def test_writing_to_one_who_has_gone_is_told_as_a_loss(doors: Doors) -> None:
    async def test() -> None:
        async with doors.connected() as pair:
            await asyncio.sleep(0.01)
            pair.transport.pause_reading()
            pair.client.sock.close()
            pair.write(b"anybody there?")
            await until(lambda: pair.endpoint.losses)
            assert pair.endpoint.losses[0].startswith("writing failed")
            assert pair.endpoint.write_buffer.pending() == 0

    run(test)


def test_a_reset_is_told_as_a_loss(doors: Doors) -> None:
    class Reset:
        def __init__(self, real: socket.socket) -> None:
            self._real = real

        def recv_into(self, view: memoryview, size: int) -> int:
            raise ConnectionResetError(104, "Connection reset by peer")

        def close(self) -> None:
            self._real.close()

    async def test() -> None:
        async with doors.connected() as pair:
            await asyncio.sleep(0.01)
            assert pair.transport._sock is not None
            pair.transport._sock = Reset(pair.transport._sock)  # type: ignore[assignment]
            await pair.client.write(b"x")
            await until(lambda: pair.endpoint.losses)
            assert pair.endpoint.losses == ["reading failed: [Errno 104] Connection reset by peer"]

    run(test)
