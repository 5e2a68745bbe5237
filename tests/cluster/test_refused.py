"""Who is not let in, over real sockets: each is closed, counted, and logged with what to do."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from leveret.cluster.links import links as links_module
from leveret.cluster.links.address import Address
from leveret.cluster.links.frames import HEAD, Kind, beat, frame
from leveret.cluster.links.handshake import Identity, say_hello
from leveret.cluster.links.hello import Purpose, pack_hello
from leveret.cluster.links.refusals import ADVICE, Reason
from leveret.cluster.links.settings import LinkSettings
from leveret.cluster.members.authority import Authority
from leveret.cluster.members.certificates import NODE_LIFE
from leveret.cluster.members.credentials import Files
from leveret.runtime.peers import unix_sockets
from leveret.runtime.peers.tls_files import dialing_context
from tests.cluster.nodes import SETTINGS, Node, make_cluster, until
from tests.unit.runtime.endpoints import run


@asynccontextmanager
async def node_one(cluster: list[Files], settings: LinkSettings = SETTINGS) -> AsyncIterator[Node]:
    """Listens; node 2 is a member and never comes."""
    node = Node(cluster[0], settings)
    node.listen()
    await node.links.set_members({2: replace(node.address, port=1)})
    try:
        yield node
    finally:
        await node.close()


async def closed_by(node: Node, reason: Reason, caplog: pytest.LogCaptureFixture) -> None:
    await until(lambda: node.links.refusals.totals[reason])
    said = [
        record.getMessage() for record in caplog.records if "connection between nodes refused" in record.getMessage()
    ]
    assert any(ADVICE[reason] in line for line in said), said
    assert node.heard.frames == [] and node.links.links[2].incoming == {}
    await until(lambda: not node.links._strangers)


async def tls_stream(node: Node, context: ssl.SSLContext) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", node.address.port, ssl=context, server_hostname="any")


def hello_of(cluster: bytes, node: int = 2) -> bytes:
    identity = Identity(cluster, node, 1 << 50, "stranger")
    return frame(Kind.HELLO, 0, pack_hello(say_hello(identity, 1, 1, Purpose.CONSENSUS)))


@pytest.mark.parametrize("octets", [b"GET / HTTP/1.1\r\n\r\n", b"AMQP\0\0\x09\x01", b"\0\0\0\1" * 20])
def test_plain_text(cluster: list[Files], caplog: pytest.LogCaptureFixture, octets: bytes) -> None:
    async def test() -> None:
        async with node_one(cluster) as node:
            with socket.create_connection(("127.0.0.1", node.address.port)) as sock:
                sock.sendall(octets)
                await closed_by(node, Reason.PLAIN_TEXT, caplog)

    run(test)


def test_tls_1_2(cluster: list[Files], caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with node_one(cluster) as node:
            context = dialing_context(cluster[1].tls)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            with pytest.raises(ssl.SSLError):
                await tls_stream(node, context)
            await closed_by(node, Reason.TLS_VERSION, caplog)

    run(test)


async def refused_stream(node: Node, context: ssl.SSLContext, hello: bytes) -> bytes:
    """Says hello and reads until the end; what a refused certificate gives is an error of TLS or the end."""
    try:
        reader, writer = await tls_stream(node, context)
    except OSError:
        return b""
    try:
        writer.write(hello)
        return await reader.read()
    except OSError:
        return b""
    finally:
        writer.close()


def test_no_certificate(cluster: list[Files], caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with node_one(cluster) as node:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            assert await refused_stream(node, context, hello_of(node.identity.cluster)) == b""
            await closed_by(node, Reason.CERTIFICATE_MISSING, caplog)

    run(test)


def test_a_strangers_authority_on_both_sides(
    cluster: list[Files], caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    async def test() -> None:
        stranger = Node(make_cluster(tmp_path, 2)[1])
        async with node_one(cluster) as node:
            try:
                # The one that dials refuses first.
                await stranger.links.set_members({1: node.address})
                await until(lambda: stranger.links.refusals.totals[Reason.CERTIFICATE_STRANGE])
                # One that does not care whom it talks to is refused by the other side.
                context = dialing_context(stranger.files.tls)
                context.verify_mode = ssl.CERT_NONE
                assert await refused_stream(node, context, hello_of(node.identity.cluster)) == b""
                await closed_by(node, Reason.CERTIFICATE_STRANGE, caplog)
            finally:
                await stranger.close()

    run(test)


def test_an_expired_certificate(cluster: list[Files], caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    # The authority lives longer than what it signs.
    old = make_cluster(tmp_path, 2, now=time.time() - NODE_LIFE.total_seconds() - 86400)
    fresh = old[0]

    async def test() -> None:
        Authority(fresh).renew_own(time.time())
        expired = Node(old[1])
        async with node_one([fresh]) as node:
            try:
                await expired.links.set_members({1: node.address})
                await closed_by(node, Reason.CERTIFICATE_EXPIRED, caplog)
                await until(lambda: "certificate expired" in expired.links.links[1].statistics.last_error)
                assert "leveret cluster join" in expired.links.links[1].statistics.last_error
            finally:
                await expired.close()

    run(test)


@pytest.mark.parametrize(
    ("who", "reason"),
    [("cluster", Reason.WRONG_CLUSTER), ("node", Reason.WRONG_NODE), ("unknown", Reason.UNKNOWN_NODE)],
)
def test_a_good_certificate_with_a_wrong_hello(
    cluster: list[Files], caplog: pytest.LogCaptureFixture, who: str, reason: Reason
) -> None:
    async def test() -> None:
        async with node_one(cluster) as node:
            shown = cluster[2] if who == "unknown" else cluster[1]
            number = 2 if who == "cluster" else 3
            hello = hello_of(bytes(16) if who == "cluster" else node.identity.cluster, number)
            answer = await refused_stream(node, dialing_context(shown.tls), hello)
            # A node of ours hears why.
            assert answer[4] == Kind.REFUSED and answer[13] == reason
            await closed_by(node, reason, caplog)

    run(test)


@pytest.mark.parametrize(
    "octets",
    [
        b"no frame at all, only text",
        frame(Kind.CONSENSUS, 0, b"before the hello"),
        beat(Kind.HEARTBEAT, 1),
        frame(Kind.JOIN, 0, b"{}"),
        frame(Kind.HELLO, 0, b"LEVERETN"),
        HEAD.pack(1 << 19, Kind.HELLO, 0),
    ],
)
def test_nothing_but_a_hello_comes_first(cluster: list[Files], caplog: pytest.LogCaptureFixture, octets: bytes) -> None:
    async def test() -> None:
        async with node_one(cluster) as node:
            assert await refused_stream(node, dialing_context(cluster[1].tls), octets) == b""
            await closed_by(node, Reason.MALFORMED, caplog)

    run(test)


@pytest.mark.parametrize("spoken", [b"", frame(Kind.HELLO, 0, b"LEVERETN")[:20]])
def test_one_that_does_not_say_hello(cluster: list[Files], caplog: pytest.LogCaptureFixture, spoken: bytes) -> None:
    async def test() -> None:
        # The handshake of TLS has the same deadline, and may be what is late.
        async with node_one(cluster, replace(SETTINGS, handshake_s=0.3)) as node:
            assert await refused_stream(node, dialing_context(cluster[1].tls), spoken) == b""
            await closed_by(node, Reason.DEADLINE, caplog)

    run(test)


def test_a_crowd_of_strangers_is_bounded(cluster: list[Files], caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with node_one(cluster) as node:
            crowd = [socket.create_connection(("127.0.0.1", node.address.port)) for _ in range(80)]
            await until(lambda: node.links.refusals.totals[Reason.CROWDED] == 80 - SETTINGS.strangers_max)
            for sock in crowd:
                sock.close()
            await closed_by(node, Reason.CROWDED, caplog)

    run(test)


@pytest.mark.parametrize("side", ["accepting", "dialling"])
def test_another_user_of_the_machine(
    cluster: list[Files], caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, side: str
) -> None:
    async def test() -> None:
        one, two = Node(cluster[0]), Node(cluster[1])
        try:
            one.listen(str(tmp_path / "one.sock"))
            assert (tmp_path / "one.sock").stat().st_mode & 0o777 == 0o600
            # Root alone can run as somebody else: so what the kernel says is replaced, on one side.
            if side == "accepting":
                monkeypatch.setattr(unix_sockets, "user_of_peer", lambda sock: 12345)
            else:
                monkeypatch.setattr(links_module, "user_of_peer", lambda sock: 12345)
            await one.links.set_members({2: Address(path=str(tmp_path / "nobody.sock"))})
            await two.links.set_members({1: one.address})
            refusing = one if side == "accepting" else two
            await until(lambda: refusing.links.refusals.totals[Reason.WRONG_USER])
            assert one.links.links[2].incoming == {} and two.links.links[1].outgoing == {}
            assert (two if refusing is one else one).links.refusals.total == 0
        finally:
            await one.close()
            await two.close()

    run(test)


def test_the_same_refusal_is_logged_once(cluster: list[Files], caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with node_one(cluster) as node:
            for _ in range(5):
                with socket.create_connection(("127.0.0.1", node.address.port)) as sock:
                    sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
                    assert await asyncio.to_thread(sock.recv, 100) != b"welcome"
            await until(lambda: node.links.refusals.totals[Reason.PLAIN_TEXT] == 5)
            assert sum("does not speak TLS" in record.getMessage() for record in caplog.records) == 1

    run(test)
