"""From a stream client's first frame to Open: who is let in, what is agreed on, and what strangers may not do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from leveret.catalog import commands as changes
from leveret.catalog.records import User, Vhost
from leveret.core.tables import encode_table
from leveret.testing import Broker
from leveret.wire import stream_commands as commands
from leveret.wire.limits import STREAM_FRAME_MAX, STREAM_FRAME_MAX_BEFORE_AUTHENTICATION
from leveret.wire.stream_codes import Code, Key
from leveret.wire.stream_commands import Command
from tests.conformance.raw_stream_client import RawStreamClient


@contextmanager
def stranger(broker: Broker) -> Iterator[RawStreamClient]:
    with RawStreamClient(broker.host, broker.stream_port) as client:
        yield client


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"cluster_name": "blue"}) as broker:
        yield broker


def test_the_whole_handshake(broker: Broker) -> None:
    with stranger(broker) as client:
        properties = client.do(commands.PeerProperties, {"product": "test"}).properties
        # Clients of RabbitMQ look at these two before they use what newer versions have.
        assert (properties["product"], properties["version"]) == ("RabbitMQ", "3.13.0")
        assert (properties["broker"], properties["cluster_name"]) == ("Leveret", "blue")
        assert client.do(commands.SaslHandshake).mechanisms == ["PLAIN", "AMQPLAIN"]
        assert client.authenticate() == Code.OK
        assert client.receive(commands.Tune) == commands.Tune(STREAM_FRAME_MAX, 60)
        client.send(commands.TuneResponse(5000, 0))
        opened = client.do(commands.Open, "/")
        assert opened.properties == {"advertised_host": "127.0.0.1", "advertised_port": str(broker.stream_port)}


def test_a_wrong_password_is_refused_and_counted(broker: Broker) -> None:
    refused = broker.call(lambda node: node.broker.logins_refused_total)
    for user in ("guest", "nobody"):
        with stranger(broker) as client:
            assert client.authenticate(user, "wrong") == Code.AUTHENTICATION_FAILURE
            assert client.is_closed()
    assert broker.call(lambda node: node.broker.logins_refused_total) == refused + 2


@pytest.mark.parametrize(
    ("mechanism", "data", "code"),
    [
        ("EXTERNAL", b"", Code.SASL_MECHANISM_NOT_SUPPORTED),
        ("AMQPLAIN", b"", Code.SASL_ERROR),
        ("PLAIN", b"no NULs", Code.SASL_ERROR),
        ("PLAIN", b"\x00\xff\x00x", Code.SASL_ERROR),
        ("PLAIN", b"\x00" * 5000, Code.SASL_ERROR),
    ],
)
def test_a_login_that_makes_no_sense_is_refused(broker: Broker, mechanism: str, data: bytes, code: int) -> None:
    with stranger(broker) as client:
        assert client.code(commands.SaslAuthenticate, mechanism, data) == code
        assert client.is_closed()


def test_guest_must_be_on_this_machine(monkeypatch: pytest.MonkeyPatch, broker: Broker) -> None:
    monkeypatch.setattr("leveret.broker.login.is_loopback", lambda host: False)
    with stranger(broker) as client:
        assert client.authenticate() == Code.SASL_AUTHENTICATION_FAILURE_LOOPBACK
        assert client.is_closed()


def test_a_virtual_host_that_is_not_there_or_not_allowed_is_refused(broker: Broker) -> None:
    broker.call(lambda node: node.broker.apply(changes.PutVhost(Vhost("closed"))))
    for name in ("closed", "nowhere"):
        with stranger(broker) as client:
            assert client.authenticate() == Code.OK
            client.receive(commands.Tune)
            client.send(commands.Tune(0, 0))
            assert client.code(commands.Open, name) == Code.VIRTUAL_HOST_ACCESS_FAILURE
            assert client.is_closed()


@pytest.mark.parametrize(
    "command",
    [
        commands.Open(1, "/"),
        commands.Tune(0, 0),
        commands.Create(1, "s", {}),
        commands.Metadata(1, ["s"]),
        commands.Credit(1, 1),
        commands.ConsumerUpdateResponse(1, 1, commands.OffsetSpec(1)),
        commands.CloseResponse(1, 1),
    ],
)
def test_a_stranger_who_skips_the_login_is_let_go(broker: Broker, command: Command) -> None:
    with stranger(broker) as client:
        client.send(command)
        assert client.is_closed()


def test_a_stranger_cannot_publish(broker: Broker) -> None:
    with stranger(broker) as client:
        client.publish(1, (1, b"x"))
        assert client.is_closed()


def test_the_steps_are_taken_once_and_in_order(broker: Broker) -> None:
    with stranger(broker) as client:
        assert client.authenticate() == Code.OK
        client.receive(commands.Tune)
        client.send(commands.Open(1, "/"))
        assert client.is_closed()
    with stranger(broker) as client:
        assert client.authenticate() == Code.OK
        client.receive(commands.Tune)
        client.send(commands.SaslAuthenticate(1, "PLAIN", b"\x00guest\x00guest"))
        assert client.is_closed()


def test_a_stranger_may_send_only_small_frames(broker: Broker) -> None:
    limit = STREAM_FRAME_MAX_BEFORE_AUTHENTICATION
    with stranger(broker) as client:
        client.do(commands.PeerProperties, {"a": "x" * (limit - 100)})
        client.send_octets((limit + 1).to_bytes(4, "big"))
        assert client.is_closed()


@pytest.mark.parametrize("octets", [b"GET / HTTP/1.1\r\n\r\n", b"AMQP\x00\x00\x09\x01", b"\x00" * 8, b"\xff" * 64])
def test_who_speaks_something_else_is_let_go(broker: Broker, octets: bytes) -> None:
    with stranger(broker) as client:
        client.send_octets(octets)
        assert client.is_closed()


def test_a_heartbeat_disturbs_nobody(broker: Broker) -> None:
    with stranger(broker) as client:
        client.send(commands.Heartbeat())
        assert client.authenticate() == Code.OK


def test_a_handshake_has_its_time() -> None:
    with Broker({"limits.handshake_deadline_s": 0.2}) as broker, stranger(broker) as client:
        begun = time.monotonic()
        client.do(commands.PeerProperties, {})
        assert client.is_closed()
        assert time.monotonic() - begun < 5


@pytest.mark.parametrize(("asked", "limit"), [(2000, 2000), (0, STREAM_FRAME_MAX), (2**31, STREAM_FRAME_MAX)])
def test_the_agreed_frame_size_holds(broker: Broker, asked: int, limit: int) -> None:
    with stranger(broker) as client:
        client.log_in(frame_max=asked)
        if limit < 32000:
            # A metadata query of just this size.
            content = b"\x00\x00\x00\x01\x00\x00\x00\x01" + (limit - 14).to_bytes(2, "big")
            client.send_frame(Key.METADATA, content + b"x" * (limit - 14))
            assert len(client.receive(commands.MetadataResponse).streams) == 1
        client.send_octets((limit + 1).to_bytes(4, "big") + b"\x00\x0f\x00\x01")
        close = client.receive(commands.Close)
        assert (close.code, close.reason) == (
            Code.FRAME_TOO_LARGE,
            f"a stream frame of {limit + 1} bytes is larger than the limit of {limit}",
        )
        client.send(commands.CloseResponse(close.correlation_id, Code.OK))
        assert client.is_closed()


def test_passwords_are_checked_as_for_amqp(broker: Broker) -> None:
    password_hash = broker.call(lambda node: node.broker.logins.hash(b"secret"))
    broker.call(lambda node: node.broker.apply(changes.PutUser(User("ann", password_hash, ()))))
    with stranger(broker) as client:
        assert client.authenticate("ann", "secret") == Code.OK
    with stranger(broker) as client:
        assert client.authenticate("ann", "Secret") == Code.AUTHENTICATION_FAILURE


def test_the_other_mechanism_is_known_as_well(broker: Broker) -> None:
    response = encode_table({"LOGIN": "guest", "PASSWORD": "guest"})[4:]
    with stranger(broker) as client:
        assert client.code(commands.SaslAuthenticate, "AMQPLAIN", response) == Code.OK


def test_the_protocol_can_be_off() -> None:
    with Broker({"listen.stream_port": "off"}) as broker:
        assert broker.stream_port == 0
        assert broker.node.stream_port is None
