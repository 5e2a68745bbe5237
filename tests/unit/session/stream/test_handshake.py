"""From a stream client's first frame to Open: who is let in, what is agreed on, and what strangers may not do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from leveret import __version__
from leveret.broker.product_name import RABBITMQ_VERSION
from leveret.catalog import commands as changes
from leveret.catalog.records import User, Vhost
from leveret.core.codec.tables import encode_table
from leveret.testing import Broker
from leveret.wire import stream_commands as commands
from leveret.wire.limits import STREAM_FRAME_MAX, STREAM_FRAME_MAX_BEFORE_AUTHENTICATION
from leveret.wire.stream_codes import Code
from leveret.wire.stream_commands import Command
from tests.conformance.raw_stream_client import RawStreamClient
from tests.unit.session.stream.scene import eventually


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
        assert (properties["product"], properties["version"]) == ("RabbitMQ", RABBITMQ_VERSION)
        assert (properties["leveret_version"], properties["cluster_name"]) == (__version__, "blue")
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
    monkeypatch.setattr("leveret.auth.login.is_loopback", lambda host: False)
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
    with Broker({"limits.handshake_deadline_s": 2}) as broker, stranger(broker) as client:
        client.do(commands.PeerProperties, {})
        assert client.is_closed()


@pytest.mark.parametrize("asked", [2000, 0, 2**31])
def test_the_offered_frame_size_holds_whatever_the_client_asks_for(broker: Broker, asked: int) -> None:
    limit = STREAM_FRAME_MAX
    with stranger(broker) as client:
        client.log_in(frame_max=asked)
        # A publish of just this size: its errors say that it was read.
        body = limit - 9 - 12
        client.publish(1, (7, bytes(body)))
        assert client.receive(commands.PublishError).errors == [(7, Code.PUBLISHER_DOES_NOT_EXIST)]
        client.send_octets((limit + 1).to_bytes(4, "big") + b"\x00\x0f\x00\x01")
        close = client.receive(commands.Close)
        assert (close.code, close.reason) == (
            Code.FRAME_TOO_LARGE,
            f"a stream frame of {limit + 1} bytes is larger than the limit of {limit}",
        )
        client.send(commands.CloseResponse(close.correlation_id, Code.OK))
        assert client.is_closed()


def test_the_frame_size_is_a_setting_and_an_unfinished_frame_is_counted() -> None:
    with Broker({"limits.stream_frame_max": 10_000}) as broker, stranger(broker) as client:
        assert client.authenticate() == Code.OK
        assert client.receive(commands.Tune).frame_max == 10_000
        client.send(commands.TuneResponse(0, 0))
        client.do(commands.Open, "/")
        client.send_octets((10_000).to_bytes(4, "big") + bytes(5000))

        def held():
            return broker.call(lambda node: node.broker.limits.unfinished.held_bytes)

        eventually(lambda: held() == 5004)
        client.socket.close()
        eventually(lambda: held() == 0)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            {"streams.advertised_host": "streams.example.com", "streams.advertised_port": 6000},
            ("streams.example.com", 6000),
        ),
        ({"streams.advertised_port": 6000}, ("127.0.0.1", 6000)),
        ({"streams.advertised_host": "streams.example.com"}, ("streams.example.com", None)),
        # Of those who come by TLS.
        ({"streams.advertised_tls_host": "tls.example.com", "streams.advertised_tls_port": 6001}, ("127.0.0.1", None)),
    ],
)
def test_clients_are_told_what_is_advertised(settings: dict[str, object], told: tuple[str, int | None]) -> None:
    with Broker(settings) as broker:
        host, port = told[0], told[1] or broker.stream_port
        with stranger(broker) as client:
            found = client.do(commands.PeerProperties, {}).properties
            assert (found["advertised_host"], found["advertised_port"]) == (host, str(port))
            client.log_in()
            assert client.request(commands.Metadata, ["any"]).brokers == [(0, host, port)]


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
