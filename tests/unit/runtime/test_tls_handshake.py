"""TLS handshakes on a transport: slow, false or many at once, and whose certificate it was."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

from leveret.runtime import tls_transport
from leveret.runtime.listener import Listener
from leveret.runtime.network import SocketHub
from leveret.runtime.tls_transport import TlsDoor, TlsTransport
from tests.conformance.authority import Authority
from tests.unit.runtime.endpoints import run, until
from tests.unit.runtime.tls_pairs import Doors

# ---- the handshake


def test_a_handshake_has_a_deadline(doors: Doors, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    monkeypatch.setattr(tls_transport, "HANDSHAKE_DEADLINE_S", 0.1)

    async def test() -> None:
        async with doors.stranger() as pair:
            await until(lambda: pair.endpoint.losses)
            assert pair.endpoint.losses == ["TLS handshake timeout"]
            assert doors.door.handshakes_failed_total == 1

    with caplog.at_level(logging.INFO):
        run(test)


def test_octet_by_octet_is_too_slow_and_disturbs_nobody(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_transport, "HANDSHAKE_DEADLINE_S", 0.3)

    async def test() -> None:
        async with doors.stranger() as slow, doors.connected() as other:
            with pytest.raises(ssl.SSLWantReadError):
                slow.client.ssl.do_handshake()
            hello = slow.client.outgoing.read()
            rounds = 0
            for at in range(len(hello)):
                if slow.endpoint.losses:
                    break
                slow.client.sock.send(hello[at : at + 1])
                other.write(b"ping")
                assert await other.client.read(4) == b"ping"
                await asyncio.sleep(0.005)
                rounds += 1
            assert slow.endpoint.losses == ["TLS handshake timeout"]
            assert rounds > 10

    run(test)


def test_a_handshake_that_was_made_has_no_deadline_any_more(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_transport, "HANDSHAKE_DEADLINE_S", 0.1)

    async def test() -> None:
        async with doors.connected() as pair:
            await asyncio.sleep(0.2)
            await pair.client.write(b"hello")
            await until(lambda: pair.endpoint.octets == b"hello")

    run(test)


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (b"AMQP\x00\x00\x09\x01", "the client speaks AMQP without TLS"),
        (b"GET / HTTP/1.1\r\n\r\n", "http request"),
        (bytes(100), "wrong version number"),
        (b"\x16\x03\x01\x00\x05hello", "unexpected message"),
        (b"\xff" * 300, "wrong version number"),
    ],
)
def test_what_is_no_tls_is_refused_and_logged(
    doors: Doors, octets: bytes, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged: list[dict[str, Any]] = []
    monkeypatch.setattr(tls_transport.log, "info", lambda event, **more: logged.append({"event": event, **more}))

    async def test() -> None:
        async with doors.stranger() as pair:
            pair.client.sock.send(octets)
            # The alert, and the end.
            with contextlib.suppress(ConnectionResetError):
                while await asyncio.wait_for(pair.client.loop.sock_recv(pair.client.sock, 4096), 5):
                    pass
            pair.client.sock.close()
            await until(lambda: pair.endpoint.losses == ["closed"])
            assert (pair.endpoint.octets, doors.door.handshakes_failed_total) == (b"", 1)

    run(test)
    assert [(each["event"], each["peer"]) for each in logged] == [("TLS handshake failed", "peer:1")]
    assert logged[0]["reason"].startswith(reason)


def test_one_who_leaves_in_his_handshake_is_forgotten(doors: Doors) -> None:
    async def test() -> None:
        async with doors.stranger() as pair:
            with pytest.raises(ssl.SSLWantReadError):
                pair.client.ssl.do_handshake()
            pair.client.sock.send(pair.client.outgoing.read()[:50])
            pair.client.sock.close()
            await until(lambda: pair.endpoint.losses == ["closed by peer"])
            assert pair.board.descriptors.used == 0

    run(test)


def test_one_who_is_dropped_while_he_waits_for_his_turn(doors: Doors) -> None:
    async def test() -> None:
        async with doors.stranger() as pair:
            with pytest.raises(ssl.SSLWantReadError):
                pair.client.ssl.do_handshake()
            await pair.client.send_sealed()
            pair.transport._readable()
            pair.transport.abort("enough")
            await asyncio.sleep(0.02)
            assert pair.endpoint.losses == ["enough"]

    run(test)


def test_a_crowd_of_handshakes_leaves_others_their_turns(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each turn of the loop makes one handshake here, and others run in between."""
    monkeypatch.setattr(tls_transport, "HANDSHAKE_TURN_S", 0.0)
    order: list[str] = []

    class Slow:
        peer = ("peer", 1)

        def shake_hands(self) -> None:
            order.append("handshake")
            if len(order) == 1:
                asyncio.get_running_loop().call_soon(order.append, "other")

    async def test() -> None:
        door = TlsDoor(asyncio.get_running_loop(), doors.certificates)
        for _ in range(3):
            door.enqueue(Slow())  # type: ignore[arg-type]
        await until(lambda: len(order) == 4)
        assert order == ["handshake", "other", "handshake", "handshake"]

    run(test)


def test_a_mistake_in_one_handshake_keeps_nobody_out(doors: Doors) -> None:
    class Broken:
        peer = ("peer", 1)
        aborted = ""

        def shake_hands(self) -> None:
            raise RuntimeError("a mistake")

        def abort(self, reason: str) -> None:
            self.aborted = reason

    async def test() -> None:
        broken = Broken()
        async with doors.stranger() as pair:
            doors.door.enqueue(broken)  # type: ignore[arg-type]
            await pair.client.shake_hands()
            await pair.client.write(b"hello")
            await until(lambda: pair.endpoint.octets == b"hello")
        assert broken.aborted == "internal error"

    run(test)


# ---- whose certificate


def test_a_verified_certificate_is_known_afterwards(doors: Doors, authority: Authority) -> None:
    doors.context = authority.context(authority.client("ann", "ann"))

    async def test() -> None:
        async with doors.connected() as pair:
            await until(lambda: pair.transport.tls)
            assert pair.transport.tls is not None
            assert pair.transport.tls.certificate_subject == "CN=ann"

    run(test)


def test_a_false_certificate_is_refused_with_its_reason(
    doors: Doors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged: list[str] = []
    monkeypatch.setattr(tls_transport.log, "info", lambda event, **more: logged.append(more["reason"]))
    doors.context.load_cert_chain(*Authority(tmp_path).client("ann", "ann"))

    async def test() -> None:
        async with doors.connected() as pair:
            # In TLS 1.3 the client is done before the server has looked.
            with pytest.raises(ssl.SSLError, match="UNKNOWN_CA"):
                await pair.client.read(1)
            pair.client.sock.close()
            await until(lambda: pair.endpoint.losses)
            assert pair.transport.tls is None

    run(test)
    assert logged == ["the client's certificate is refused: unable to get local issuer certificate"]


def test_a_listener_makes_pumps_of_this_kind(doors: Doors) -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()
        board, accepted = SocketHub(loop), []
        listener = Listener(board, "127.0.0.1", 0, accepted.append, TlsDoor(loop, doors.certificates))
        with socket.create_connection((listener.host, listener.port)) as client:
            await until(lambda: accepted)
            assert isinstance(accepted[0], TlsTransport)
            assert accepted[0].peer == client.getsockname()
        accepted[0].abort("over")
        listener.close()

    run(test)
