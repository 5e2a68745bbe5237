"""Class basic without its data plane: consumer tags, priorities, exclusive consumers, qos, recover, cancel."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.conformance.raw_client import RawClient
from tests.unit.session.clients import Scene


@pytest.fixture
def client(scene: Scene) -> RawClient:
    client = scene.connect()
    client.call(1, "queue.declare", queue="q")
    return client


def refused(client: RawClient, **fields: Any) -> tuple[str, int, str]:
    client.send(1, "basic.consume", {"queue": "q", **fields})
    refusal = client.refusal()
    return refusal.scope, refusal.code, refusal.text.partition(" - ")[2]


def test_a_consumer_without_a_tag_gets_one(client: RawClient) -> None:
    tag = client.call(1, "basic.consume", queue="q")["consumer_tag"]
    assert re.fullmatch(r"amq\.ctag-[A-Za-z0-9_-]{22}", tag)


def test_the_answer_comes_before_the_first_delivery(client: RawClient) -> None:
    client.publish(1, "", "q", b"waiting")
    client.send(1, "basic.consume", queue="q")
    client.expect(1, "basic.consume-ok")
    assert client.expect(1, "basic.deliver").body == b"waiting"


def test_a_tag_can_be_used_once_on_a_channel_and_again_on_another(client: RawClient) -> None:
    client.call(1, "basic.consume", queue="q", consumer_tag="c")
    client.open_channel(2)
    client.call(2, "basic.consume", queue="q", consumer_tag="c")
    assert refused(client, consumer_tag="c") == ("connection", 530, "attempt to reuse consumer tag 'c'")


def test_a_cancelled_tag_can_be_used_again(client: RawClient) -> None:
    for _ in range(2):
        client.call(1, "basic.consume", queue="q", consumer_tag="c")
        client.call(1, "basic.cancel", consumer_tag="c")
    assert client.call(1, "basic.cancel", consumer_tag="nobody")["consumer_tag"] == "nobody"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"x-priority": "high"}, '"expected integer, got longstr"'),
        ({"x-cancel-on-ha-failover": 1}, "{unacceptable_type,signedint}"),
    ],
)
def test_bad_consumer_arguments_are_refused(client: RawClient, arguments: dict[str, Any], reason: str) -> None:
    scope, code, text = refused(client, arguments=arguments)
    assert (scope, code) == ("channel", 406)
    assert text == f"invalid arg '{next(iter(arguments))}' for queue 'q' in vhost '/': {reason}"


def test_the_higher_priority_is_served_first(client: RawClient) -> None:
    client.call(1, "basic.consume", queue="q", consumer_tag="low", arguments={"x-priority": -5})
    client.call(1, "basic.consume", queue="q", consumer_tag="high", arguments={"x-priority": 5})
    client.publish(1, "", "q")
    assert client.expect(1, "basic.deliver")["consumer_tag"] == "high"


@pytest.mark.parametrize(("first", "second"), [(True, False), (False, True), (True, True)])
def test_an_exclusive_consumer_is_alone(client: RawClient, first: bool, second: bool) -> None:
    client.call(1, "basic.consume", queue="q", exclusive=first)
    text = "queue 'q' in vhost '/' in exclusive use"
    assert refused(client, exclusive=second) == ("channel", 403, text)


def test_a_refused_consumer_leaves_no_trace(scene: Scene, client: RawClient) -> None:
    other = scene.connect()
    other.call(1, "basic.consume", queue="q", exclusive=True)
    assert refused(client)[1] == 403
    client.open_channel(1)
    assert client.call(1, "queue.declare", queue="q", passive=True)["consumer_count"] == 1


def test_a_reply_consumer_needs_no_ack_and_is_one(client: RawClient) -> None:
    reply = {"queue": "amq.rabbitmq.reply-to"}
    assert refused(client, **reply) == ("channel", 406, "reply consumer cannot acknowledge")
    client.open_channel(1)
    client.call(1, "basic.consume", **reply, no_ack=True)
    assert refused(client, **reply, no_ack=True) == ("channel", 406, "reply consumer already set")


@pytest.mark.parametrize("priority", ["high", 2**40, True])
def test_arguments_of_a_reply_consumer_mean_nothing(client: RawClient, priority: Any) -> None:
    """There is no queue in which it could come first."""
    arguments = {"x-priority": priority}
    client.send(1, "basic.consume", queue="amq.rabbitmq.reply-to", no_ack=True, arguments=arguments)
    client.expect(1, "basic.consume-ok")


def test_a_cancelled_reply_consumer_can_be_made_anew(client: RawClient) -> None:
    for _ in range(2):
        client.call(1, "basic.consume", queue="amq.rabbitmq.reply-to", no_ack=True, consumer_tag="r")
        client.call(1, "basic.cancel", consumer_tag="r")


def test_qos_holds_for_consumers_that_start_afterwards(client: RawClient) -> None:
    client.call(1, "basic.consume", queue="q", consumer_tag="free")
    client.call(1, "basic.qos", prefetch_count=1)
    client.call(1, "basic.consume", queue="q", consumer_tag="one")
    for _ in range(6):
        client.publish(1, "", "q")
    tags = [client.expect(1, "basic.deliver")["consumer_tag"] for _ in range(6)]
    assert tags.count("one") == 1


def test_recover_answers_first_and_then_sends_everything_again(client: RawClient) -> None:
    client.call(1, "basic.consume", queue="q")
    client.publish(1, "", "q", b"x")
    client.expect(1, "basic.deliver")
    client.send(1, "basic.recover", requeue=True)
    client.expect(1, "basic.recover-ok")
    again = client.expect(1, "basic.deliver")
    assert (again.body, again["redelivered"], again["delivery_tag"]) == (b"x", True, 2)


def test_recover_without_requeue_is_not_implemented(client: RawClient) -> None:
    client.send(1, "basic.recover", requeue=False)
    refusal = client.refusal()
    assert (refusal.scope, refusal.code) == ("connection", 540)


def test_what_was_delivered_before_a_cancel_can_be_acknowledged_after_it(scene: Scene, client: RawClient) -> None:
    client.call(1, "basic.consume", queue="q", consumer_tag="c")
    client.publish(1, "", "q")
    client.expect(1, "basic.deliver")
    client.call(1, "basic.cancel", consumer_tag="c")
    client.send(1, "basic.ack", delivery_tag=1)
    client.call(1, "basic.qos")
    assert scene.broker.call(lambda node: node.broker.vhosts["/"].queues[b"q"].unacked_count) == 0
