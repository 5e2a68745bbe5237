"""The clock beside unacked deliveries: there only while a timeout is in force, standing while nobody is read."""

from __future__ import annotations

import gc
import time
import weakref
from typing import Any

import pytest

from tests.conformance.raw_client import RawClient
from tests.unit.session.clients import Scene, eventually, running_scene

TIMEOUT_MS = 150
TIMEOUT = {"x-consumer-timeout": TIMEOUT_MS}
SEVERAL_TIMEOUTS_S = 0.5


@pytest.fixture
def client(scene: Scene) -> RawClient:
    client = scene.connect()
    client.call(1, "queue.declare", queue="q")
    return client


def desk_of(node: Any, number: int = 1) -> Any:
    (session,) = node.broker.connections.values()
    return session.channel_sessions[number]


def armed(scene: Scene) -> bool:
    """Whether channel 1 has a timer."""

    def look(node: Any) -> bool:
        timeouts = desk_of(node).ack_timeouts
        return timeouts is not None and timeouts._timer is not None

    return scene.broker.call(look)


def set_queue_timeout(scene: Scene, timeout_ms: int) -> None:
    def change(node: Any) -> None:
        node.broker.vhosts["/"].queues[b"q"].ack_timeout_ms = timeout_ms
        for session in node.broker.connections.values():
            session.ack_timeouts_changed()

    scene.broker.call(change)


def test_a_channel_without_timeouts_has_nothing_of_it(scene: Scene, client: RawClient) -> None:
    client.publish(1, "", "q")
    client.call(1, "basic.get", queue="q")
    client.call(1, "basic.consume", queue="q")
    client.call(1, "basic.consume", queue="q", no_ack=True, arguments=TIMEOUT)
    set_queue_timeout(scene, 0)
    assert scene.broker.call(lambda node: desk_of(node).ack_timeouts) is None


def test_the_timer_ends_with_the_last_consumer_that_needs_it(scene: Scene, client: RawClient) -> None:
    client.call(1, "basic.consume", queue="q", consumer_tag="c", arguments=TIMEOUT)
    assert armed(scene)
    time.sleep(0.1)
    assert armed(scene)
    client.call(1, "basic.cancel", consumer_tag="c")
    eventually(lambda: not armed(scene), "the timer is gone")
    client.call(1, "basic.consume", queue="q", consumer_tag="c", arguments=TIMEOUT)
    assert armed(scene)


def test_the_timer_of_a_get_ends_with_its_ack(scene: Scene, client: RawClient) -> None:
    set_queue_timeout(scene, TIMEOUT_MS)
    client.publish(1, "", "q")
    assert not armed(scene)
    client.call(1, "basic.get", queue="q")
    assert armed(scene)
    client.send(1, "basic.ack", delivery_tag=1)
    eventually(lambda: not armed(scene), "the timer is gone")


def test_a_closed_channel_is_freed_at_once_with_its_clock(scene: Scene, client: RawClient) -> None:
    client.call(1, "basic.consume", queue="q", arguments=TIMEOUT)
    gc.collect()
    gc.disable()
    try:
        channel_session = scene.broker.call(lambda node: weakref.ref(desk_of(node)))
        client.call(1, "channel.close")
        eventually(lambda: scene.broker.call(lambda node: channel_session()) is None, "the channel is freed", 2.0)
    finally:
        gc.enable()


def test_a_new_timeout_of_the_queue_is_in_force_at_once_and_may_go_again(scene: Scene, client: RawClient) -> None:
    client.call(1, "basic.consume", queue="q")
    client.publish(1, "", "q", b"held")
    client.expect(1, "basic.deliver")
    set_queue_timeout(scene, TIMEOUT_MS)
    assert armed(scene)
    assert client.expect(1, "basic.deliver")["redelivered"] is True
    set_queue_timeout(scene, -1)
    assert not armed(scene)
    client.expect_quiet()


def test_time_stands_while_an_alarm_keeps_the_broker_from_reading(scene: Scene, client: RawClient) -> None:
    client.call(1, "basic.consume", queue="q", arguments=TIMEOUT)
    client.publish(1, "", "q", b"held")
    client.expect(1, "basic.deliver")
    scene.broker.raise_alarm("memory")
    client.publish(1, "", "nowhere")
    client.expect(0, "connection.blocked")
    # In time, but nobody reads it.
    client.send(1, "basic.ack", delivery_tag=1)
    client.expect_quiet(SEVERAL_TIMEOUTS_S)
    scene.broker.clear_alarm("memory")
    client.expect(0, "connection.unblocked")
    client.expect_quiet(SEVERAL_TIMEOUTS_S)
    assert scene.broker.call(lambda node: desk_of(node).core.timed_out_total) == 0


def test_a_mistake_in_the_clock_ends_only_its_connection(scene: Scene, client: RawClient) -> None:
    class Broken:
        def look(self, now: float) -> list[Any]:
            raise RuntimeError("broken for a test")

    other = scene.connect()

    def break_it(node: Any) -> None:
        for session in node.broker.connections.values():
            timeouts = session.channel_sessions[1].ack_timeouts
            if timeouts is not None:
                timeouts._watch = Broken()

    client.call(1, "basic.consume", queue="q", arguments=TIMEOUT)
    scene.broker.call(break_it)
    refusal = client.refusal()
    assert (refusal.scope, refusal.code) == ("connection", 541)
    other.call(1, "basic.qos", prefetch_count=1)


def test_closing_leaves_other_channels_alone() -> None:
    settings: dict[str, object] = {"limits.ack_timeout_ms": TIMEOUT_MS, "limits.ack_timeout_action": "close"}
    with running_scene(settings) as scene:
        client = scene.connect()
        client.call(1, "queue.declare", queue="q")
        client.open_channel(2)
        client.call(2, "basic.consume", queue="q")
        client.publish(1, "", "q", b"held")
        client.expect(2, "basic.deliver")
        refusal = client.refusal()
        assert (refusal.scope, refusal.code, refusal.class_id, refusal.method_id) == ("channel", 406, 0, 0)
        assert "channel 2 timed out. Timeout value used: 150 ms." in refusal.text
        assert client.call(1, "queue.declare", queue="q", passive=True)["message_count"] == 1
