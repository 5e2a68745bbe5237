"""Rights that change while a connection lives: consumers that may no longer read, users who may no longer enter."""

from __future__ import annotations

import pytest

from leveret.catalog import commands
from leveret.catalog.records import Permission, TopicPermission, User
from tests.conformance.raw_client import CAPABILITIES, RawClient
from tests.unit.session.clients import Scene, eventually

WITHOUT_CANCEL = {**CAPABILITIES, "consumer_cancel_notify": False}


@pytest.fixture
def ann(scene: Scene) -> RawClient:
    scene.add_user("ann", ".*", ".*", ".*")
    scene.connect().call(1, "queue.declare", queue="old")
    return scene.connect("ann")


def grant(scene: Scene, **patterns: str) -> None:
    """Gives ann everything but what is named."""
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    scene.apply(commands.PutPermission(Permission("ann", "/", **{**everything, **patterns})))


def test_a_consumer_is_cancelled_when_its_queue_may_no_longer_be_read(scene: Scene, ann: RawClient) -> None:
    ann.call(1, "queue.declare", queue="other")
    for queue in ("old", "other"):
        ann.call(1, "basic.consume", queue=queue, consumer_tag=queue)
    ann.publish(1, "", "old", b"held")
    tag = ann.expect(1, "basic.deliver")["delivery_tag"]
    grant(scene, read="^other$")
    cancel = ann.expect(1, "basic.cancel")
    assert (cancel["consumer_tag"], cancel["nowait"]) == ("old", True)
    # What was delivered is still the client's, and the other consumer goes on.
    ann.send(1, "basic.ack", delivery_tag=tag)
    ann.publish(1, "", "old", b"waits")
    ann.publish(1, "", "other", b"comes")
    assert ann.expect(1, "basic.deliver").body == b"comes"
    ann.call(1, "basic.qos")
    assert scene.ready_count("old") == 1


def test_a_client_that_knows_no_cancel_loses_its_channel(scene: Scene, ann: RawClient) -> None:
    old = scene.connect("ann", capabilities=WITHOUT_CANCEL)
    old.call(1, "basic.consume", queue="old")
    grant(scene, read="")
    refusal = old.refusal()
    assert (refusal.scope, refusal.code) == ("channel", 403)
    assert refusal.text == "ACCESS_REFUSED - access to queue 'old' in vhost '/' refused for user 'ann'"


def test_a_queue_that_lived_for_its_consumer_goes_with_it(scene: Scene, ann: RawClient) -> None:
    ann.call(1, "queue.declare", queue="short", auto_delete=True)
    ann.call(1, "basic.consume", queue="short")
    grant(scene, read="^old$")
    ann.expect(1, "basic.cancel")
    eventually(lambda: "short" not in scene.queue_names())


def test_replies_still_come_when_nothing_may_be_read(scene: Scene, ann: RawClient) -> None:
    ann.call(1, "basic.consume", queue="amq.rabbitmq.reply-to", no_ack=True)
    ann.publish(1, "", "old", b"question", {"reply_to": "amq.rabbitmq.reply-to"})
    asked = scene.connect()
    address = asked.call(1, "basic.get", queue="old").properties["reply_to"]
    grant(scene, read="")
    asked.publish(1, "", str(address), b"answer")
    assert ann.expect(1, "basic.deliver").body == b"answer"


def test_without_a_permission_for_the_virtual_host_the_connection_ends(scene: Scene, ann: RawClient) -> None:
    ann.call(1, "queue.declare", queue="mine", exclusive=True)
    scene.apply(commands.DeletePermission("ann", "/"))
    refusal = ann.refusal()
    assert (refusal.scope, refusal.code) == ("connection", 320)
    assert refusal.text == "CONNECTION_FORCED - access to vhost '/' refused for user 'ann'"
    assert scene.queue_names() == {"old"}


def test_a_permission_that_is_replaced_in_one_step_ends_nothing(scene: Scene, ann: RawClient) -> None:
    ann.call(1, "basic.consume", queue="old")
    right = Permission("ann", "/", ".*", ".*", ".*")
    together = (commands.DeletePermission("ann", "/"), commands.PutPermission(right))
    scene.apply(commands.Together(together))
    ann.publish(1, "", "old", b"x")
    assert ann.expect(1, "basic.deliver").body == b"x"


def test_a_topic_permission_takes_effect_on_a_publisher_that_repeats_itself(scene: Scene, ann: RawClient) -> None:
    for _ in range(3):
        ann.publish(1, "amq.topic", "a.b")
    ann.call(1, "basic.qos")
    scene.apply(commands.PutTopicPermission(TopicPermission("ann", "/", "amq.topic", "^x", ".*")))
    ann.publish(1, "amq.topic", "a.b")
    refusal = ann.refusal()
    assert (refusal.code, refusal.class_id, refusal.method_id) == (403, 60, 40)
    ann.open_channel(1)
    scene.apply(commands.DeleteTopicPermission("ann", "/", "amq.topic"))
    ann.publish(1, "amq.topic", "a.b")
    ann.call(1, "basic.qos")


@pytest.mark.parametrize("header", ["CC", "BCC"])
@pytest.mark.parametrize("exchange", ["amq.topic", "later"])
def test_copies_are_asked_for_as_well(scene: Scene, ann: RawClient, header: str, exchange: str) -> None:
    delayed = {"x-delayed-type": "topic"}
    ann.call(1, "exchange.declare", exchange="later", type="x-delayed-message", arguments=delayed)
    scene.apply(commands.PutTopicPermission(TopicPermission("ann", "/", exchange, "^mine", ".*")))
    for delay in ({}, {"x-delay": 60_000}):
        ann.publish(1, exchange, "mine.a", b"", {"headers": {header: ["mine.b"], **delay}})
        ann.call(1, "basic.qos")
        ann.publish(1, exchange, "mine.a", b"", {"headers": {header: ["mine.b", "yours"], **delay}})
        text = f"access to topic 'yours' in exchange '{exchange}' in vhost '/' refused for user 'ann'"
        assert ann.refusal().text == f"ACCESS_REFUSED - {text}"
        ann.open_channel(1)


def test_a_tag_taken_away_counts_for_the_next_message(scene: Scene, ann: RawClient) -> None:
    user = scene.broker.call(lambda node: node.broker.catalog.users["ann"])
    scene.apply(commands.PutUser(User("ann", user.password_hash, ("impersonator",))))
    ann.publish(1, "", "old", b"", {"user_id": "bob"})
    ann.call(1, "basic.qos")
    scene.apply(commands.PutUser(user))
    ann.publish(1, "", "old", b"", {"user_id": "bob"})
    assert ann.refusal().code == 406


def test_a_new_password_leaves_connections_alone_and_voids_the_old_one(scene: Scene, ann: RawClient) -> None:
    scene.apply(commands.PutUser(User("ann", "")))
    ann.call(1, "queue.declare", queue="old")
    stranger = scene.stranger()
    stranger.start()
    stranger.start_ok("ann", "secret")
    assert stranger.refusal().code == 403
