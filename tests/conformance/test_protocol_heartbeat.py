"""Heartbeats: the broker sends them to an idle client, and gives up a client that is silent."""

import time

import pytest

from tests.conformance.amqp_codec import FRAME_HEARTBEAT
from tests.conformance.conftest import Connect
from tests.conformance.raw_client import RawClient, ServerClosed
from tests.conformance.topology import Topology

INTERVAL_SECONDS = 1


def frames_until_closed(client: RawClient) -> int:
    """Counts the heartbeats that come until the broker gives the silent client up."""
    count = 0
    try:
        while True:
            frame = client.read_frame()
            assert frame == (FRAME_HEARTBEAT, 0, b"")
            count += 1
    except ServerClosed:
        return count


def test_an_idle_client_gets_heartbeats(connect: Connect) -> None:
    client = connect(heartbeat=INTERVAL_SECONDS)
    began = time.monotonic()
    assert client.read_frame() == (FRAME_HEARTBEAT, 0, b"")
    assert client.read_frame() == (FRAME_HEARTBEAT, 0, b"")
    # Half the interval each; twice that is allowed on a busy machine.
    assert time.monotonic() - began < 4 * INTERVAL_SECONDS


def test_a_silent_client_is_given_up(connect: Connect) -> None:
    client = connect(heartbeat=INTERVAL_SECONDS)
    began = time.monotonic()
    assert frames_until_closed(client) >= 2
    # Two missed intervals and no less; how much later depends on when the broker looks.
    assert 2 * INTERVAL_SECONDS - 0.1 <= time.monotonic() - began < 10 * INTERVAL_SECONDS


def test_a_client_given_up_leaves_its_messages(connect: Connect, client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client, exclusive=False)
    silent = connect(heartbeat=INTERVAL_SECONDS)
    silent.publish(1, "", queue, b"kept")
    assert silent.call(1, "basic.get", queue=queue).body == b"kept"
    assert client.call(1, "basic.get", queue=queue).name == "basic.get-empty"
    frames_until_closed(silent)
    returned = client.call(1, "basic.get", queue=queue, no_ack=True)
    assert (returned.body, returned["redelivered"]) == (b"kept", True)


@pytest.mark.parametrize("sign_of_life", ["heartbeat", "method"])
def test_any_traffic_keeps_a_client_alive(connect: Connect, sign_of_life: str) -> None:
    client = connect(heartbeat=INTERVAL_SECONDS)
    end = time.monotonic() + 4 * INTERVAL_SECONDS
    while time.monotonic() < end:
        if sign_of_life == "heartbeat":
            client.send_frame(FRAME_HEARTBEAT, 0, b"")
        else:
            client.call(1, "channel.flow", active=True)
        time.sleep(INTERVAL_SECONDS / 4)
    client.call(1, "queue.declare", exclusive=True)


def test_no_heartbeats_when_the_client_wants_none(connect: Connect) -> None:
    connect(heartbeat=0).expect_quiet(2.5 * INTERVAL_SECONDS)


def test_the_client_may_ask_for_a_longer_interval_than_offered(connect: Connect) -> None:
    client = connect(heartbeat=600)
    client.call(1, "queue.declare", exclusive=True)
    client.expect_quiet(1)
