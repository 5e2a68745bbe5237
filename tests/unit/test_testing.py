"""leveret.testing: a real broker for users' tests, with `with`, `async with` and as a pytest fixture."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pika
import pytest

from leveret.errors import ConfigError, StartupError
from leveret.testing import Broker
from tests.conformance.raw_client import RawClient
from tests.conformance.server_process import free_port
from tests.unit.node.process import environment


def round_trip(url: str, body: bytes = b"hello") -> bytes | None:
    """Publishes and gets one message with pika."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.queue_declare("q")
    channel.basic_publish("", "q", body)
    _, _, got = channel.basic_get("q", auto_ack=True)
    connection.close()
    return got


def listens(broker: Broker) -> bool:
    try:
        socket.create_connection((broker.host, broker.port), timeout=1).close()
    except OSError:
        return False
    return True


def descriptors() -> set[str]:
    """What this process has open, without the descriptor that looks."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")
        except FileNotFoundError:
            continue
    return found


def test_a_broker_lives_as_long_as_its_block() -> None:
    with Broker() as broker:
        assert broker.host == "127.0.0.1"
        assert broker.url == f"amqp://guest:guest@127.0.0.1:{broker.port}/"
        assert round_trip(broker.url) == b"hello"
    assert not listens(broker)


def test_a_broker_lives_as_long_as_its_async_block_and_leaves_the_loop_free() -> None:
    async def live() -> Broker:
        async with Broker() as broker:
            assert await asyncio.to_thread(round_trip, broker.url) == b"hello"
            assert listens(broker)
        return broker

    assert not listens(asyncio.run(live()))


def test_an_error_in_the_block_stops_the_broker_and_is_raised() -> None:
    with pytest.raises(ZeroDivisionError), Broker() as broker:
        raise ZeroDivisionError
    assert not listens(broker)


def test_a_broker_starts_and_stops_in_no_time() -> None:
    with Broker():
        pass
    # Of this process alone: other work on the machine does not count.
    started = time.process_time()
    for _ in range(5):
        with Broker():
            pass
    assert (time.process_time() - started) / 5 < 1.0


def test_nothing_is_left_behind() -> None:
    with Broker() as broker:
        round_trip(broker.url)
    gc.collect()
    threads, open_before = set(threading.enumerate()), descriptors()
    for _ in range(3):
        with Broker() as broker:
            round_trip(broker.url)
            lingering = RawClient(broker.host, broker.port).log_in()
        lingering.socket.close()
    gc.collect()
    deadline = time.monotonic() + 5
    while set(threading.enumerate()) - threads and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not set(threading.enumerate()) - threads
    assert descriptors() <= open_before


def test_a_wrong_login_leaves_no_thread_behind() -> None:
    """The slow hash has a thread of its own; it goes with the broker."""
    threads = set(threading.enumerate())
    with Broker() as broker:
        client = RawClient(broker.host, broker.port)
        client.start()
        client.start_ok("guest", "wrong")
        assert client.refusal().code == 403
        client.socket.close()
    deadline = time.monotonic() + 5
    while set(threading.enumerate()) - threads and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not set(threading.enumerate()) - threads


def test_brokers_of_one_process_are_independent() -> None:
    with Broker() as one, Broker() as two:
        assert one.port != two.port
        connection = pika.BlockingConnection(pika.URLParameters(one.url))
        connection.channel().queue_declare("only-here")
        one.raise_alarm("memory")
        assert round_trip(two.url) == b"hello"
        assert two.call(lambda node: sorted(node.broker.vhosts["/"].queues)) == [b"q"]
        one.clear_alarm("memory")
        two.stop()
        assert connection.is_open
        assert one.call(lambda node: sorted(node.broker.vhosts["/"].queues)) == [b"only-here"]
        connection.close()


def test_a_broker_can_be_started_again() -> None:
    broker = Broker()
    for _ in range(2):
        with broker:
            assert round_trip(broker.url) == b"hello"
        assert not listens(broker)


def test_a_broker_can_come_back_on_its_old_port() -> None:
    """As users need to test how their program recovers."""
    port = free_port()
    with Broker({"listen.port": port}) as broker:
        client = RawClient(broker.host, broker.port).log_in()
    client.socket.close()
    with Broker({"listen.port": port}) as again:
        assert again.port == port
        assert round_trip(again.url) == b"hello"


def test_settings_are_those_of_the_configuration_file() -> None:
    with Broker({"limits.heartbeat_s": 3, "cluster_name": "mine"}) as broker:
        client = RawClient(broker.host, broker.port)
        assert client.start()["server_properties"]["cluster_name"] == "mine"
        client.start_ok()
        assert client.expect(0, "connection.tune")["heartbeat"] == 3
        client.socket.close()
    with pytest.raises(ConfigError, match=r"do you mean limits\.heartbeat_s"):
        Broker({"limits.hartbeat_s": 3})


def test_a_broker_that_cannot_start_says_why() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        broker = Broker({"listen.port": taken.getsockname()[1]})
        with pytest.raises(StartupError, match="Address already in use"):
            broker.start()
        broker.stop()


def test_an_ipv6_broker_has_a_url_that_clients_understand() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    with Broker({"listen.host": "::1"}) as broker:
        assert round_trip(broker.url) == b"hello"


def test_stopping_twice_or_before_the_start_is_no_error() -> None:
    broker = Broker()
    broker.stop()
    broker.start()
    broker.stop()
    broker.stop()


def test_one_can_look_inside_and_errors_come_back() -> None:
    with Broker() as broker:
        assert broker.call(lambda node: node.port) == broker.port
        assert broker.call(lambda node: threading.current_thread().name) == "leveret-broker"
        with pytest.raises(KeyError):
            broker.call(lambda node: node.broker.vhosts["nowhere"])


@pytest.mark.parametrize("started", [False, True])
def test_looking_inside_one_that_does_not_run_says_so(started: bool) -> None:
    broker = Broker()
    if started:
        with broker:
            pass
    with pytest.raises(AssertionError, match="the broker is not running"):
        broker.call(lambda node: node.port)


def test_connections_can_be_closed_as_an_operator_would() -> None:
    with Broker() as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        broker.close_connections("maintenance")
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
            connection.process_data_events(5)
        assert (closed.value.reply_code, closed.value.reply_text) == (320, "CONNECTION_FORCED - maintenance")
        assert round_trip(broker.url) == b"hello"


def test_a_broker_stops_while_clients_publish() -> None:
    broker = Broker().start()
    ended: list[BaseException] = []
    began = threading.Barrier(4, timeout=20)

    def publish() -> None:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = connection.channel()
        channel.queue_declare("q")
        began.wait()
        try:
            while True:
                channel.basic_publish("", "q", bytes(1000))
        except pika.exceptions.AMQPError as error:
            ended.append(error)

    threads = [threading.Thread(target=publish) for _ in range(3)]
    for thread in threads:
        thread.start()
    began.wait()
    time.sleep(0.1)
    started = time.monotonic()
    broker.stop()
    assert time.monotonic() - started < 30
    for thread in threads:
        thread.join(10)
    assert len(ended) == 3


def run_pytest(folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """A user's own test run, far from this project's settings."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "leveret.pytest_plugin", *flags, "."],
        cwd=folder,
        env=environment(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_fixture_gives_each_test_a_broker_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        """
import pika, pytest
ports = set()

@pytest.mark.parametrize("turn", [1, 2])
def test_mine(leveret_broker, turn):
    ports.add(leveret_broker.port)
    channel = pika.BlockingConnection(pika.URLParameters(leveret_broker.url)).channel()
    assert channel.queue_declare("q").method.message_count == 0
    channel.basic_publish("", "q", b"x")

def test_last():
    assert len(ports) == 2
"""
    )
    done = run_pytest(tmp_path, "-W", "ignore")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


def test_the_plugin_costs_nothing_where_it_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "test_other.py").write_text(
        "import sys\n\ndef test_other():\n    assert not {'leveret.node', 'uvloop', 'msgspec'} & set(sys.modules)\n"
    )
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_fixture_is_listed_with_its_words(tmp_path: Path) -> None:
    assert "leveret_broker" in run_pytest(tmp_path, "--fixtures").stdout
