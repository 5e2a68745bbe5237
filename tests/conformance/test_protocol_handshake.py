"""The first words between client and broker: protocol header, start, login, tune, open."""

import re
import socket
import struct
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conformance.amqp_codec import FRAME_HEARTBEAT, FRAME_METHOD, encode_table
from tests.conformance.amqp_methods import METHODS
from tests.conformance.raw_client import CAPABILITIES, PROTOCOL_HEADER, Method, RawClient, Refusal, ServerClosed
from tests.conformance.target import ORACLE_IS_TARGET, RestartableTarget, Target, running_process

# The largest payload before the client has logged in.
EARLY_PAYLOAD_MAX = 4096


def tune_of(stranger: RawClient) -> Method:
    stranger.start()
    stranger.start_ok()
    return stranger.expect(0, "connection.tune")


def start_ok_with(stranger: RawClient, mechanism: str, response: str | bytes) -> None:
    stranger.start()
    stranger.send(
        0,
        "connection.start-ok",
        client_properties={"capabilities": CAPABILITIES},
        mechanism=mechanism,
        response=response,
        locale="en_US",
    )


@pytest.mark.parametrize(
    "header",
    [b"AMQP\x00\x01\x00\x00", b"AMQP\x03\x01\x00\x00", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01"],
)
def test_an_unknown_protocol_is_told_the_right_one_and_cut(stranger: RawClient, header: bytes) -> None:
    stranger.send_bytes(header)
    assert stranger.read_bytes(8) == PROTOCOL_HEADER
    stranger.expect_eof()


@pytest.mark.parametrize(
    ("header", "version"),
    [(b"AMQP\x01\x01\x00\x09", (0, 9)), (b"AMQP\x01\x01\x08\x00", (8, 0)), (b"AMQP\x01\x01\x09\x01", (8, 0))],
)
def test_clients_of_older_versions_are_served(stranger: RawClient, header: bytes, version: tuple[int, int]) -> None:
    """In 0-8 channel.open-ok has no field."""
    stranger.send_bytes(header)
    start = stranger.expect(0, "connection.start")
    assert (start["version_major"], start["version_minor"]) == version
    stranger.start_ok()
    stranger.tune_ok(stranger.expect(0, "connection.tune"))
    stranger.call(0, "connection.open", virtual_host="/")
    stranger.send(1, "channel.open")
    assert stranger.read_frame().payload == struct.pack(">HH", 20, 11) + (b"" if version == (8, 0) else bytes(4))
    name = stranger.call(1, "queue.declare", exclusive=True)["queue"]
    stranger.publish(1, "", name, b"old")
    stranger.send(1, "basic.get", queue=name, no_ack=True)
    assert stranger.read().body == b"old"


def test_the_header_may_come_in_pieces(stranger: RawClient) -> None:
    for octet in PROTOCOL_HEADER:
        stranger.send_bytes(bytes([octet]))
    assert stranger.expect(0, "connection.start")["version_major"] == 0


def test_start_says_what_the_broker_can_do(stranger: RawClient) -> None:
    start = stranger.start()
    assert (start["version_major"], start["version_minor"]) == (0, 9)
    assert {b"PLAIN", b"AMQPLAIN"} <= set(start["mechanisms"].split())
    assert start["locales"] == b"en_US"
    properties = start["server_properties"]
    assert {"product", "version", "platform", "cluster_name", "copyright", "information"} <= set(properties)
    assert re.match(r"\d+\.\d+", properties["version"])
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


def test_plain_login(stranger: RawClient) -> None:
    start_ok_with(stranger, "PLAIN", "\0guest\0guest")
    stranger.expect(0, "connection.tune")


def test_amqplain_login(stranger: RawClient) -> None:
    # The response is a table without its length.
    start_ok_with(stranger, "AMQPLAIN", encode_table({"LOGIN": "guest", "PASSWORD": "guest"})[4:])
    stranger.expect(0, "connection.tune")


@pytest.mark.parametrize("mechanism", ["PLAIN", "AMQPLAIN"])
@pytest.mark.parametrize(("user", "password"), [("guest", "wrong"), ("nobody", "guest"), ("guest", "")])
def test_a_refused_login_is_explained_to_clients_that_understand(
    stranger: RawClient, mechanism: str, user: str, password: str
) -> None:
    table = encode_table({"LOGIN": user, "PASSWORD": password})[4:]
    start_ok_with(stranger, mechanism, f"\0{user}\0{password}" if mechanism == "PLAIN" else table)
    assert stranger.refusal() == Refusal(
        "connection",
        403,
        f"ACCESS_REFUSED - Login was refused using authentication mechanism {mechanism}. "
        "For details see the broker logfile.",
        0,
        0,
    )
    stranger.expect_eof()


def test_a_refused_login_is_only_cut_for_other_clients(stranger: RawClient) -> None:
    stranger.start()
    stranger.start_ok(password="wrong", capabilities={})
    stranger.expect_eof()


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [("UNKNOWN", b""), ("plain", b"\0guest\0guest"), ("PLAIN", b"guest"), ("AMQPLAIN", b"abc")],
)
def test_a_senseless_login_ends_the_connection(stranger: RawClient, mechanism: str, response: bytes) -> None:
    start_ok_with(stranger, mechanism, response)
    expect_no_progress(stranger)


def expect_no_progress(stranger: RawClient) -> None:
    """The broker must end the connection and may explain it, but must not go on with the handshake."""
    try:
        method = stranger.read()
    except ServerClosed:
        return
    assert method.name == "connection.close", method
    stranger.send(0, "connection.close-ok")
    stranger.expect_eof()


@pytest.mark.parametrize("locale", ["", "de_DE"])
def test_the_locale_is_not_looked_at(stranger: RawClient, locale: str) -> None:
    stranger.start()
    stranger.send(0, "connection.start-ok", mechanism="PLAIN", response="\0guest\0guest", locale=locale)
    stranger.expect(0, "connection.tune")


def test_large_client_properties_pass_below_the_early_bound(stranger: RawClient) -> None:
    stranger.start()
    properties = {"comment": "x" * (EARLY_PAYLOAD_MAX - 100)}
    stranger.send(0, "connection.start-ok", client_properties=properties, mechanism="PLAIN", response="\0guest\0guest")
    stranger.expect(0, "connection.tune")


def test_a_frame_above_the_early_bound_ends_the_connection(stranger: RawClient) -> None:
    stranger.start()
    properties = {"comment": "x" * (EARLY_PAYLOAD_MAX + 1)}
    stranger.send(0, "connection.start-ok", client_properties=properties, mechanism="PLAIN", response="\0guest\0guest")
    expect_no_progress(stranger)


def test_the_early_bound_is_judged_by_the_frame_head_alone(stranger: RawClient) -> None:
    stranger.start()
    stranger.send_bytes(struct.pack(">BHI", FRAME_METHOD, 0, 1 << 30))
    expect_no_progress(stranger)


@pytest.mark.parametrize(
    ("channel", "name"), [(0, "connection.open"), (0, "connection.tune-ok"), (1, "channel.open"), (0, "channel.open")]
)
def test_methods_before_login_end_the_connection(stranger: RawClient, channel: int, name: str) -> None:
    stranger.start()
    stranger.send(channel, name)
    expect_no_progress(stranger)


@pytest.mark.parametrize(("channel", "name"), [(0, "connection.open"), (1, "channel.open"), (0, "connection.start-ok")])
def test_methods_before_tune_ok_end_the_connection(stranger: RawClient, channel: int, name: str) -> None:
    tune_of(stranger)
    stranger.send(channel, name)
    expect_no_progress(stranger)


def test_tune_offers_limits(stranger: RawClient) -> None:
    assert tune_of(stranger).fields == {"channel_max": 2047, "frame_max": 131072, "heartbeat": 60}


@pytest.mark.parametrize("wishes", [{"frame_max": 4096}, {"channel_max": 1}, {"frame_max": 5000, "channel_max": 17}])
def test_the_client_may_ask_for_less(stranger: RawClient, wishes: dict[str, int]) -> None:
    stranger.tune_ok(tune_of(stranger), **wishes)
    stranger.call(0, "connection.open", virtual_host="/")
    stranger.open_channel(1)


@pytest.mark.parametrize(
    "wishes",
    [{"frame_max": 4095}, {"frame_max": 1}, {"frame_max": 131073}, {"channel_max": 2048}, {"channel_max": 65535}],
)
def test_the_client_may_not_ask_for_more_or_for_too_little(stranger: RawClient, wishes: dict[str, int]) -> None:
    stranger.tune_ok(tune_of(stranger), **wishes)
    stranger.send(0, "connection.open", virtual_host="/")
    expect_no_progress(stranger)


@pytest.mark.parametrize("wishes", [{"frame_max": 0}, {"channel_max": 0}])
def test_no_limit_at_all_is_more_than_the_broker_offers(stranger: RawClient, wishes: dict[str, int]) -> None:
    stranger.tune_ok(tune_of(stranger), **wishes)
    stranger.send(0, "connection.open", virtual_host="/")
    expect_no_progress(stranger)


@pytest.mark.parametrize("virtual_host", ["nowhere", ""])
def test_an_unknown_virtual_host(stranger: RawClient, virtual_host: str) -> None:
    stranger.tune_ok(tune_of(stranger))
    stranger.send(0, "connection.open", virtual_host=virtual_host)
    assert stranger.refusal() == Refusal("connection", 530, f"NOT_ALLOWED - vhost {virtual_host} not found", 10, 40)
    stranger.expect_eof()


def test_heartbeats_are_welcome_at_any_time(stranger: RawClient) -> None:
    stranger.start()
    stranger.send_frame(FRAME_HEARTBEAT, 0, b"")
    stranger.start_ok()
    tune = stranger.expect(0, "connection.tune")
    stranger.send_frame(FRAME_HEARTBEAT, 0, b"")
    stranger.tune_ok(tune)
    stranger.send_frame(FRAME_HEARTBEAT, 0, b"")
    stranger.call(0, "connection.open", virtual_host="/")


@pytest.mark.parametrize("name", ["connection.open", "connection.start-ok", "connection.tune-ok"])
def test_the_handshake_cannot_be_repeated(client: RawClient, name: str) -> None:
    client.send(0, name)
    refusal = client.refusal()
    assert refusal[:3] == ("connection", 504, "CHANNEL_ERROR - unexpected method in connection state running")
    assert (refusal.class_id, refusal.method_id) == METHODS[name][:2]
    client.expect_eof()


def test_the_secret_can_be_updated(client: RawClient) -> None:
    client.call(0, "connection.update-secret", new_secret="guest", reason="about to expire")
    client.call(1, "queue.declare", exclusive=True)


def own_address() -> str:
    """An address of this machine that is not loopback; connecting a datagram socket sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no address beside loopback")
        address: str = probe.getsockname()[0]
        return address


def test_guest_may_only_come_over_loopback(target: Target, tmp_path: Path) -> None:
    address = own_address()
    # RabbitMQ listens on every address already.
    with ExitStack() as stack:
        broker: Target | RestartableTarget = target
        if not ORACLE_IS_TARGET:
            broker = stack.enter_context(running_process(tmp_path, host="0.0.0.0"))
        stranger = stack.enter_context(RawClient(address, broker.port))
        stranger.start()
        stranger.start_ok()
        refusal = stranger.refusal()
    assert refusal[:2] == ("connection", 403)
    assert refusal.text.startswith("ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN")
