"""TLS as clients see it: pika, aio-pika and rstream, large and many messages, and which handshakes fail."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import aio_pika
import pika
import pytest
from rstream import Consumer, Producer

from leveret.wire import stream_commands
from tests.conformance.authority import Authority
from tests.conformance.raw_client import PROTOCOL_HEADER, RawClient, ServerClosed
from tests.conformance.raw_stream_client import RawStreamClient
from tests.conformance.stream_scenes import FIRST, Received, within_deadline
from tests.conformance.tls_scenes import TlsScene, tls_scene

MIB = 1 << 20


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsScene]:
    with tls_scene(tmp_path_factory.mktemp("tls")) as made:
        yield made


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsScene]:
    """Clients must show a certificate."""
    with tls_scene(tmp_path_factory.mktemp("strict"), tls__verify="required") as made:
        yield made


# ---- clients


def test_pika(scene: TlsScene) -> None:
    with pika.BlockingConnection(scene.parameters()) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("pika", exclusive=True)
        for size in (0, 1, MIB, 3 * MIB + 7):
            channel.basic_publish("", "pika", bytes([size % 256]) * size)
            _, _, body = channel.basic_get("pika", auto_ack=True)
            assert body == bytes([size % 256]) * size


def test_many_small_messages(scene: TlsScene) -> None:
    with pika.BlockingConnection(scene.parameters()) as connection:
        channel = connection.channel()
        channel.queue_declare("many", exclusive=True)
        for number in range(3000):
            channel.basic_publish("", "many", b"%d" % number)
        seen = []
        for _, _, body in channel.consume("many", auto_ack=True):
            seen.append(int(body))
            if len(seen) == 3000:
                break
        assert seen == list(range(3000))


def test_aio_pika(scene: TlsScene) -> None:
    async def scenario() -> None:
        connection = await aio_pika.connect(
            host="localhost",
            port=scene.broker.tls_port,
            ssl=True,
            ssl_context=scene.authority.context(),
        )
        async with connection:
            channel = await connection.channel()
            queue = await channel.declare_queue("aio", exclusive=True)
            bodies = [b"%d" % number for number in range(200)] + [bytes(MIB)]
            for body in bodies:
                await channel.default_exchange.publish(aio_pika.Message(body), "aio")
            for body in bodies:
                message = await queue.get(timeout=10, fail=True)
                assert message is not None and message.body == body
                await message.ack()

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_rstream(scene: TlsScene) -> None:
    async def scenario() -> None:
        address = {
            "host": "localhost",
            "port": scene.broker.stream_tls_port,
            "username": "guest",
            "password": "guest",
            "ssl_context": scene.authority.context(),
        }
        producer, consumer = Producer(**address), Consumer(**address)
        await producer.start()
        await consumer.start()
        try:
            await producer.create_stream("sealed")
            bodies = [b"%d" % number for number in range(1000)] + [bytes(MIB // 2)]
            for body in bodies:
                await producer.send("sealed", body)
            received = Received()
            await consumer.subscribe("sealed", received, offset_specification=FIRST)
            assert await received.count(len(bodies)) == bodies
        finally:
            await consumer.close()
            await producer.close()

    within_deadline(scenario())


def test_stream_clients_are_told_what_is_advertised_for_tls(tmp_path: Path) -> None:
    settings = {"streams__advertised_host": "plain.example.com", "streams__advertised_tls_port": 6001}
    with (
        tls_scene(tmp_path, **settings) as scene,
        RawStreamClient("localhost", scene.broker.stream_tls_port, scene.authority.context()) as client,
    ):
        found = client.do(stream_commands.PeerProperties, {}).properties
    assert (found["advertised_host"], found["advertised_port"]) == ("plain.example.com", "6001")


def test_what_the_broker_knows_of_a_connection(scene: TlsScene) -> None:
    with scene.connect() as client, RawClient(scene.broker.host, scene.broker.port) as plain:
        client.log_in()
        plain.log_in()
        ciphers = scene.broker.call(
            lambda node: sorted(
                "" if transport.tls is None else f"{transport.tls.protocol} {transport.tls.cipher}"
                for transport in node._sessions
            )
        )
    assert ciphers[-1].startswith("tlsv1.3 ")
    assert ciphers[0] == ""
    listening = scene.broker.call(lambda node: {(each.protocol, each.port) for each in node.listening() if each.tls})
    assert listening == {("amqp", scene.broker.tls_port), ("stream", scene.broker.stream_tls_port)}


# ---- handshakes


def refused(scene: TlsScene, context: ssl.SSLContext) -> str:
    """Why the broker, or the client, refuses. A client of TLS 1.3 may learn it when it first reads."""
    before = scene.handshakes_failed()
    with pytest.raises((ssl.SSLError, ConnectionResetError)) as caught, scene.connect(context=context) as client:
        client.socket.settimeout(60)
        client.send_bytes(PROTOCOL_HEADER)
        answer = client.socket.recv(100)
        raise AssertionError(f"the broker answers {answer!r}")
    deadline = time.monotonic() + 60
    while scene.handshakes_failed() == before:
        assert time.monotonic() < deadline, "no failure was counted"
        time.sleep(0.01)
    return str(caught.value)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_new_versions_are_spoken(scene: TlsScene, version: ssl.TLSVersion) -> None:
    context = scene.authority.context()
    context.minimum_version = context.maximum_version = version
    with scene.connect(context=context) as client:
        client.log_in().open_channel(1)
        assert isinstance(client.socket, ssl.SSLSocket)
        assert client.socket.version() == {771: "TLSv1.2", 772: "TLSv1.3"}[version]
        assert client.socket.compression() is None


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1:DeprecationWarning")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_old_versions_are_not_spoken(scene: TlsScene, version: ssl.TLSVersion) -> None:
    context = scene.authority.context()
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = version
    context.maximum_version = version
    assert re.search("PROTOCOL_VERSION|UNSUPPORTED_PROTOCOL", refused(scene, context))


def test_weak_ciphers_are_not_spoken(scene: TlsScene) -> None:
    context = scene.authority.context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE-ECDSA-AES128-SHA:AES128-SHA:@SECLEVEL=0")
    assert "HANDSHAKE_FAILURE" in refused(scene, context)


def test_a_client_that_does_not_trust_us_is_no_trouble(scene: TlsScene, tmp_path: Path) -> None:
    assert "CERTIFICATE_VERIFY_FAILED" in refused(scene, Authority(tmp_path).context())


def test_a_certificate_of_the_authority_is_taken(strict: TlsScene) -> None:
    for papers in (strict.authority.client("ann", "ann"), strict.authority.child().issue("below", "ann")):
        with strict.connect(papers) as client:
            client.log_in()


def test_false_certificates_are_refused(strict: TlsScene, tmp_path: Path) -> None:
    authority, stranger = strict.authority, Authority(tmp_path / "stranger")
    cases = {
        "none": None,
        "expired": authority.issue("old", "ann", expired=True),
        "self-signed": authority.client("self", "ann", self_signed=True),
        "of another authority": stranger.client("ann", "ann"),
        "of another authority below it": stranger.child().issue("below", "ann"),
        "for servers": authority.client("server-only", "ann", only_server=True),
    }
    for what, papers in cases.items():
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = authority.context(papers)
            context.maximum_version = version
            assert refused(strict, context), what


def test_a_chain_without_its_middle_is_refused(strict: TlsScene) -> None:
    papers = strict.authority.child().issue("torn", "ann")
    pem = papers.certificate.read_text()
    papers.certificate.write_text(pem[: pem.index("-----END CERTIFICATE-----")] + "-----END CERTIFICATE-----\n")
    assert "UNKNOWN_CA" in refused(strict, strict.authority.context(papers))


# ---- the wrong port


def test_plain_amqp_on_the_port_for_tls_is_refused(scene: TlsScene) -> None:
    for port in (scene.broker.tls_port, scene.broker.stream_tls_port):
        before = scene.handshakes_failed()
        with RawClient(scene.broker.host, port) as client:
            client.send_bytes(PROTOCOL_HEADER)
            alert = b""
            with pytest.raises(ServerClosed):
                while True:
                    alert += client.read_bytes(1)
        # A TLS alert, or nothing at all.
        assert alert[:1] in (b"", b"\x15")
        assert scene.handshakes_failed() == before + 1


def test_tls_on_a_plain_port_is_refused_as_a_bad_header(scene: TlsScene) -> None:
    def hello() -> bytes:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        with pytest.raises(ssl.SSLWantReadError):
            scene.authority.context().wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
        return outgoing.read()

    with RawClient(scene.broker.host, scene.broker.port) as client:
        client.send_bytes(hello())
        assert client.read_bytes(8) == PROTOCOL_HEADER
        client.expect_eof()
    with socket.create_connection((scene.broker.host, scene.broker.stream_port), 5) as stream:
        stream.sendall(hello())
        with contextlib.suppress(ConnectionResetError):
            assert stream.recv(100) == b""
