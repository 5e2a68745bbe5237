"""The gate that publishes pass: user-id, expiration, reply-to and copies."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.raw_client import RawClient
from tests.unit.session.clients import Scene, eventually


def refused(client: RawClient, properties: dict[str, Any]) -> str:
    client.publish(1, "", "q", b"", properties)
    refusal = client.refusal()
    assert (refusal.scope, refusal.code, refusal.class_id, refusal.method_id) == ("channel", 406, 60, 40)
    client.open_channel(1)
    return refusal.text.removeprefix("PRECONDITION_FAILED - ")


@pytest.fixture
def client(scene: Scene) -> RawClient:
    client = scene.connect()
    client.call(1, "queue.declare", queue="q")
    return client


def test_a_user_id_must_be_ones_own(scene: Scene, client: RawClient) -> None:
    client.publish(1, "", "q", b"", {"user_id": "guest"})
    text = refused(client, {"user_id": "somebody"})
    assert text == "user_id property set to 'somebody' but authenticated user was 'guest'"
    assert refused(client, {"user_id": ""}).startswith("user_id property set to ''")
    assert client.call(1, "basic.get", queue="q", no_ack=True).properties == {"user_id": "guest"}
    assert client.call(1, "basic.get", queue="q", no_ack=True).name == "basic.get-empty"


def test_a_user_id_that_was_right_before_does_not_let_a_wrong_one_pass(client: RawClient) -> None:
    for _ in range(3):
        client.publish(1, "", "q", b"", {"user_id": "guest"})
    refused(client, {"user_id": "gues2"})


def test_an_impersonator_may_be_anybody(scene: Scene) -> None:
    scene.add_user("ann", ".*", ".*", ".*", tags=("impersonator",))
    ann = scene.connect("ann")
    ann.call(1, "queue.declare", queue="q")
    ann.publish(1, "", "q", b"", {"user_id": "somebody"})
    assert ann.call(1, "basic.get", queue="q", no_ack=True).properties == {"user_id": "somebody"}


@pytest.mark.parametrize("expiration", ["", "soon", "-1", "1.5", "315360000001"])
def test_a_bad_expiration_is_refused(client: RawClient, expiration: str) -> None:
    assert refused(client, {"expiration": expiration}).startswith(f"invalid expiration '{expiration}': ")


def test_what_is_refused_reaches_no_queue_and_the_channel_is_over(scene: Scene, client: RawClient) -> None:
    client.publish(1, "", "q", b"bad", {"expiration": "soon"})
    client.publish(1, "", "q", b"after")
    assert client.refusal().code == 406
    client.open_channel(1)
    assert client.call(1, "basic.get", queue="q").name == "basic.get-empty"


@pytest.mark.parametrize("name", ["CC", "BCC"])
@pytest.mark.parametrize(("value", "kind"), [("q", "longstr"), (5, "signedint"), ({}, "table")])
def test_copies_must_be_a_list(client: RawClient, name: str, value: Any, kind: str) -> None:
    text = refused(client, {"headers": {name: value}})
    assert text == f'invalid message: {{unacceptable_type_in_header,"{name}",{kind}}}'


def test_copies_reach_further_queues_and_blind_ones_are_not_shown(scene: Scene, client: RawClient) -> None:
    for name in ("copy", "blind"):
        client.call(1, "queue.declare", queue=name)
    headers = {"CC": ["copy", "q"], "BCC": ["blind"], "other": 1}
    client.publish(1, "", "q", b"x", {"headers": headers})
    for name in ("q", "copy", "blind"):
        got = client.call(1, "basic.get", queue=name, no_ack=True)
        assert got.properties == {"headers": {"CC": ["copy", "q"], "other": 1}}
        assert client.call(1, "basic.get", queue=name).name == "basic.get-empty"


def test_a_request_needs_a_reply_consumer_on_its_channel(client: RawClient) -> None:
    assert refused(client, {"reply_to": "amq.rabbitmq.reply-to"}) == "fast reply consumer does not exist"


def test_a_reply_finds_the_channel_that_asked(scene: Scene, client: RawClient) -> None:
    client.call(1, "basic.consume", queue="amq.rabbitmq.reply-to", no_ack=True)
    client.publish(1, "", "q", b"question", {"reply_to": "amq.rabbitmq.reply-to"})
    server = scene.connect()
    question = server.call(1, "basic.get", queue="q", no_ack=True)
    address = question.properties["reply_to"]
    assert address.startswith("amq.rabbitmq.reply-to.")
    server.publish(1, "", address, b"answer")
    assert client.expect(1, "basic.deliver").body == b"answer"


def test_a_reply_address_goes_with_its_channel(scene: Scene, client: RawClient) -> None:
    client.call(1, "basic.consume", queue="amq.rabbitmq.reply-to", no_ack=True)
    assert scene.broker.call(lambda node: len(node.broker.vhosts["/"].replies)) == 1
    client.call(1, "channel.close")
    assert scene.broker.call(lambda node: len(node.broker.vhosts["/"].replies)) == 0
    client.open_channel(1)
    client.call(1, "basic.consume", queue="amq.rabbitmq.reply-to", no_ack=True)
    client.socket.close()
    eventually(lambda: scene.broker.call(lambda node: len(node.broker.vhosts["/"].replies)) == 0)
