"""Class channel: opening, closing, flow, and how many there may be."""

from __future__ import annotations

import pytest

from tests.conformance.raw_client import RawClient
from tests.unit.session.clients import Scene


@pytest.fixture
def client(scene: Scene) -> RawClient:
    return scene.connect(channel_max=3)


def test_no_more_channels_than_agreed(client: RawClient) -> None:
    client.open_channel(2)
    client.open_channel(3)
    client.send(4, "channel.open")
    refusal = client.refusal()
    assert (refusal.scope, refusal.code) == ("connection", 530)


def test_a_closed_channels_number_is_free(client: RawClient) -> None:
    for _ in range(10):
        client.call(1, "channel.close")
        client.open_channel(1)


def test_opening_an_open_channel_ends_the_connection(client: RawClient) -> None:
    client.send(1, "channel.open")
    refusal = client.refusal()
    assert (refusal.scope, refusal.code) == ("connection", 504)
    assert refusal.text == "CHANNEL_ERROR - second 'channel.open' seen"


@pytest.mark.parametrize("method", ["basic.qos", "channel.close", "basic.publish", "queue.declare"])
def test_a_method_on_a_closed_channel_ends_the_connection(client: RawClient, method: str) -> None:
    client.send(2, method)
    refusal = client.refusal()
    assert (refusal.scope, refusal.code, refusal.text) == ("connection", 504, "CHANNEL_ERROR - expected 'channel.open'")


def test_a_close_that_crosses_ours_is_answered(client: RawClient) -> None:
    client.send(1, "queue.declare", queue="missing", passive=True)
    client.send(1, "channel.close")
    client.expect(1, "channel.close")
    client.expect(1, "channel.close-ok")
    client.send(1, "channel.close-ok")
    client.open_channel(1)


def test_flow_stops_deliveries_until_the_client_asks_again(client: RawClient) -> None:
    client.call(1, "queue.declare", queue="q")
    client.call(1, "basic.consume", queue="q", no_ack=True)
    assert client.call(1, "channel.flow", active=False)["active"] is False
    client.publish(1, "", "q", b"x")
    assert client.call(1, "queue.declare", queue="q")["message_count"] == 1
    client.send(1, "channel.flow", active=True)
    assert {client.read().name, client.read().name} == {"channel.flow-ok", "basic.deliver"}
