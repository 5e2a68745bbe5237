"""How a channel publishes: transactions or confirms, never both."""

from __future__ import annotations

import pytest

from tests.conformance.raw_client import RawClient
from tests.unit.session.clients import Scene


@pytest.fixture
def client(scene: Scene) -> RawClient:
    client = scene.connect()
    client.call(1, "queue.declare", queue="q")
    return client


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        ("tx.select", "confirm.select", "cannot switch from tx to confirm mode"),
        ("confirm.select", "tx.select", "cannot switch from confirm to tx mode"),
    ],
)
def test_a_channel_is_either_transactional_or_confirming(client: RawClient, first: str, second: str, text: str) -> None:
    client.call(1, first)
    client.call(1, first)
    client.send(1, second)
    refusal = client.refusal()
    assert (refusal.scope, refusal.code, refusal.text) == ("channel", 406, f"PRECONDITION_FAILED - {text}")
    client.open_channel(1)
    client.call(1, second)


@pytest.mark.parametrize("method", ["tx.commit", "tx.rollback"])
def test_there_is_nothing_to_end_without_a_transaction(client: RawClient, method: str) -> None:
    client.send(1, method)
    refusal = client.refusal()
    assert (refusal.code, refusal.text) == (406, "PRECONDITION_FAILED - channel is not transactional")


def test_commit_is_answered_after_what_it_does(scene: Scene, client: RawClient) -> None:
    client.call(1, "tx.select")
    client.publish(1, "", "q")
    assert scene.ready_count("q") == 0
    client.call(1, "tx.commit")
    assert scene.ready_count("q") == 1
    client.publish(1, "", "q")
    client.call(1, "tx.rollback")
    client.call(1, "tx.commit")
    assert scene.ready_count("q") == 1


def test_confirms_count_from_the_select(client: RawClient) -> None:
    client.publish(1, "", "q")
    client.send(1, "confirm.select", nowait=True)
    client.publish(1, "", "q")
    assert client.expect(1, "basic.ack").fields == {"delivery_tag": 1, "multiple": False}


def test_outstanding_confirms_come_before_the_close_is_answered(client: RawClient) -> None:
    client.call(1, "confirm.select")
    client.publish(1, "", "q")
    client.send(1, "channel.close")
    assert client.expect(1, "basic.ack")["delivery_tag"] == 1
    client.expect(1, "channel.close-ok")


def test_old_clients_may_ask_for_access(client: RawClient) -> None:
    client.send_frame(1, 1, b"\x00\x1e\x00\x0a\x02/d\x1f")
    assert client.read_frame().payload == b"\x00\x1e\x00\x0b\x00\x01"
