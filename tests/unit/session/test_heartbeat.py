"""Heartbeats both ways: sent by an idle broker, expected of a silent client, and neither while it would be wrong."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any

import pytest

from tests.conformance.amqp_codec import FRAME_HEARTBEAT
from tests.conformance.raw_client import RawClient, ServerClosed
from tests.unit.session.clients import Scene, eventually, running_scene

LARGE_BYTES = 40_000_000


def read_heartbeats(client: RawClient, seconds: float) -> int:
    """How many heartbeats come in this time; nothing else may."""
    count, deadline = 0, time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        client.socket.settimeout(left)
        try:
            frame = client.read_frame()
        except TimeoutError:
            break
        assert (frame.kind, frame.channel, frame.payload) == (FRAME_HEARTBEAT, 0, b"")
        count += 1
    client.socket.settimeout(20)
    return count


# Each of these takes some seconds of waiting, so they wait together; the tests below look at what each of them saw.


def be_silent(scene: Scene) -> tuple[float, int]:
    """Seconds until the broker hangs up, and heartbeats until then."""
    client = scene.connect(heartbeat=1)
    client.call(1, "queue.declare", queue="mine", exclusive=True)
    started, heartbeats = time.monotonic(), 0
    try:
        while True:
            heartbeats += client.read_frame().kind == FRAME_HEARTBEAT
    except ServerClosed:
        return time.monotonic() - started, heartbeats


def send_heartbeats(scene: Scene) -> None:
    client = scene.connect(heartbeat=1)
    for _ in range(7):
        client.send_frame(FRAME_HEARTBEAT, 0, b"")
        time.sleep(0.4)
    client.call(1, "basic.qos", prefetch_count=1)


def send_methods(scene: Scene) -> None:
    client = scene.connect(heartbeat=1)
    for _ in range(7):
        client.call(1, "basic.qos", prefetch_count=1)
        time.sleep(0.4)
    client.call(1, "basic.qos", prefetch_count=1)


def want_none(scene: Scene) -> int:
    client = scene.connect(heartbeat=0)
    heartbeats = read_heartbeats(client, 2.6)
    client.call(1, "basic.qos", prefetch_count=1)
    return heartbeats


def be_blocked(scene: Scene) -> int:
    client = scene.connect(heartbeat=1)
    client.call(1, "queue.declare", queue="q")
    scene.broker.raise_alarm("memory")
    client.publish(1, "", "q")
    client.expect(0, "connection.blocked")
    heartbeats = read_heartbeats(client, 2.6)
    scene.broker.clear_alarm("memory")
    client.expect(0, "connection.unblocked")
    client.call(1, "basic.qos", prefetch_count=1)
    return heartbeats


def read_slowly(scene: Scene) -> int:
    """Gets a message that takes longer than two intervals to arrive, and sends heartbeats all the time."""
    client = scene.connect(heartbeat=1)
    client.send(1, "basic.get", queue="large", no_ack=True)
    received = 0
    with suppress(OSError):
        while received < LARGE_BYTES and (octets := len(client.socket.recv(1 << 18))):
            received += octets
            client.send_frame(FRAME_HEARTBEAT, 0, b"")
            time.sleep(0.035)
    return received


LIVES = (be_silent, send_heartbeats, send_methods, want_none, be_blocked, read_slowly)
Lives = dict[Callable[[Scene], Any], Future[Any]]


@pytest.fixture(scope="module")
def lives() -> Iterator[Lives]:
    settings: dict[str, object] = {"limits.heartbeat_s": 1, "limits.body_bytes_max": LARGE_BYTES}
    with running_scene(settings) as scene, ThreadPoolExecutor(len(LIVES)) as pool:
        producer = scene.connect()
        producer.call(1, "queue.declare", queue="large")
        producer.publish(1, "", "large", bytes(LARGE_BYTES))
        producer.log_out()
        lives: Lives = {life: pool.submit(life, scene) for life in LIVES}
        wait(lives.values())
        eventually(lambda: "mine" not in scene.queue_names(), "the exclusive queue of the silent one is gone")
        yield lives


def test_an_idle_broker_sends_heartbeats_and_drops_a_silent_client(lives: Lives) -> None:
    took, heartbeats = lives[be_silent].result()
    # Two intervals without an octet, and one heartbeat each half interval meanwhile: at 0.5, 1.0 and 1.5 s.
    assert 1.5 <= took < 60
    assert heartbeats >= 3


def test_a_client_that_sends_heartbeats_stays(lives: Lives) -> None:
    lives[send_heartbeats].result()


def test_a_client_that_sends_anything_stays(lives: Lives) -> None:
    lives[send_methods].result()


def test_a_client_that_wants_no_heartbeats_gets_none_and_may_be_silent(lives: Lives) -> None:
    assert lives[want_none].result() == 0


def test_a_blocked_publisher_is_not_dropped_for_a_silence_nobody_listens_to(lives: Lives) -> None:
    """Its heartbeats are not read while it is held up; ours go on."""
    assert lives[be_blocked].result() >= 2


def test_a_client_that_is_alive_and_slow_to_read_a_large_answer_stays(lives: Lives) -> None:
    """While so much waits for it the broker reads nothing of it, and so cannot take its silence amiss."""
    assert lives[read_slowly].result() >= LARGE_BYTES


# ---- the handshake's deadline


def test_a_slow_handshake_is_cut_off(quick_scene: Scene) -> None:
    """The deadline of this scene is 2 s, from accept to open, however busy the stranger looks."""
    silent, slow, talkative = quick_scene.stranger(), quick_scene.stranger(), quick_scene.stranger()
    slow.start()
    started = time.monotonic()
    with pytest.raises((ServerClosed, OSError)):
        talkative.start()
        while time.monotonic() < started + 60:
            talkative.send_frame(FRAME_HEARTBEAT, 0, b"")
            time.sleep(0.02)
    assert time.monotonic() - started < 50
    silent.expect_eof()
    slow.expect_eof()


def test_an_open_connection_outlives_the_handshake_deadline(quick_scene: Scene) -> None:
    client = quick_scene.connect(heartbeat=0)
    time.sleep(2.3)
    client.call(1, "basic.qos", prefetch_count=1)
