"""Tokens with pika and with raw clients: log in, be refused, end, be renewed; over AMQP and the stream protocol."""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker, ProbableAccessDeniedError, ProbableAuthenticationError

from tests.conformance.own_broker import running
from tests.conformance.raw_client import RawClient
from tests.unit.broker.signing import AUDIENCE, claims, pem, private_key, sign

EVERYTHING = ("configure:*/*", "write:*/*/*", "read:*/*/*")
KEY = private_key("rsa")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    directory = tmp_path_factory.mktemp("tokens")
    path: Path = directory / "key.pem"
    path.write_text(pem(KEY))
    tokens = {
        "auth__tokens__enabled": True,
        "auth__tokens__audience": AUDIENCE,
        "auth__tokens__keys": {"k1": str(path)},
        "auth__tokens__leeway_s": 0.0,
        # Many logins fail here, and all come from one address.
        "auth__failures_max": 1000,
    }
    with running(directory / "data", **tokens) as made:
        yield made


def token(*scopes: str, **more: Any) -> str:
    return sign(claims(*(scopes or EVERYTHING), **more), KEY)


def connect(broker: Any, password: str, user: str = "ignored", vhost: str = "/") -> Any:
    credentials = pika.PlainCredentials(user, password)
    return pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port, vhost, credentials))


@contextmanager
def raw(broker: Any, password: str) -> Iterator[RawClient]:
    with RawClient(broker.host, broker.port) as client:
        client.start()
        client.start_ok("ignored", password)
        client.tune_ok(client.expect(0, "connection.tune"))
        client.call(0, "connection.open", virtual_host="/")
        client.open_channel(1)
        yield client


def test_a_token_in_the_place_of_the_password_logs_in(broker: Any) -> None:
    with connect(broker, token()) as connection:
        channel = connection.channel()
        channel.queue_declare("by-token")
        channel.basic_publish("", "by-token", b"hello", pika.BasicProperties(user_id="ann"))
        assert channel.basic_get("by-token", auto_ack=True)[2] == b"hello"
        channel.queue_delete("by-token")


def test_passwords_still_work(broker: Any) -> None:
    connect(broker, "guest", "guest").close()


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(lambda: token(exp=int(time.time()) - 60), id="expired"),
        pytest.param(lambda: token(aud="other"), id="for another"),
        pytest.param(lambda: sign(claims(), private_key("rsa", "other")), id="of another key"),
        pytest.param(lambda: token()[:-6] + "AAAAAA", id="changed"),
        pytest.param(lambda: "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4ifQ.AA", id="unsigned"),
    ],
)
def test_a_token_that_is_not_good_does_not(broker: Any, bad: Any) -> None:
    with pytest.raises(ProbableAuthenticationError):
        connect(broker, bad())


def test_a_scope_says_which_virtual_host_may_be_entered(broker: Any) -> None:
    with pytest.raises(ProbableAccessDeniedError):
        connect(broker, token("read:other/*"))


@pytest.mark.parametrize(
    ("scopes", "act", "text"),
    [
        (("read:%2F/*",), lambda channel: channel.queue_declare("q"), "access to queue 'q' in vhost '/'"),
        (("configure:%2F/a*",), lambda channel: channel.queue_declare("q"), "access to queue 'q' in vhost '/'"),
        (
            ("write:%2F/amq.topic/mine.*",),
            lambda channel: channel.basic_publish("amq.topic", "yours", b""),
            "access to topic 'yours' in exchange 'amq.topic' in vhost '/'",
        ),
    ],
)
def test_what_no_scope_allows_is_refused(broker: Any, scopes: tuple[str, ...], act: Any, text: str) -> None:
    connection = connect(broker, token(*scopes))
    channel = connection.channel()
    channel.confirm_delivery()
    with pytest.raises(ChannelClosedByBroker) as refusal:
        act(channel)
    assert refusal.value.reply_code == 403
    assert refusal.value.reply_text == f"ACCESS_REFUSED - {text} refused for user 'ann'"
    connection.close()


def test_a_connection_ends_with_its_token(broker: Any) -> None:
    with raw(broker, token(exp=time.time() + 4.0)) as client:
        began = time.monotonic()
        refusal = client.refusal()
        assert (refusal.scope, refusal.code, refusal.text) == (
            "connection",
            320,
            "CONNECTION_FORCED - credential expired",
        )
        assert time.monotonic() - began < 50.0


def test_a_newer_token_keeps_it_open_and_changes_its_rights(broker: Any) -> None:
    with raw(broker, token(exp=time.time() + 1.5)) as client:
        client.call(1, "queue.declare", queue="renewed")
        client.call(1, "basic.consume", queue="renewed", consumer_tag="c")
        client.call(0, "connection.update-secret", new_secret=token("configure:*/*"), reason="old")
        # It may configure, but not read any more.
        assert client.expect(1, "basic.cancel")["consumer_tag"] == "c"
        time.sleep(2.0)
        client.call(1, "queue.delete", queue="renewed")
        client.send(1, "basic.publish", exchange="amq.fanout")
        assert client.refusal().code == 403
        client.log_out()


@pytest.mark.parametrize(
    "bad", [lambda: "nonsense", lambda: token(sub="bob"), lambda: token(exp=int(time.time()) - 60)]
)
def test_a_newer_token_that_is_not_good_ends_the_connection(broker: Any, bad: Any) -> None:
    with raw(broker, token()) as client:
        client.send(0, "connection.update-secret", new_secret=bad(), reason="old")
        refusal = client.refusal()
        assert (refusal.scope, refusal.code) == ("connection", 530)
        assert refusal.text == "NOT_ALLOWED - New secret was refused by one of the backends"


def test_whoever_has_a_password_has_nothing_to_renew(broker: Any) -> None:
    with RawClient(broker.host, broker.port) as client:
        client.log_in()
        client.call(0, "connection.update-secret", new_secret="whatever", reason="")


def test_deleting_a_user_of_the_same_name_does_not_concern_the_bearer(broker: Any) -> None:
    from leveret.catalog import commands
    from leveret.catalog.records import User

    with raw(broker, token()) as client:
        for command in (commands.PutUser(User("ann", "")), commands.DeleteUser("ann")):
            broker.call(lambda node, command=command: node.broker.apply(command))
        client.call(1, "basic.qos", prefetch_count=1)
        client.log_out()


def test_guest_is_only_here_by_token_as_well(broker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leveret.auth.login.is_loopback", lambda host: False)
    with pytest.raises(ProbableAuthenticationError):
        connect(broker, token(sub="guest"))
    connect(broker, token(sub="ann")).close()


def test_a_stream_client_logs_in_with_a_token_and_renews_it(broker: Any) -> None:
    from leveret.wire import stream_commands as commands
    from leveret.wire.stream_codes import Code
    from tests.conformance.raw_stream_client import RawStreamClient

    with RawStreamClient(broker.host, broker.stream_port) as client:
        client.log_in("", token(exp=time.time() + 1.5))
        client.do(commands.Create, "by-token", {})
        assert client.authenticate("", "wrong") == Code.AUTHENTICATION_FAILURE
        assert client.authenticate("", token(sub="bob")) == Code.SASL_CANNOT_CHANGE_USERNAME
        assert client.authenticate("", token("configure:*/*", exp=time.time() + 3)) == Code.OK
        time.sleep(1.7)
        assert client.code(commands.DeclarePublisher, 1, "", "by-token") == Code.ACCESS_REFUSED
        client.do(commands.Delete, "by-token")
        assert client.is_closed(), "the credential has expired"


def ask(broker: Any, path: str, authorization: str) -> tuple[int, Any]:
    request = urllib.request.Request(broker.management_url + path, headers={"Authorization": authorization})
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, None


def test_a_bearer_asks_the_management_api(broker: Any) -> None:
    status, who = ask(broker, "/api/whoami", "Bearer " + token("tag:management", "read:%2F/*"))
    assert (status, who["name"], who["tags"]) == (200, "ann", ["management"])
    assert ask(broker, "/api/users", "Bearer " + token("tag:management"))[0] in (401, 403)
    assert ask(broker, "/api/users", "Bearer " + token("tag:administrator"))[0] == 200
    for bad in (token(aud="other"), "nonsense", "", token()[:-6] + "AAAAAA"):
        assert ask(broker, "/api/whoami", "Bearer " + bad)[0] == 401
    # In the place of a password, too.
    basic = base64.b64encode(f"whoever:{token('tag:monitoring')}".encode()).decode()
    assert ask(broker, "/api/whoami", "Basic " + basic)[1]["tags"] == ["monitoring"]
