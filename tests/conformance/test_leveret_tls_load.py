"""TLS under load: new certificates while messages flow, many consumers, one who does not read, one who is cut off."""

from __future__ import annotations

import shutil
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from leveret.errors import ConfigError
from leveret.runtime.tls_transport import SEALED_BYTES
from tests.conformance.authority import Papers
from tests.conformance.raw_client import PROTOCOL_HEADER, RawClient
from tests.conformance.tls_scenes import TlsScene, tls_scene

MIB = 1 << 20


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[TlsScene]:
    with tls_scene(tmp_path) as made:
        yield made


def opened(scene: TlsScene) -> RawClient:
    client = scene.connect().log_in()
    client.open_channel(1)
    return client


def eventually(scene: TlsScene, connections: int) -> None:
    deadline = time.monotonic() + 10
    while scene.broker.call(lambda node: len(node._sessions)) != connections:
        assert time.monotonic() < deadline, "a connection that ended is still there"
        time.sleep(0.01)


def install(scene: TlsScene, papers: Papers) -> None:
    for new, old in zip(papers, scene.papers, strict=True):
        shutil.copy(new, old)


def test_a_new_certificate_drops_nobody(scene: TlsScene) -> None:
    newer = scene.authority.server("newer")
    with ExitStack() as stack:
        publisher, consumer = stack.enter_context(opened(scene)), stack.enter_context(opened(scene))
        consumer.call(1, "queue.declare", queue="q")
        consumer.call(1, "basic.consume", queue="q", no_ack=True)
        count, stop = 0, threading.Event()

        def publish() -> None:
            nonlocal count
            while not stop.is_set() and count < 100_000:
                publisher.publish(1, "", "q", b"%08d" % count + bytes(2000))
                count += 1

        thread = threading.Thread(target=publish)
        thread.start()
        try:
            seen = 0
            for turn in range(20):
                for _ in range(50):
                    assert int(consumer.read().body[:8]) == seen
                    seen += 1
                if turn == 5:
                    install(scene, newer)
                scene.broker.call(lambda node: node.reload_tls())
                with scene.connect() as late:
                    assert isinstance(late.socket, ssl.SSLSocket)
                    expected = newer.der if turn >= 5 else None
                    shown = late.socket.getpeercert(binary_form=True)
                    assert expected in (None, shown)
        finally:
            stop.set()
            thread.join(30)
        while seen < count:
            assert int(consumer.read().body[:8]) == seen
            seen += 1


def test_bad_new_files_leave_all_as_it_is(scene: TlsScene) -> None:
    shutil.copy(scene.authority.server("newer").key, scene.papers.key)
    with pytest.raises(ConfigError, match=rf"tls\.key: {scene.papers.key} is not the key of"):
        scene.broker.call(lambda node: node.reload_tls())
    with opened(scene) as client:
        assert isinstance(client.socket, ssl.SSLSocket)
        assert client.socket.getpeercert(binary_form=True) == scene.papers.der


def test_a_fanout_of_large_messages(scene: TlsScene) -> None:
    with ExitStack() as stack:
        publisher = stack.enter_context(opened(scene))
        consumers = [stack.enter_context(opened(scene)) for _ in range(20)]
        for number, consumer in enumerate(consumers):
            consumer.call(1, "queue.declare", queue=f"q{number}", exclusive=True)
            consumer.call(1, "queue.bind", queue=f"q{number}", exchange="amq.fanout")
            consumer.call(1, "basic.consume", queue=f"q{number}", no_ack=True)
        bodies = [bytes([number]) * (MIB + number) for number in range(5)]
        publisher.call(1, "confirm.select")
        for body in bodies:
            publisher.publish(1, "amq.fanout", "", body)
        for consumer in consumers:
            for body in bodies:
                assert consumer.read().body == body


def test_one_who_does_not_read_costs_little(scene: TlsScene) -> None:
    with opened(scene) as publisher, opened(scene) as timer:
        timer.call(1, "queue.declare", queue="q")
        timer.call(1, "basic.consume", queue="q", no_ack=True)
        publisher.call(1, "confirm.select")
        for number in range(60):
            publisher.publish(1, "", "q", bytes([number]) * MIB)
        confirmed = 0
        while confirmed < 60:
            confirmed = publisher.expect(1, "basic.ack")["delivery_tag"]
        sealed = scene.broker.call(
            lambda node: max(len(transport._sealed) + transport._outgoing.pending for transport in node._sessions)
        )
        waiting = scene.broker.call(lambda node: max(each.write_buffer.pending() for each in node._sessions.values()))
        assert 0 < sealed < SEALED_BYTES + 1024
        # A message above what congests an write buffer.
        assert waiting < 2 * MIB
        for number in range(60):
            assert timer.read().body == bytes([number]) * MIB


def test_one_who_is_cut_off_in_a_record_loses_only_that(scene: TlsScene) -> None:
    with opened(scene) as observer:
        observer.call(1, "queue.declare", queue="q")
        for _ in range(5):
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            tls = scene.authority.context().wrap_bio(incoming, outgoing, server_hostname="localhost")
            with socket.create_connection((scene.broker.host, scene.broker.tls_port), 10) as sock:
                while True:
                    try:
                        tls.do_handshake()
                        break
                    except ssl.SSLWantReadError:
                        sock.sendall(outgoing.read())
                        incoming.write(sock.recv(1 << 16))
                tls.write(PROTOCOL_HEADER)
                tls.write(bytes(10_000))
                octets = outgoing.read()
                sock.sendall(octets[: len(octets) - 5000])
                # Reset instead of an orderly end.
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        eventually(scene, 1)
        observer.publish(1, "", "q", b"still here")
        assert observer.call(1, "basic.get", queue="q", no_ack=True).body == b"still here"


def test_a_consumer_that_is_killed_gives_back_what_it_held(scene: TlsScene) -> None:
    with opened(scene) as other:
        other.call(1, "queue.declare", queue="q")
        killed = opened(scene)
        killed.call(1, "basic.consume", queue="q")
        for number in range(10):
            other.publish(1, "", "q", bytes([number]) * MIB)
        assert killed.read().body == bytes(MIB)
        killed.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        killed.socket.close()
        eventually(scene, 1)
        for number in range(10):
            assert other.call(1, "basic.get", queue="q", no_ack=True).body == bytes([number]) * MIB


def test_a_broker_that_stops_tells_those_who_are_in_and_drops_strangers(tmp_path: Path) -> None:
    with tls_scene(tmp_path) as scene:
        client = opened(scene)
        knocking = socket.create_connection((scene.broker.host, scene.broker.tls_port), 10)
        eventually(scene, 2)
        stopping = threading.Thread(target=scene.broker.stop)
        stopping.start()
        with client, knocking:
            assert client.refusal().code == 320
            client.expect_eof()
            assert knocking.recv(1) == b""
        stopping.join(10)
        assert not stopping.is_alive()
