"""Faults with which a connection lives on: each does what it says, as a client and a real broker see it."""

import time

import pika
import pika.exceptions
import pytest

from leveret.testing import Broker
from leveret.wire.codec import encode_method
from leveret.wire.connection_methods import ConnectionBlocked
from tests.client.faults import Side, When
from tests.client.proxy import (
    DROP_FRAME,
    GARBAGE,
    HALF_OPEN,
    SEND,
    SLOW,
    STALL_READING,
    STALL_SERVER,
    Proxy,
    Step,
)
from tests.client.proxy_scene import (
    WAIT_S,
    Connect,
    broker_connections,
    declare,
    declare_ok_bytes,
    expect_gone,
    has_queue,
    octets_forwarded,
)
from tests.conformance.raw_client import RawClient, ServerClosed
from tests.unit.session.clients import eventually


@pytest.mark.parametrize("when", ["before", "middle", "after"])
@pytest.mark.parametrize(("side", "name"), [("client", "queue.declare"), ("server", "queue.declare-ok")])
def test_half_open_is_silent_until_it_thaws(
    side: Side, name: str, when: When, proxy: Proxy, broker: Broker, connect: Connect
) -> None:
    client = connect()
    struck = proxy.at(Step(side, name, when=when), HALF_OPEN)
    declare(client, "pulled")
    assert struck.wait(WAIT_S)
    if (side, when) == ("server", "after"):
        client.expect(1, "queue.declare-ok")
    client.send(1, "channel.close")
    time.sleep(0.2)
    part = b""
    if (side, when) == ("server", "middle"):
        part = client.socket.recv(100)
        assert len(part) == octets_forwarded(when, declare_ok_bytes("pulled"))
    client.expect_quiet()
    client.received = part
    assert (proxy.connections, broker_connections(broker)) == (1, 1)
    assert has_queue(broker, "pulled") is ((side, when) in [("server", when), ("client", "after")])
    proxy.thaw()
    if (side, when) != ("server", "after"):
        client.expect(1, "queue.declare-ok")
    client.expect(1, "channel.close-ok")


def test_a_half_open_connection_misses_its_heartbeats(proxy: Proxy, broker: Broker) -> None:
    struck = proxy.at(Step("server", "heartbeat"), HALF_OPEN)
    with RawClient(proxy.host, proxy.port) as client:
        client.log_in(heartbeat=1)
        assert struck.wait(WAIT_S)
        eventually(lambda: broker_connections(broker) == 0, "the broker has given the connection up")
        client.expect_quiet()
        assert proxy.connections == 1
        proxy.thaw()
        with pytest.raises(ServerClosed):
            while client.read_frame():
                pass


def test_slow_limits_both_ways(proxy: Proxy, connect: Connect) -> None:
    client = connect()
    client.call(1, "queue.declare", queue="slow", exclusive=True)
    struck = proxy.at(Step("client", "basic.publish"), SLOW(40_000))
    began = time.monotonic()
    client.publish(1, "", "slow", bytes(20_000))
    got = client.call(1, "basic.get", queue="slow", no_ack=True)
    assert time.monotonic() - began > 2 * 20_000 / 40_000 * 0.9
    assert got.body == bytes(20_000)
    assert struck.is_set()
    proxy.slow_all(0)
    client.publish(1, "", "slow", bytes(10_000_000))
    assert len(client.call(1, "basic.get", queue="slow", no_ack=True).body) == 10_000_000


def test_all_can_be_slow(proxy: Proxy, connect: Connect) -> None:
    client = connect()
    proxy.slow_all(200)
    began = time.monotonic()
    client.call(1, "queue.declare", queue="slow", exclusive=True)
    assert time.monotonic() - began > 0.1


def test_stalled_reading_fills_the_clients_buffer(proxy: Proxy, connect: Connect) -> None:
    client, other = connect(), connect()
    client.call(1, "queue.declare", queue="stalled", exclusive=False, auto_delete=True)
    client.call(1, "basic.consume", queue="stalled", no_ack=True)
    struck = proxy.at(Step("client", "basic.publish", when="after"), STALL_READING)
    client.socket.settimeout(0.3)
    with pytest.raises(TimeoutError):
        client.publish(1, "", "nowhere", bytes(20_000_000))
    assert struck.is_set()
    client.socket.settimeout(WAIT_S)
    # The other way is open.
    other.publish(1, "", "stalled", b"still")
    assert client.expect(1, "basic.deliver").body == b"still"


def test_a_stalled_server_is_not_read(proxy: Proxy, broker: Broker, connect: Connect) -> None:
    client = connect()
    struck = proxy.at(Step("server", "queue.declare-ok"), STALL_SERVER)
    declare(client, "stalled")
    assert struck.wait(WAIT_S)
    declare(client, "also")
    eventually(lambda: has_queue(broker, "also"), "the client is still heard")
    client.expect_quiet()
    proxy.thaw()
    for _ in range(2):
        client.expect(1, "queue.declare-ok")


def test_a_dropped_frame_is_lost_and_the_next_is_not(proxy: Proxy, broker: Broker, connect: Connect) -> None:
    client = connect()
    struck = proxy.at(Step("server", "queue.declare-ok"), DROP_FRAME)
    declare(client, "dropped")
    assert client.call(1, "queue.declare", queue="kept", exclusive=True)["queue"] == "kept"
    assert struck.is_set() and has_queue(broker, "dropped")
    proxy.at(Step("client", "queue.declare"), DROP_FRAME)
    declare(client, "never")
    assert client.call(1, "queue.declare", queue="again", exclusive=True)["queue"] == "again"
    assert not has_queue(broker, "never")


def test_a_torn_frame_breaks_the_stream(proxy: Proxy, broker: Broker, connect: Connect) -> None:
    client = connect()
    proxy.at(Step("client", "queue.declare", when="middle"), DROP_FRAME)
    declare(client, "torn")
    for _ in range(20):
        declare(client, "after")
    refusal = client.expect_end()
    assert refusal is None or refusal.code == 501
    assert not has_queue(broker, "torn")


@pytest.mark.parametrize("when", ["before", "middle", "after"])
@pytest.mark.parametrize(("side", "name"), [("client", "queue.declare"), ("server", "queue.declare-ok")])
def test_garbage_reaches_the_client(side: Side, name: str, when: When, proxy: Proxy, connect: Connect) -> None:
    client = connect()
    struck = proxy.at(Step(side, name, when=when), GARBAGE)
    declare(client, "abc")
    ahead = octets_forwarded(when, declare_ok_bytes("abc")) if side == "server" else 0
    # When all of the declare is forwarded, its answer may come first.
    received = client.read_bytes(ahead + len(GARBAGE.octets))
    assert received[ahead:] == GARBAGE.octets or (side, when) == ("client", "after")
    assert struck.is_set()
    assert proxy.connections == 1


def test_the_client_gets_what_the_server_never_said(proxy: Proxy, connect: Connect) -> None:
    client = connect()
    blocked = encode_method(0, ConnectionBlocked(reason="for a test"))
    proxy.at(Step("server", "queue.declare-ok", when="after"), SEND(blocked))
    declare(client, "told")
    client.expect(1, "queue.declare-ok")
    assert client.expect(0, "connection.blocked")["reason"] == "for a test"
    client.call(1, "channel.close")


def test_pika_does_not_take_garbage(proxy: Proxy, broker: Broker) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(proxy.url))
    channel = connection.channel()
    proxy.at(Step("server", "queue.declare-ok"), GARBAGE)
    with pytest.raises(pika.exceptions.AMQPError):
        channel.queue_declare("pika", exclusive=True)
    expect_gone(proxy, broker)
