"""From the protocol header to connection.open: who is let in, from where, and what the refused are told."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from leveret import __version__
from leveret.auth import login as login_module
from leveret.broker.product_name import RABBITMQ_VERSION, Announced
from leveret.catalog import commands
from leveret.catalog.records import Vhost
from leveret.session.handshake import server_properties
from tests.conformance.raw_client import RawClient
from tests.unit.session.clients import PASSWORD, Scene, eventually, running_scene

REFUSED = "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile."


def test_guest_from_elsewhere_is_refused_before_the_password_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leveret.auth.login.is_loopback", lambda host: False)
    with running_scene() as scene:
        client = scene.stranger()
        client.start()
        client.start_ok()
        refusal = client.refusal()
        assert (refusal.code, refusal.text) == (403, REFUSED)
        assert scene.broker.call(lambda node: node.broker.logins_refused_total) == 1


def test_the_server_says_what_it_is_and_can() -> None:
    properties = server_properties(Announced(), "my cluster")
    assert (properties["product"], properties["version"]) == ("RabbitMQ", RABBITMQ_VERSION)
    assert properties["leveret_version"] == __version__
    assert properties["cluster_name"] == "my cluster"
    assert properties["platform"].startswith("Python 3.")
    assert properties["capabilities"] == {
        "publisher_confirms": True,
        "exchange_exchange_bindings": True,
        "basic.nack": True,
        "consumer_cancel_notify": True,
        "connection.blocked": True,
        "consumer_priorities": True,
        "authentication_failure_close": True,
        "per_consumer_qos": True,
        "direct_reply_to": True,
    }


def test_what_is_offered_comes_from_the_settings() -> None:
    settings: dict[str, object] = {
        "limits.frame_max": 8192,
        "limits.channel_max": 3,
        "limits.heartbeat_s": 7,
        "cluster_name": "blue",
    }
    with running_scene(settings) as scene:
        client = scene.stranger()
        assert client.start()["server_properties"]["cluster_name"] == "blue"
        client.start_ok()
        tune = client.expect(0, "connection.tune")
        assert tune.fields == {"channel_max": 3, "frame_max": 8192, "heartbeat": 7}


@pytest.mark.parametrize(("user", "password"), [("guest", "wrong"), ("guest", ""), ("nobody", "guest"), ("ann", "no")])
def test_a_wrong_login_is_told_if_the_client_can_hear_it(scene: Scene, user: str, password: str) -> None:
    scene.add_user("ann", ".*", ".*", ".*")
    client = scene.stranger()
    client.start()
    client.start_ok(user, password)
    refusal = client.refusal()
    assert (refusal.scope, refusal.code, refusal.text) == ("connection", 403, REFUSED)
    client.expect_eof()


def test_a_wrong_login_is_dropped_if_the_client_cannot_hear_it(scene: Scene) -> None:
    client = scene.stranger()
    client.start()
    client.start_ok("guest", "wrong", capabilities={})
    client.expect_eof()


def test_a_right_login_comes_in_slowly_first_and_at_once_afterwards(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = []
    verify = login_module.verify_password
    monkeypatch.setattr(login_module, "verify_password", lambda *given: checks.append(given) or verify(*given))
    scene.add_user("ann", ".*", ".*", ".*")
    for _ in range(3):
        scene.connect("ann")
    assert len(checks) == 1


def test_guest_of_a_new_broker_is_known_without_a_hash(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_module, "verify_password", lambda *given: pytest.fail("hashed"))
    scene.connect()


def test_others_are_served_while_a_login_is_checked(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    checking, go = threading.Event(), threading.Event()

    def verify_slowly(password_hash: str, password: bytes) -> bool:
        checking.set()
        return go.wait(10)

    monkeypatch.setattr(login_module, "verify_password", verify_slowly)
    scene.add_user("ann", ".*", ".*", ".*")
    other, slow = scene.connect(), scene.stranger()
    slow.start()
    # Everything at once: what follows the login waits until it is decided.
    slow.start_ok("ann", PASSWORD)
    slow.send(0, "connection.tune-ok", channel_max=2047, frame_max=131072, heartbeat=0)
    slow.send(0, "connection.open", virtual_host="/")
    assert checking.wait(10)
    other.call(1, "queue.declare", queue="q")
    slow.expect_quiet(0.1)
    go.set()
    slow.expect(0, "connection.tune")
    slow.expect(0, "connection.open-ok")


def test_one_who_leaves_while_the_login_is_checked_disturbs_nobody(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    checking, go = threading.Event(), threading.Event()

    def verify_slowly(password_hash: str, password: bytes) -> bool:
        checking.set()
        return go.wait(10)

    monkeypatch.setattr(login_module, "verify_password", verify_slowly)
    scene.add_user("ann", ".*", ".*", ".*")
    leaving = scene.stranger()
    leaving.start()
    leaving.start_ok("ann", PASSWORD)
    assert checking.wait(10)
    leaving.socket.close()
    go.set()
    scene.connect()
    eventually(lambda: scene.broker.call(lambda node: len(node._sessions)) == 1, "the one who left is forgotten")


def test_a_broker_stops_while_a_login_is_checked(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    checking, go, checked = threading.Event(), threading.Event(), threading.Event()

    def verify_slowly(password_hash: str, password: bytes) -> bool:
        checking.set()
        right = go.wait(60)
        checked.set()
        return right

    monkeypatch.setattr(login_module, "verify_password", verify_slowly)
    with running_scene() as scene:
        scene.add_user("ann", ".*", ".*", ".*")
        for password in (PASSWORD, "another"):
            client = scene.stranger()
            client.start()
            client.start_ok("ann", password)
        assert checking.wait(10)
        scene.broker.stop()
        assert not checked.is_set(), "the stop waited for the check"
        go.set()
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


def test_an_unknown_vhost_is_not_allowed(scene: Scene) -> None:
    client = authenticated(scene)
    client.send(0, "connection.open", virtual_host="nowhere")
    refusal = client.refusal()
    assert (refusal.code, refusal.text) == (530, "NOT_ALLOWED - vhost nowhere not found")


def test_a_vhost_without_permission_is_not_allowed(scene: Scene) -> None:
    scene.apply(commands.PutVhost(Vhost("private")))
    client = authenticated(scene)
    client.send(0, "connection.open", virtual_host="private")
    refusal = client.refusal()
    assert (refusal.code, refusal.text) == (530, "NOT_ALLOWED - access to vhost 'private' refused for user 'guest'")


def test_an_empty_permission_lets_in_but_allows_nothing(scene: Scene) -> None:
    scene.add_user("ann", "", "", "")
    client = scene.connect("ann")
    client.send(1, "queue.declare", queue="q")
    assert client.refusal().code == 403


def authenticated(scene: Scene) -> RawClient:
    client = scene.stranger()
    client.start()
    client.start_ok()
    client.tune_ok(client.expect(0, "connection.tune"))
    return client
