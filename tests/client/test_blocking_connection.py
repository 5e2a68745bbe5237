"""The blocking face: connections and channels for threads. What it does beneath is the asyncio client's business."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from leveret.client import (
    AlreadySettled,
    AuthenticationFailed,
    ChannelClosed,
    ClientClosed,
    ClientError,
    ConnectionFailed,
    DeadlineExceeded,
    InvalidUrl,
    StaleDelivery,
    State,
    events,
)
from leveret.client.blocking import Channel, Connection, connect
from leveret.testing import Broker
from leveret.wire.queue_methods import QueueDeclare, QueueDeclareOk, QueueDelete
from tests.client.waiting import until_blocking
from tests.unit.node.process import environment


@pytest.fixture
def connection(broker: Broker) -> Iterator[Connection]:
    with connect(broker.url) as connection:
        yield connection


def client_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "leveret-client"]


def fill(broker: Broker, queue: str, *bodies: bytes) -> None:
    """Messages in a fresh queue, by other means than the client."""
    import pika

    other = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = other.channel()
    channel.queue_delete(queue)
    channel.queue_declare(queue)
    for body in bodies:
        channel.basic_publish("", queue, body)
    other.close()


def test_a_channel_answers_and_messages_come(broker: Broker, connection: Connection) -> None:
    fill(broker, "b-get", b"one", b"two")
    with connection.channel() as channel:
        assert channel.is_open and channel.number == 1
        answer = channel.call(QueueDeclare("b-get"))
        assert isinstance(answer, QueueDeclareOk) and answer.message_count == 2
        first = channel.get("b-get")
        assert first is not None
        assert (first.body, first.routing_key, first.exchange, first.redelivered) == (b"one", "b-get", "", False)
        assert first.message_id is None and first.headers == {}
        first.ack()
        assert channel.get("b-get", no_ack=True) is not None
        assert channel.get("b-get") is None
        channel.prefetch(5)
        channel.confirm()
        channel.send(QueueDelete("b-get", nowait=True))
    assert not channel.is_open
    assert isinstance(channel.closed_by, ClientClosed)
    channel.close()


def test_what_a_connection_shows(broker: Broker, connection: Connection) -> None:
    assert connection.state is State.OPEN
    assert connection.address.port == broker.port
    assert connection.server_properties["leveret_version"]
    assert connection.options.deadline_s == 30
    assert connection.blocked is None
    assert repr(connection) == f"<blocking <Connection to {broker.host}:{broker.port}, open>>"
    connection.ready(1)


def test_the_brokers_no_is_raised_where_it_was_asked(connection: Connection) -> None:
    channel = connection.channel()
    with pytest.raises(ChannelClosed) as refused:
        channel.call(QueueDeclare("b-nothing", passive=True))
    assert refused.value.code == 404
    with pytest.raises(ChannelClosed):
        channel.get("b-nothing")
    assert connection.channel().is_open


def test_wrong_words_make_no_thread() -> None:
    before = client_threads()
    with pytest.raises(InvalidUrl):
        connect("http://localhost")
    with pytest.raises(TypeError, match="there is no option hearbeat"):
        connect("amqp://localhost", hearbeat=3)
    assert client_threads() == before


def test_who_is_not_let_in_leaves_no_thread(broker: Broker) -> None:
    before = client_threads()
    with pytest.raises(AuthenticationFailed):
        connect(f"amqp://guest:wrong@{broker.host}:{broker.port}/")
    with pytest.raises(ConnectionFailed) as failed:
        connect("amqp://127.0.0.1:1/")
    assert failed.value.attempts[0][0] == "127.0.0.1:1"
    assert client_threads() == before


def test_its_thread_ends_with_it(broker: Broker) -> None:
    before = client_threads()
    with connect(broker.url) as connection:
        assert len(client_threads()) == len(before) + 1
        channel = connection.channel()
    assert client_threads() == before
    assert connection.state is State.CLOSED
    connection.close()
    for call in (connection.channel, connection.ready, lambda: channel.call(QueueDeclare("b-late"))):
        with pytest.raises(ClientClosed):
            call()
    until_blocking(lambda: broker.call(lambda node: len(node.broker.connections)) == 0)


def test_many_threads_share_a_connection(broker: Broker, connection: Connection) -> None:
    shared = connection.channel()

    def work(number: int) -> int:
        name = f"b-shared-{number}"
        with connection.channel() as mine:
            for _ in range(20):
                mine.call(QueueDeclare(name))
                assert shared.call(QueueDeclare(name)).queue == name
            mine.call(QueueDelete(name))
        return mine.number

    with ThreadPoolExecutor(16) as pool:
        numbers = list(pool.map(work, range(16)))
    assert len(numbers) == 16 and shared.number not in numbers


def test_deliveries_are_settled_from_any_thread(broker: Broker, connection: Connection) -> None:
    fill(broker, "b-acks", *(b"%d" % number for number in range(100)))
    channel = connection.channel()
    deliveries = [channel.get("b-acks") for _ in range(100)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda delivery: delivery.ack(), deliveries))
    assert all(delivery is not None and delivery.is_settled for delivery in deliveries)
    channel.close()
    assert connection.channel().call(QueueDeclare("b-acks", passive=True)).message_count == 0


def test_only_one_of_many_threads_settles_a_delivery(broker: Broker, connection: Connection) -> None:
    fill(broker, "b-once", b"x")
    delivery = connection.channel().get("b-once")
    assert delivery is not None
    barrier = threading.Barrier(8)

    def settle(_: int) -> str:
        barrier.wait(5)
        try:
            delivery.ack()
        except AlreadySettled:
            return "late"
        return "first"

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(settle, range(8))) == ["first"] + ["late"] * 7


def test_what_is_not_done_goes_back(broker: Broker, connection: Connection) -> None:
    fill(broker, "b-back", b"x")
    channel = connection.channel()
    for settle in ("nack", "reject"):
        delivery = channel.get("b-back")
        assert delivery is not None
        getattr(delivery, settle)(requeue=True)
    delivery = channel.get("b-back")
    assert delivery is not None and delivery.redelivered
    channel.close()
    assert delivery.is_stale
    with pytest.raises(StaleDelivery):
        delivery.ack()


@contextmanager
def asleep(broker: Broker) -> Iterator[None]:
    """The broker does nothing until the block ends."""
    sleeping, awake = threading.Event(), threading.Event()

    def sleep(_: object) -> None:
        sleeping.set()
        awake.wait(100)

    thread = threading.Thread(target=broker.call, args=(sleep,))
    thread.start()
    try:
        assert sleeping.wait(60)
        yield
    finally:
        awake.set()
        thread.join()


def test_a_deadline_holds_although_the_broker_sleeps(broker: Broker, connection: Connection) -> None:
    channel = connection.channel()
    with asleep(broker):
        with pytest.raises(DeadlineExceeded, match=r"queue\.declare within 0\.2 s"):
            channel.call(QueueDeclare("b-slow"), deadline_s=0.2)
        with pytest.raises(DeadlineExceeded):
            connection.channel(deadline_s=0.2)
    assert connection.channel().is_open


def interrupt_soon() -> None:
    time.sleep(0.2)
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def test_an_interrupt_ends_the_call_and_nothing_goes_on(broker: Broker, connection: Connection) -> None:
    told = connection.events()
    threading.Thread(target=interrupt_soon).start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        next(told)
    assert time.monotonic() - started < 50
    assert connection.channel().is_open
    assert [task.get_name() for task in tasks_of(connection)] == ["leveret-connection"]


def test_an_interrupt_leaves_no_channel_behind(broker: Broker, connection: Connection) -> None:
    asleep = threading.Thread(target=broker.call, args=(lambda node: time.sleep(1),))
    asleep.start()
    threading.Thread(target=interrupt_soon).start()
    with pytest.raises(KeyboardInterrupt):
        connection.channel()
    asleep.join()
    until_blocking(lambda: channels_at(broker) == 0)
    assert connection.channel().is_open


def channels_at(broker: Broker) -> int:
    return broker.call(lambda node: sum(len(list(one.channels())) for one in node.broker.connections.values()))


def tasks_of(connection: Connection) -> list[object]:
    """What runs in the connection's loop, without the tasks that keep the thread and that look."""
    import asyncio

    bridge = connection._bridge
    loop = bridge._loop
    assert loop is not None
    return [
        task
        for task in bridge.do(asyncio.all_tasks, loop)
        if task.get_name().startswith("leveret-") and "Bridge.do" not in task.get_name()
    ]


def test_closing_ends_what_others_wait_for(broker: Broker) -> None:
    connection = connect(broker.url)
    ended: list[str] = []

    def listen() -> None:
        ended.extend(type(event).__name__ for event in connection.events())

    def ask() -> None:
        try:
            while True:
                connection.channel(deadline_s=5).close()
        except ClientError as error:
            ended.append(type(error).__name__)

    threads = [threading.Thread(target=work) for work in (listen, ask, ask)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    connection.close()
    for thread in threads:
        thread.join(5)
        assert not thread.is_alive()
    assert set(ended) <= {"Closed", "ClientClosed", "ConnectionLost"} and len(ended) >= 2


def test_it_comes_back_and_tells(broker: Broker) -> None:
    with connect(broker.url, backoff_min_s=0.01) as connection:
        told = connection.events()
        old = connection.channel()
        broker.close_connections()
        seen: list[object] = []
        for event in told:
            seen.append(type(event))
            if isinstance(event, events.Restored):
                break
        assert seen == [events.Lost, events.Connecting, events.Opened, events.Restored]
        assert connection.reconnects_total == 1
        assert not old.is_open
        assert connection.channel().is_open


def test_another_loop_can_be_asked_for(broker: Broker) -> None:
    import uvloop

    with connect(broker.url, loop_factory=uvloop.new_event_loop) as connection:
        assert isinstance(connection._bridge._loop, uvloop.Loop)
        assert connection.channel().is_open


def test_who_forgets_to_close_is_told_and_nothing_stays(broker: Broker) -> None:
    before = client_threads()
    forgotten: Channel | None = connect(broker.url).channel()
    gc.collect()
    assert forgotten is not None and forgotten.is_open
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        forgotten = None
        gc.collect()
        until_blocking(lambda: client_threads() == before)
    assert [str(one.message) for one in caught if one.category is ResourceWarning] == [
        f"<Connection to {broker.host}:{broker.port}, open> was not closed"
    ]


def run(script: str, broker: Broker) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", script, broker.url],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


FORGETFUL = """
import sys
from leveret.client.blocking import connect
connection = connect(sys.argv[1])
channel = connection.channel()
print("end")
"""


def test_a_program_that_forgets_it_ends_all_the_same(broker: Broker) -> None:
    started = time.monotonic()
    done = run(FORGETFUL, broker)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
    assert time.monotonic() - started < 10
    until_blocking(lambda: broker.call(lambda node: len(node.broker.connections)) == 0)


CONSUMING = """
import sys, threading, time
from leveret.client.blocking import connect
from leveret.client.topology import Queue
connection = connect(sys.argv[1])
connection.topology.declare(Queue("b-forgotten", durable=False))
connection.producer().publish(b"x", routing_key="b-forgotten")
consumer = connection.consumer("b-forgotten")
threading.Thread(target=consumer.run, args=(lambda delivery: None,), daemon=True).start()
while not consumer.acked:
    time.sleep(0.01)
print("end")
"""


def test_a_program_that_forgets_a_consumer_ends_all_the_same(broker: Broker) -> None:
    started = time.monotonic()
    done = run(CONSUMING, broker)
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr
    assert time.monotonic() - started < 10


def test_a_program_ends_although_the_broker_does_not_answer(broker: Broker) -> None:
    script = (
        FORGETFUL.replace("[1])", "[1], close_deadline_s=0.5)")
        + "import atexit; atexit.register(connection.close)\nsys.stdin.readline()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, broker.url], env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None and process.stdout is not None
    with process:
        assert process.stdout.readline() == b"end\n"
        with asleep(broker):
            process.stdin.write(b"\n")
            process.stdin.close()
            assert process.wait(60) == 0


FORKING = """
import os, sys
from leveret.client.blocking import connect
from leveret.client import ClientError
from leveret.wire.queue_methods import QueueDeclare
connection = connect(sys.argv[1])
channel = connection.channel()
child = os.fork()
if child == 0:
    for call in (connection.channel, lambda: channel.call(QueueDeclare("b-child"))):
        try:
            call()
        except ClientError as error:
            print(str(error).replace(str(os.getpid()), "C").replace(str(os.getppid()), "P"), flush=True)
    channel.close()
    connection.close()
    with connect(sys.argv[1]) as mine:
        print(mine.channel().is_open, flush=True)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
print(channel.call(QueueDeclare("b-parent")).queue)
connection.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_child_is_refused_and_its_parent_goes_on(broker: Broker) -> None:
    done = run(FORKING.replace("import os, sys", "import os, sys, warnings; warnings.simplefilter('ignore')"), broker)
    refusal = "the connection was made by process P, and this is its child C: connect again after a fork\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, refusal * 2 + "True\nb-parent\n", "")
