"""Bad clients on the TLS ports: garbage, broken hellos, broken records, octet by octet, in crowds, and endless wishes.

Beside a neighbour who must be served promptly all the time."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.raw_client import PROTOCOL_HEADER
from tests.conformance.tls_scenes import TlsScene, tls_scene
from tests.fuzz.effort import effort
from tests.fuzz.workbench import LogKeeper

PROMPT_S = 15.0
WAIT_S_MAX = 60.0


@pytest.fixture(autouse=True)
def no_mistakes() -> Iterator[None]:
    """Whatever happens, the broker and its loop have nothing to report as their own mistake."""
    keepers = [LogKeeper("leveret"), LogKeeper("asyncio")]
    for keeper in keepers:
        keeper.start()
    try:
        yield
    finally:
        for keeper in keepers:
            keeper.stop()
    for keeper in keepers:
        keeper.check()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsScene]:
    with tls_scene(tmp_path_factory.mktemp("tls"), limits__handshake_deadline_s=1.5) as made:
        yield made


class Neighbour:
    """A decent client who publishes and gets, and takes the time."""

    def __init__(self, scene: TlsScene) -> None:
        self._client = scene.connect().log_in()
        self._client.open_channel(1)
        self._client.call(1, "queue.declare", queue="neighbour", exclusive=True)

    def check(self) -> None:
        begun = time.monotonic()
        self._client.publish(1, "", "neighbour", b"hello")
        assert self._client.call(1, "basic.get", queue="neighbour", no_ack=True).body == b"hello"
        assert time.monotonic() - begun < PROMPT_S, "the neighbour was kept waiting"

    def __enter__(self) -> Neighbour:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.log_out()


@pytest.fixture(scope="module")
def neighbour(scene: TlsScene) -> Iterator[Neighbour]:
    with Neighbour(scene) as made:
        yield made


def hello(scene: TlsScene) -> bytes:
    """What a decent client begins with."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        scene.authority.context().wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


def knock(scene: TlsScene) -> socket.socket:
    return socket.create_connection((scene.broker.host, scene.broker.tls_port), WAIT_S_MAX)


def say(scene: TlsScene, octets: bytes) -> None:
    """Says it and hangs up."""
    with knock(scene) as sock, suppress(ConnectionError):
        sock.sendall(octets)
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(1 << 16):
            pass


def forgotten(scene: TlsScene) -> None:
    """Everybody but the neighbour is gone."""
    deadline = time.monotonic() + WAIT_S_MAX
    while scene.broker.call(lambda node: len(node._sessions)) > 1:
        assert time.monotonic() < deadline, "a connection that ended is still there"
        time.sleep(0.01)


@given(octets=st.binary(max_size=2000))
@effort(examples=60)
def test_garbage(scene: TlsScene, neighbour: Neighbour, octets: bytes) -> None:
    say(scene, octets)
    neighbour.check()


@given(data=st.data())
@effort(examples=60)
def test_a_changed_hello(scene: TlsScene, neighbour: Neighbour, data: st.DataObject) -> None:
    octets = bytearray(hello(scene))
    for _ in range(data.draw(st.integers(1, 5))):
        octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(octets)))
    say(scene, bytes(octets[: cut or None]) + data.draw(st.binary(max_size=200)))
    neighbour.check()


@given(data=st.data())
@effort(examples=60)
def test_changed_records_after_the_handshake(scene: TlsScene, neighbour: Neighbour, data: st.DataObject) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = scene.authority.context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with knock(scene) as sock, suppress(ConnectionError):
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                sock.sendall(outgoing.read())
                incoming.write(sock.recv(1 << 16))
        tls.write(PROTOCOL_HEADER + data.draw(st.binary(max_size=300)))
        octets = bytearray(outgoing.read())
        for _ in range(data.draw(st.integers(1, 3))):
            octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
        sock.sendall(octets)
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(1 << 16):
            pass
    neighbour.check()


def test_garbage_within_tls_is_refused_as_without(scene: TlsScene, neighbour: Neighbour) -> None:
    with scene.connect() as client:
        client.send_bytes(b"GET / HTTP/1.1\r\n\r\n")
        assert client.read_bytes(8) == PROTOCOL_HEADER
        client.expect_eof()
    neighbour.check()


def test_crowds_of_slow_and_silent_strangers(scene: TlsScene, neighbour: Neighbour) -> None:
    """They are let go when the time for a handshake is over, and nobody else notices."""
    octets = hello(scene)
    begun = time.monotonic()
    with ExitStack() as stack:
        silent = [stack.enter_context(knock(scene)) for _ in range(100)]
        slow = [stack.enter_context(knock(scene)) for _ in range(50)]
        for at in range(len(octets)):
            for sock in slow:
                with suppress(ConnectionError):
                    sock.sendall(octets[at : at + 1])
            neighbour.check()
            if time.monotonic() - begun > 4:
                break
        forgotten(scene)
        for sock in silent:
            assert sock.recv(1) == b""
    assert time.monotonic() - begun < WAIT_S_MAX


def test_a_crowd_that_comes_at_once(scene: TlsScene, neighbour: Neighbour) -> None:
    octets = hello(scene)
    with ExitStack() as stack:
        crowd = [stack.enter_context(knock(scene)) for _ in range(200)]
        for sock in crowd:
            sock.sendall(octets)
        neighbour.check()
        for sock in crowd:
            assert sock.recv(1) == b"\x16", "no ServerHello"
        neighbour.check()
    forgotten(scene)


@pytest.mark.parametrize(("version", "wish"), [("-tls1_3", b"K\n"), ("-tls1_2", b"R\n")])
def test_endless_wishes_for_new_keys(scene: TlsScene, neighbour: Neighbour, version: str, wish: bytes) -> None:
    """New keys may be wished for; a new handshake may not. Neither lets the broker's memory grow."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is missing")
    address = f"{scene.broker.host}:{scene.broker.tls_port}"
    process = subprocess.Popen(
        [openssl, "s_client", "-connect", address, version, "-servername", "localhost"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # So that nothing is left to be written when it has gone.
        bufsize=0,
    )
    assert process.stdin is not None
    try:
        with suppress(BrokenPipeError):
            for _ in range(100):
                process.stdin.write(wish)
                time.sleep(0.005)
                neighbour.check()
    finally:
        process.stdin.close()
        process.kill()
        process.wait()
    forgotten(scene)
