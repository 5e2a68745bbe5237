"""Each fault does what it says, as a client and a real broker see it, and the proxy leaves nothing behind."""

import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

import pika
import pika.exceptions
import pytest

from leveret.testing import Broker
from tests.client.faults import OPAQUE, Action, When
from tests.client.leaks import no_leaks
from tests.client.proxy import (
    CUT,
    HALF_OPEN,
    RESET,
    Proxy,
    Step,
)
from tests.client.proxy_scene import (
    TALK,
    WAIT_S,
    Connect,
    broker_connections,
    declare,
    declare_ok_bytes,
    expect_gone,
    has_queue,
    octets_forwarded,
    talk,
)
from tests.conformance.raw_client import RawClient, ServerClosed
from tests.unit.session.clients import eventually

# What passes when nothing is armed


def test_a_session_passes_and_its_steps_are_known(proxy: Proxy, broker: Broker) -> None:
    assert proxy.steps() == []
    talk(proxy)
    assert [(step.side, step.name) for step in proxy.steps()] == TALK
    assert proxy.accepted_total == 1
    expect_gone(proxy, broker)


def test_pika_works_through_it(proxy: Proxy, broker: Broker) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(proxy.url))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("pika", exclusive=True)
    for number in range(3):
        channel.basic_publish("", "pika", b"%d" % number, mandatory=True)
    assert [channel.basic_get("pika", auto_ack=True)[2] for _ in range(3)] == [b"0", b"1", b"2"]
    assert proxy.connections == 1
    connection.close()
    assert Step("client", "body", nth=3) in proxy.steps()
    expect_gone(proxy, broker)


def test_ten_megabytes_arrive_unchanged(proxy: Proxy, connect: Connect) -> None:
    client = connect()
    client.call(1, "queue.declare", queue="large", exclusive=True)
    client.call(1, "basic.consume", queue="large", no_ack=True)
    bodies = [os.urandom(1 << 20) for _ in range(10)]
    for body in bodies:
        client.publish(1, "", "large", body)
        assert client.expect(1, "basic.deliver").body == body


def test_octets_that_are_no_frames_pass_too(proxy: Proxy) -> None:
    with RawClient(proxy.host, proxy.port) as client:
        client.send_bytes(b"GET / HTTP/1.1\r\n\r\n")
        assert client.read_bytes(8) == b"AMQP\x00\x00\x09\x01"
        client.expect_eof()
    assert proxy.steps() == [Step("client", OPAQUE), Step("server", "protocol-header")]


def test_half_a_frame_is_forwarded_when_its_sender_closes(proxy: Proxy) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        proxy.target = server.getsockname()
        with socket.create_connection((proxy.host, proxy.port)) as client:
            client.sendall(b"\x01\x00\x00\x00\x00\x00\x04\x00")
        with server.accept()[0] as accepted:
            accepted.settimeout(WAIT_S)
            assert accepted.recv(100) == b"\x01\x00\x00\x00\x00\x00\x04\x00"
            assert accepted.recv(100) == b""


# An end at every step


@pytest.mark.parametrize("when", ["before", "middle", "after"])
@pytest.mark.parametrize("action", [CUT, RESET], ids=lambda action: action.name)
def test_an_end_at_every_step(action: Action, when: When, proxy: Proxy, broker: Broker) -> None:
    talk(proxy)
    recorded = proxy.steps()
    for step in recorded:
        struck = proxy.at(replace(step, when=when), action)
        last = step == recorded[-1] and when == "after"
        try:
            talk(proxy)
        except (ServerClosed, ConnectionError):
            assert not last
        else:
            assert last, step
        assert struck.wait(WAIT_S), step
        passed = [(seen.side, seen.name) for seen in proxy.steps()]
        assert passed[-1] == (step.side, step.name)
        assert passed == TALK[: len(passed)]
        expect_gone(proxy, broker)


@pytest.mark.parametrize(("when", "declared"), [("before", False), ("middle", False), ("after", True)])
@pytest.mark.parametrize("action", [CUT, RESET], ids=lambda action: action.name)
def test_only_what_was_forwarded_is_done(
    action: Action, when: When, declared: bool, proxy: Proxy, broker: Broker, connect: Connect
) -> None:
    client = connect()
    struck = proxy.at(Step("client", "queue.declare", nth=2, when=when), action)
    client.call(1, "queue.declare", queue="first")
    client.send(1, "queue.declare", queue="second")
    assert struck.wait(WAIT_S)
    expect_gone(proxy, broker)
    assert has_queue(broker, "first")
    assert has_queue(broker, "second") is declared
    client = connect()
    for queue in ("first", "second"):
        client.call(1, "queue.delete", queue=queue)


@pytest.mark.parametrize("when", ["before", "middle", "after"])
def test_the_client_gets_so_much_of_the_frame_and_then_the_end(when: When, proxy: Proxy, connect: Connect) -> None:
    client = connect()
    proxy.at(Step("server", "queue.declare-ok", when=when), CUT)
    declare(client, "abc")
    received = b""
    while chunk := client.socket.recv(100):
        received += chunk
    assert len(received) == octets_forwarded(when, declare_ok_bytes("abc"))


def test_a_cut_ends_in_good_order_and_a_reset_does_not(proxy: Proxy, connect: Connect) -> None:
    for _ in range(20):
        client = connect()
        proxy.at(Step("client", "basic.publish"), CUT)
        # More than is read before the cut: closing with octets unread would reset.
        client.publish(1, "", "nowhere", bytes(100_000))
        assert client.socket.recv(1) == b""
    client = connect()
    proxy.at(Step("client", "basic.publish"), RESET)
    client.send(1, "basic.publish", routing_key="nowhere")
    with pytest.raises(ConnectionResetError):
        client.socket.recv(1)


@pytest.mark.parametrize("action", [CUT, RESET], ids=lambda action: action.name)
def test_pika_loses_its_connection(action: Action, proxy: Proxy, broker: Broker) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(proxy.url))
    channel = connection.channel()
    struck = proxy.at(Step("server", "queue.declare-ok"), action)
    with pytest.raises(pika.exceptions.StreamLostError):
        channel.queue_declare("pika", exclusive=True)
    assert struck.is_set()
    assert connection.is_closed
    expect_gone(proxy, broker)


def test_a_fault_strikes_once_and_counts_over_connections(proxy: Proxy, connect: Connect) -> None:
    struck = proxy.at(Step("client", "connection.open", nth=2), RESET)
    connect()
    assert not struck.is_set()
    with pytest.raises(ServerClosed):
        connect()
    assert struck.is_set()
    connect()
    assert proxy.accepted_total == 3


def test_faults_can_be_disarmed(proxy: Proxy) -> None:
    struck = proxy.at(Step("client", "connection.open"), RESET)
    proxy.disarm()
    talk(proxy)
    assert not struck.is_set()


# All connections at once


@pytest.mark.parametrize("end", [Proxy.cut_all, Proxy.reset_all])
def test_all_connections_end(end: Callable[[Proxy], None], proxy: Proxy, broker: Broker, connect: Connect) -> None:
    clients = [connect() for _ in range(5)]
    assert (proxy.connections, broker_connections(broker)) == (5, 5)
    end(proxy)
    assert proxy.connections == 0
    for client in clients:
        if end is Proxy.reset_all:
            with pytest.raises(ConnectionResetError):
                client.socket.recv(1)
        else:
            assert client.socket.recv(1) == b""
    expect_gone(proxy, broker)
    connect()
    assert (proxy.connections, proxy.accepted_total) == (1, 6)


def test_a_freeze_holds_old_and_new_connections(proxy: Proxy, broker: Broker, connect: Connect) -> None:
    client = connect()
    proxy.freeze()
    declare(client, "frozen")
    with RawClient(proxy.host, proxy.port) as newcomer:
        newcomer.send_bytes(b"AMQP\x00\x00\x09\x01")
        newcomer.expect_quiet()
        client.expect_quiet()
        assert not has_queue(broker, "frozen")
        assert (proxy.connections, broker_connections(broker)) == (2, 1)
        proxy.thaw()
        newcomer.expect(0, "connection.start")
        client.expect(1, "queue.declare-ok")


def test_a_frozen_connection_can_be_ended(proxy: Proxy, broker: Broker, connect: Connect) -> None:
    client = connect()
    proxy.freeze()
    declare(client, "frozen")
    proxy.reset_all()
    with pytest.raises(ConnectionResetError):
        client.socket.recv(1)
    expect_gone(proxy, broker)
    assert not has_queue(broker, "frozen")


def test_refused_and_then_not(proxy: Proxy, connect: Connect) -> None:
    client = connect()
    proxy.refuse = True
    assert proxy.refuse
    for _ in range(3):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((proxy.host, proxy.port), timeout=WAIT_S)
    client.call(1, "queue.declare", queue="open", exclusive=True)
    proxy.refuse = False
    talk(proxy)
    assert proxy.accepted_total == 2


def test_a_proxy_can_start_refusing(broker: Broker) -> None:
    proxy = Proxy((broker.host, broker.port))
    proxy.refuse = True
    with proxy:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((proxy.host, proxy.port), timeout=WAIT_S)
        proxy.refuse = False
        talk(proxy)


def test_hung_up_on(proxy: Proxy) -> None:
    proxy.hang_up = True
    with socket.create_connection((proxy.host, proxy.port), timeout=WAIT_S) as client:
        assert client.recv(1) == b""
    assert (proxy.accepted_total, proxy.connections) == (1, 0)
    proxy.hang_up = False
    talk(proxy)


def test_a_black_hole_takes_all_and_gives_nothing(proxy: Proxy, broker: Broker) -> None:
    proxy.blackhole = True
    with RawClient(proxy.host, proxy.port) as client:
        client.send_bytes(b"AMQP\x00\x00\x09\x01" + bytes(10_000_000))
        client.expect_quiet()
        assert (proxy.connections, broker_connections(broker)) == (1, 0)
        proxy.blackhole = False
        client.expect_quiet()
        talk(proxy)
    expect_gone(proxy, broker)


def test_the_target_can_change(proxy: Proxy, broker: Broker, connect: Connect) -> None:
    first = connect()
    with Broker() as second:
        proxy.target = (second.host, second.port)
        other = connect()
        assert (broker_connections(broker), broker_connections(second)) == (1, 1)
        first.call(1, "channel.close")
        other.log_out()
    # Nobody is there: the reset may come even before the connect is through.
    with pytest.raises((ServerClosed, ConnectionResetError)):
        connect()
    proxy.target = (broker.host, broker.port)
    talk(proxy)


def test_the_broker_notices_a_reset_right_behind_octets(proxy: Proxy, broker: Broker, connect: Connect) -> None:
    client = connect()
    struck = proxy.at(Step("client", "queue.declare", when="middle"), RESET)
    is_busy = threading.Event()

    def see_both_at_once(node: object) -> None:
        is_busy.set()
        struck.wait(WAIT_S)
        time.sleep(0.2)

    busy = threading.Thread(target=broker.call, args=(see_both_at_once,))
    busy.start()
    assert is_busy.wait(WAIT_S)
    declare(client, "reset")
    client.expect_eof()
    busy.join()
    eventually(lambda: broker_connections(broker) == 0, "the broker has no connections", seconds=60)


def test_a_client_that_resets_is_reset_at_the_broker(proxy: Proxy, broker: Broker, connect: Connect) -> None:
    client = connect()
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    client.socket.close()
    expect_gone(proxy, broker)


# What is left afterwards


def test_nothing_is_left_behind(broker: Broker) -> None:
    eventually(lambda: broker_connections(broker) == 0)
    with no_leaks():
        for _ in range(10):
            with ExitStack() as stack:
                proxy = stack.enter_context(Proxy((broker.host, broker.port)))
                clients = [stack.enter_context(RawClient(proxy.host, proxy.port)) for _ in range(5)]
                for client in clients[:3]:
                    client.log_in()
                proxy.at(Step("client", "channel.open"), HALF_OPEN)
                clients[0].send(1, "channel.open")
                proxy.at(Step("client", "connection.close"), CUT)
                clients[1].send(0, "connection.close", reply_code=200, reply_text="bye")
                proxy.freeze()
                proxy.blackhole = True
                stack.enter_context(RawClient(proxy.host, proxy.port))
                proxy.stop()
        eventually(lambda: broker_connections(broker) == 0)


def test_it_may_be_stopped_at_any_moment(broker: Broker) -> None:
    for _ in range(50):
        with Proxy((broker.host, broker.port)) as proxy:
            client = socket.create_connection((proxy.host, proxy.port))
        client.close()


def test_a_mistake_in_the_proxy_is_not_hidden() -> None:
    proxy = Proxy(("127.0.0.1", 1 << 20))
    proxy.start()
    with RawClient(proxy.host, proxy.port) as client:
        client.expect_eof()
    with pytest.raises(ExceptionGroup):
        proxy.stop()
