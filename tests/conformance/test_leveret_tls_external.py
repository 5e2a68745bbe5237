"""Logins by certificate (SASL EXTERNAL), over AMQP and the stream protocol: who is offered it, and who is meant."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pika
import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from rstream import Producer, SlasMechanism

from leveret.auth.login import Logins
from leveret.catalog import commands as changes
from leveret.catalog.passwords import hash_known_password
from leveret.catalog.records import Permission, User
from leveret.wire import stream_commands as commands
from leveret.wire.stream_codes import Code
from tests.conformance.authority import Authority, Papers
from tests.conformance.raw_client import CAPABILITIES, RawClient, Refusal
from tests.conformance.stream_scenes import within_deadline
from tests.conformance.tls_scenes import TlsScene, tls_scene

ALL = ("EXTERNAL", "PLAIN", "AMQPLAIN")
REFUSED = (
    "ACCESS_REFUSED - Login was refused using authentication mechanism EXTERNAL. For details see the broker logfile."
)


def add_user(scene: TlsScene, name: str, permitted: str = ".*") -> None:
    """A user who knows no password."""
    unknown = hash_known_password(b"nobody knows", bytes(16))
    scene.broker.call(lambda node: node.broker.apply(changes.PutUser(User(name, unknown, ()))))
    permission = Permission(name, "/", permitted, permitted, permitted)
    scene.broker.call(lambda node: node.broker.apply(changes.PutPermission(permission)))


@contextmanager
def external_scene(directory: Path, external_name: str = "cn", **settings: object) -> Iterator[TlsScene]:
    more = {"tls__verify": "optional", "auth__mechanisms": ALL, "auth__external_name": external_name, **settings}
    with tls_scene(directory, **more) as made:
        yield made


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsScene]:
    with external_scene(tmp_path_factory.mktemp("external")) as made:
        add_user(made, "ann", "^ann")
        yield made


def log_in(client: RawClient, response: str = "", mechanism: str = "EXTERNAL") -> RawClient:
    client.start()
    properties = {"capabilities": dict(CAPABILITIES)}
    client.send(
        0,
        "connection.start-ok",
        client_properties=properties,
        mechanism=mechanism,
        response=response,
        locale="en_US",
    )
    return client


def finish(client: RawClient) -> RawClient:
    client.tune_ok(client.expect(0, "connection.tune"))
    client.call(0, "connection.open", virtual_host="/")
    client.open_channel(1)
    return client


def user_of(scene: TlsScene) -> str:
    """Whom the broker takes the only connection for."""
    users = scene.broker.call(lambda node: [session.user for session in node.broker.connections.values()])
    assert len(users) == 1
    return str(users[0])


def refusal(client: RawClient) -> Refusal:
    with client:
        return log_in(client).refusal()


# ---- AMQP


def test_the_certificate_is_the_login(scene: TlsScene) -> None:
    papers = scene.authority.client("ann", "ann")
    # What the client says besides is not looked at: some say nothing, one says stars, one would like to be another.
    for response in ("", "\0*\0*", "guest", "\0guest\0guest"):
        with scene.connect(papers) as client:
            finish(log_in(client, response))
            assert user_of(scene) == "ann"
            # With the user's permissions.
            client.call(1, "queue.declare", queue="annals", exclusive=True)
            client.send(1, "queue.declare", queue="other")
            assert client.refusal().code == 403
            client.log_out()


def test_pika_with_a_certificate(scene: TlsScene) -> None:
    papers = scene.authority.client("ann", "ann")
    parameters = scene.parameters(papers, credentials=pika.credentials.ExternalCredentials())
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.queue_declare("ann's", exclusive=True)


def test_it_is_offered_only_to_those_who_have_a_certificate(scene: TlsScene) -> None:
    with scene.connect(scene.authority.client("ann", "ann")) as client:
        assert client.start()["mechanisms"] == b"EXTERNAL PLAIN AMQPLAIN"
    with scene.connect() as client:
        assert client.start()["mechanisms"] == b"PLAIN AMQPLAIN"
    with RawClient(scene.broker.host, scene.broker.port) as client:
        assert client.start()["mechanisms"] == b"PLAIN AMQPLAIN"
    for client in (scene.connect(), RawClient(scene.broker.host, scene.broker.port)):
        ended = refusal(client)
        assert (ended.code, ended.text) == (503, "COMMAND_INVALID - invalid authentication mechanism 'EXTERNAL'")


def test_a_password_still_does_with_a_certificate(scene: TlsScene) -> None:
    with scene.connect(scene.authority.client("ann", "ann")) as client:
        client.log_in()
        assert user_of(scene) == "guest"
        client.log_out()


def test_a_user_who_does_not_exist_is_refused(scene: TlsScene) -> None:
    before = scene.broker.call(lambda node: node.broker.logins.refused_total)
    for name in ("bob", "Ann", " ann", "ann ", "guest,ann"):
        ended = refusal(scene.connect(scene.authority.client("bob", name)))
        assert (ended.code, ended.text) == (403, REFUSED)
    assert scene.broker.call(lambda node: node.broker.logins.refused_total) == before + 5


def test_odd_names_are_nobodys(scene: TlsScene) -> None:
    """Such as would be cut or joined to the name of somebody else."""
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, each) for each in ("ann", "x")]
    for subject in (
        "ann\0.example.com",
        "ann\r\n",
        "ann\u200b",
        x509.Name(parts),
        x509.Name(reversed(parts)),
        x509.Name([]),
    ):
        assert refusal(scene.connect(scene.authority.client("odd", subject))).code == 403


def test_names_with_signs_are_taken_as_they_are(scene: TlsScene) -> None:
    for name in ('"quoted", with a comma', "jürgen", "CN=ann"):
        add_user(scene, name)
        with scene.connect(scene.authority.client("signs", name)) as client:
            finish(log_in(client))
            assert user_of(scene) == name
            client.log_out()


def test_who_may_only_come_from_this_machine_must(scene: TlsScene, monkeypatch: pytest.MonkeyPatch) -> None:
    papers = scene.authority.client("guest", "guest")
    with scene.connect(papers) as client:
        finish(log_in(client)).log_out()
    monkeypatch.setattr(Logins, "allowed_from", lambda logins, user, host: user != "guest")
    assert refusal(scene.connect(papers)).code == 403


def test_a_user_who_is_deleted_does_not_come_back(scene: TlsScene) -> None:
    add_user(scene, "carol")
    papers = scene.authority.client("carol", "carol")
    with scene.connect(papers) as client:
        finish(log_in(client))
        scene.broker.call(lambda node: node.broker.apply(changes.DeleteUser("carol")))
        assert client.refusal().code == 320
    assert refusal(scene.connect(papers)).code == 403


SUBJECT = x509.Name(
    [
        x509.NameAttribute(NameOID.COUNTRY_NAME, "DE"),
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Hare, Rabbit & Sons"),
        x509.NameAttribute(NameOID.COMMON_NAME, "ann"),
    ]
)
ALTERNATIVES = (
    x509.DNSName("ann.example.com"),
    x509.RFC822Name("ann@example.com"),
    x509.UniformResourceIdentifier("spiffe://example.com/ann"),
)


@pytest.mark.parametrize(
    ("external_name", "user"),
    [
        ("cn", "ann"),
        ("dn", "CN=ann,O=Hare\\, Rabbit & Sons,C=DE"),
        ("san_dns", "ann.example.com"),
        ("san_email", "ann@example.com"),
        ("san_uri", "spiffe://example.com/ann"),
    ],
)
def test_each_kind_of_name(tmp_path: Path, external_name: str, user: str) -> None:
    with external_scene(tmp_path, external_name) as scene:
        papers = scene.authority.client("ann", SUBJECT, ALTERNATIVES)
        ended = refusal(scene.connect(papers))
        assert (ended.code, ended.text) == (403, REFUSED)
        add_user(scene, user)
        with scene.connect(papers) as client:
            finish(log_in(client))
            assert user_of(scene) == user
            client.log_out()
        if external_name.startswith("san"):
            assert refusal(scene.connect(scene.authority.client("bare", SUBJECT))).code == 403


def test_only_what_is_configured_is_offered(tmp_path: Path) -> None:
    with external_scene(tmp_path, auth__mechanisms=("EXTERNAL",)) as scene:
        add_user(scene, "ann")
        papers = scene.authority.client("ann", "ann")
        with scene.connect(papers) as client:
            assert client.start()["mechanisms"] == b"EXTERNAL"
        for mechanism in ("PLAIN", "AMQPLAIN"):
            with scene.connect(papers) as client:
                ended = log_in(client, "\0guest\0guest", mechanism).refusal()
                text = f"COMMAND_INVALID - invalid authentication mechanism '{mechanism}'"
                assert (ended.code, ended.text) == (503, text)
        with scene.stream(papers) as stream:
            assert stream.do(commands.SaslHandshake).mechanisms == ["EXTERNAL"]
            assert stream.authenticate() == Code.SASL_MECHANISM_NOT_SUPPORTED


def test_it_is_not_offered_unless_configured(tmp_path: Path) -> None:
    with tls_scene(tmp_path, tls__verify="required") as scene:
        papers = scene.authority.client("guest", "guest")
        with scene.connect(papers) as client:
            assert client.start()["mechanisms"] == b"PLAIN AMQPLAIN"
        assert refusal(scene.connect(papers)).code == 503
        with scene.stream(papers) as stream:
            assert stream.code(commands.SaslAuthenticate, "EXTERNAL", b"") == Code.SASL_MECHANISM_NOT_SUPPORTED


# ---- the stream protocol


def test_streams_by_certificate(scene: TlsScene) -> None:
    papers = scene.authority.client("ann", "ann")
    with scene.stream(papers) as stream:
        assert stream.do(commands.SaslHandshake).mechanisms == list(ALL)
        stream.do(commands.SaslAuthenticate, "EXTERNAL", b"")
        stream.receive(commands.Tune)
        stream.send(commands.Tune(0, 0))
        stream.do(commands.Open, "/")
        assert user_of(scene) == "ann"
        stream.do(commands.Create, "ann-stream", {})
        assert stream.code(commands.Create, "other", {}) == Code.ACCESS_REFUSED
    with scene.stream() as stream:
        assert stream.do(commands.SaslHandshake).mechanisms == ["PLAIN", "AMQPLAIN"]
        assert stream.code(commands.SaslAuthenticate, "EXTERNAL", b"") == Code.SASL_MECHANISM_NOT_SUPPORTED


def test_streams_refuse_whom_amqp_refuses(scene: TlsScene, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("bob", "ann\0"):
        with scene.stream(scene.authority.client("bob", name)) as stream:
            assert stream.code(commands.SaslAuthenticate, "EXTERNAL", b"") == Code.AUTHENTICATION_FAILURE
            assert stream.is_closed()
    monkeypatch.setattr(Logins, "allowed_from", lambda logins, user, host: user != "guest")
    with scene.stream(scene.authority.client("guest", "guest")) as stream:
        code = stream.code(commands.SaslAuthenticate, "EXTERNAL", b"")
        assert code == Code.SASL_AUTHENTICATION_FAILURE_LOOPBACK


def test_rstream_with_a_certificate(scene: TlsScene) -> None:
    async def scenario() -> None:
        producer = Producer(
            "localhost",
            scene.broker.stream_tls_port,
            ssl_context=scene.authority.context(scene.authority.client("ann", "ann")),
            username="",
            password="",
            sasl_configuration_mechanism=SlasMechanism.MechanismExternal,
        )
        await producer.start()
        try:
            await producer.create_stream("ann-rstream")
            await producer.send_wait("ann-rstream", b"sealed")
        finally:
            await producer.close()
        await asyncio.sleep(0)

    within_deadline(scenario())


def test_papers_of_another_authority_are_nobodys(scene: TlsScene, tmp_path: Path) -> None:
    """A name counts only if the right authority has signed for it."""
    papers: Papers = Authority(tmp_path).client("ann", "ann")
    with pytest.raises(OSError), scene.connect(papers) as client:
        log_in(client).refusal()
