"""Permissions over AMQP: which right each method needs, and that a change takes effect on open connections."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from leveret.catalog import commands
from leveret.catalog.records import Permission, Vhost
from tests.conformance.raw_client import RawClient
from tests.unit.catalog.naming import all_but
from tests.unit.session.clients import PASSWORD, Scene


class Case(NamedTuple):
    """A method, its fields, and the one right that is missing when it is refused: kind, resource, name."""

    method: str
    fields: dict[str, Any]
    kind: str
    resource: str
    name: str


CASES = [
    Case("queue.declare", {"queue": "new"}, "configure", "queue", "new"),
    Case("queue.declare", {"queue": "old"}, "configure", "queue", "old"),
    Case("queue.delete", {"queue": "old"}, "configure", "queue", "old"),
    Case("queue.purge", {"queue": "old"}, "read", "queue", "old"),
    Case("queue.bind", {"queue": "old", "exchange": "amq.fanout"}, "write", "queue", "old"),
    Case("queue.bind", {"queue": "old", "exchange": "amq.fanout"}, "read", "exchange", "amq.fanout"),
    Case("queue.unbind", {"queue": "old", "exchange": "amq.fanout"}, "write", "queue", "old"),
    Case("queue.unbind", {"queue": "old", "exchange": "amq.fanout"}, "read", "exchange", "amq.fanout"),
    Case("exchange.declare", {"exchange": "x", "type": "direct"}, "configure", "exchange", "x"),
    Case("exchange.delete", {"exchange": "x"}, "configure", "exchange", "x"),
    Case("exchange.bind", {"source": "amq.fanout", "destination": "amq.topic"}, "write", "exchange", "amq.topic"),
    Case("exchange.bind", {"source": "amq.fanout", "destination": "amq.topic"}, "read", "exchange", "amq.fanout"),
    Case("exchange.unbind", {"source": "amq.fanout", "destination": "amq.topic"}, "write", "exchange", "amq.topic"),
    Case("exchange.unbind", {"source": "amq.fanout", "destination": "amq.topic"}, "read", "exchange", "amq.fanout"),
    Case("basic.consume", {"queue": "old"}, "read", "queue", "old"),
    Case("basic.get", {"queue": "old"}, "read", "queue", "old"),
    Case("basic.publish", {"exchange": "amq.fanout"}, "write", "exchange", "amq.fanout"),
    Case("basic.publish", {"exchange": "", "routing_key": "old"}, "write", "exchange", "amq.default"),
    Case("basic.publish", {"exchange": "missing"}, "write", "exchange", "missing"),
]


@pytest.fixture
def ann(scene: Scene) -> RawClient:
    scene.add_user("ann", ".*", ".*", ".*")
    scene.connect().call(1, "queue.declare", queue="old")
    return scene.connect("ann")


def grant(scene: Scene, **patterns: str) -> None:
    """Gives ann everything but what is named."""
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    scene.apply(commands.PutPermission(Permission("ann", "/", **{**everything, **patterns})))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.method} without {case.kind} on {case.name}")
def test_a_method_is_refused_for_want_of_one_right(scene: Scene, ann: RawClient, case: Case) -> None:
    grant(scene, **{case.kind: all_but(case.name)})
    ann.send(1, case.method, **case.fields)
    refusal = ann.refusal()
    assert (refusal.scope, refusal.code) == ("channel", 403)
    assert refusal.text == (
        f"ACCESS_REFUSED - access to {case.resource} '{case.name}' in vhost '/' refused for user 'ann'"
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.method} {case.name}")
def test_the_same_method_passes_with_the_right(scene: Scene, ann: RawClient, case: Case) -> None:
    if case.method == "basic.publish":
        if case.name != "missing":
            ann.publish(1, case.fields["exchange"], case.fields.get("routing_key", ""))
            ann.call(1, "basic.qos")
    else:
        ann.call(1, case.method, **case.fields)


@pytest.mark.parametrize(
    ("method", "fields"),
    [
        ("queue.declare", {"queue": "old", "passive": True}),
        ("exchange.declare", {"exchange": "amq.topic", "passive": True}),
        ("basic.qos", {"prefetch_count": 1}),
        ("tx.select", {}),
    ],
)
def test_looking_and_setting_up_need_no_right(
    scene: Scene, ann: RawClient, method: str, fields: dict[str, Any]
) -> None:
    grant(scene, configure="", write="", read="")
    ann.call(1, method, **fields)


def test_a_dead_letter_exchange_must_be_writable_and_its_queue_readable(scene: Scene, ann: RawClient) -> None:
    arguments = {"x-dead-letter-exchange": "dlx"}
    for missing in ({"write": all_but("dlx")}, {"read": all_but("new")}):
        grant(scene, **missing)
        ann.send(1, "queue.declare", queue="new", arguments=arguments)
        assert ann.refusal().code == 403
        ann.open_channel(1)
    grant(scene)
    ann.call(1, "queue.declare", queue="new", arguments=arguments)


def test_a_right_taken_away_stops_a_publisher_that_repeats_itself(scene: Scene, ann: RawClient) -> None:
    for _ in range(3):
        ann.publish(1, "", "old")
    ann.call(1, "basic.qos")
    grant(scene, write="")
    ann.publish(1, "", "old")
    assert ann.refusal().code == 403
    assert scene.ready_count("old") == 3


def test_a_right_taken_away_in_the_middle_of_a_message_counts_for_the_next(scene: Scene, ann: RawClient) -> None:
    ann.send(1, "basic.publish", routing_key="old")
    ann.send_frame(8, 0, b"")
    channel_two = ann.open_channel(2)
    grant(scene, write="")
    ann.send_content(1, b"x", b"\x00\x00")
    ann.publish(channel_two, "", "old")
    refusal = ann.refusal()
    assert refusal.code == 403
    assert scene.ready_count("old") == 1
    ann.publish(1, "", "old")
    assert ann.refusal().code == 403


def test_a_right_given_takes_effect_on_the_open_connection(scene: Scene, ann: RawClient) -> None:
    grant(scene, configure="")
    ann.send(1, "queue.declare", queue="new")
    assert ann.refusal().code == 403
    ann.open_channel(1)
    grant(scene)
    ann.call(1, "queue.declare", queue="new")


def test_a_right_taken_away_stops_control_methods_too(scene: Scene, ann: RawClient) -> None:
    ann.call(1, "basic.get", queue="old")
    grant(scene, read="")
    ann.send(1, "basic.get", queue="old")
    assert ann.refusal().code == 403


def test_changes_for_one_user_leave_others_alone(scene: Scene, ann: RawClient) -> None:
    scene.add_user("bob", ".*", ".*", ".*")
    bob = scene.connect("bob")
    bob.publish(1, "", "old")
    grant(scene, write="")
    bob.publish(1, "", "old")
    bob.call(1, "basic.qos")
    assert scene.ready_count("old") == 2


# ---- when the user or the virtual host itself goes


def test_a_deleted_user_is_closed_out(scene: Scene, ann: RawClient) -> None:
    scene.apply(commands.DeleteUser("ann"))
    refusal = ann.refusal()
    assert (refusal.scope, refusal.code, refusal.text) == (
        "connection",
        320,
        "CONNECTION_FORCED - user 'ann' is deleted",
    )
    client = scene.stranger()
    client.start()
    client.start_ok("ann", PASSWORD)
    assert client.refusal().code == 403


def test_connections_to_a_deleted_vhost_are_closed_and_others_stay(scene: Scene, ann: RawClient) -> None:
    scene.apply(commands.PutVhost(Vhost("v")))
    scene.apply(commands.PutPermission(Permission("ann", "v", ".*", ".*", ".*")))
    there = scene.connect("ann", vhost="v")
    there.call(1, "queue.declare", queue="q", exclusive=True)
    there.call(1, "basic.consume", queue="q")
    scene.apply(commands.DeleteVhost("v"))
    refusal = there.refusal()
    assert (refusal.scope, refusal.code, refusal.text) == (
        "connection",
        320,
        "CONNECTION_FORCED - vhost 'v' is deleted",
    )
    ann.call(1, "queue.declare", queue="old")


def test_a_vhost_made_again_is_empty_and_works(scene: Scene, ann: RawClient) -> None:
    for _ in range(2):
        scene.apply(commands.PutVhost(Vhost("v")))
        scene.apply(commands.PutPermission(Permission("ann", "v", ".*", ".*", ".*")))
        there = scene.connect("ann", vhost="v")
        assert there.call(1, "queue.declare", queue="q")["message_count"] == 0
        there.publish(1, "", "q", b"x")
        assert there.call(1, "basic.get", queue="q").body == b"x"
        there.log_out()
        scene.apply(commands.DeleteVhost("v"))
