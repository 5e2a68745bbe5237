"""Rules of queues over restarts, and rules that change while much is on disk."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.amqp_codec import Value
from tests.conformance.own_broker import PERSISTENT, connected, of_queue, running
from tests.conformance.raw_client import RawClient
from tests.conformance.topology import drain, wait_for
from tests.contract.letters import Publisher, collect, collect_bodies, ready, reasons, wait_for_ready

DEAD_LETTERS: dict[str, Value] = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "grave"}
BACKLOG = 20_000
BODY = b"x" * 500
SEGMENT_BYTES = 64 * 1024
# An answer to another connection, while a queue lets go of its backlog.
ANSWER_SECONDS_MAX = 1.0
RSS_GROWTH_BYTES_MAX = 64 * 1024 * 1024


def declare(client: RawClient, queue: str, arguments: dict[str, Value] | None = None) -> None:
    client.call(1, "queue.declare", queue=queue, durable=True, arguments=arguments or {})


def return_first(client: RawClient, queue: str) -> int:
    """Takes a message and gives it back: how often it had been handed out before."""
    (letter,) = collect(client, queue, 1, no_ack=False)
    client.send(1, "basic.nack", delivery_tag=letter["delivery_tag"], requeue=True)
    count: int = letter.properties.get("headers", {}).get("x-delivery-count", 0)
    return count


# ---- over a restart


def test_deliveries_are_counted_over_restarts(tmp_path: Path) -> None:
    told = []
    for start in range(3):
        with running(tmp_path) as broker, connected(broker) as client:
            if start == 0:
                declare(client, "grave")
                declare(client, "q", {**DEAD_LETTERS, "x-delivery-limit": 3})
                Publisher(client).publish_all("q", b"1", b"2", **PERSISTENT)
            told.append(return_first(client, "q"))
            client.log_out()
    assert told == [0, 1, 2]
    with running(tmp_path) as broker, connected(broker) as client:
        assert return_first(client, "q") == 3
        (letter,) = collect(client, "grave", 1)
        assert (letter.body, reasons(letter)) == (b"1", [("q", "delivery_limit", 1)])
        assert return_first(client, "q") == 0


@pytest.mark.parametrize("by", ["argument", "policy", "message"])
def test_what_expired_while_the_broker_was_down(tmp_path: Path, by: str) -> None:
    """It is dead-lettered at the start; what was to live longer lives on."""
    with running(tmp_path) as broker, connected(broker) as client:
        declare(client, "grave")
        declare(client, "q", {**DEAD_LETTERS, **({"x-message-ttl": 300} if by == "argument" else {})})
        declare(client, "long", {**DEAD_LETTERS, "x-message-ttl": 60_000})
        if by == "policy":
            broker.call(lambda node: node.policies.put("/", "short", "^q$", {"message-ttl": 300}))
        publisher = Publisher(client)
        publisher.publish_all("q", b"1", b"2", **PERSISTENT, **({"expiration": "300"} if by == "message" else {}))
        publisher.publish_all("long", b"alive", **PERSISTENT)
    time.sleep(0.4)
    with running(tmp_path) as broker, connected(broker) as client:
        letters = collect(client, "grave", 2)
        assert [letter.body for letter in letters] == [b"1", b"2"]
        assert [reasons(letter) for letter in letters] == [[("q", "expired", 1)]] * 2
        assert (ready(client, "q"), drain(client, "long")) == (0, [b"alive"])


@pytest.mark.parametrize("by", ["argument", "policy"])
def test_a_time_to_live_goes_on(tmp_path: Path, by: str) -> None:
    """It counts from the publishing, whatever happened since, and holds for what comes now."""
    with running(tmp_path) as broker, connected(broker) as client:
        declare(client, "q", {"x-message-ttl": 5000} if by == "argument" else {})
        if by == "policy":
            broker.call(lambda node: node.policies.put("/", "short", "^q$", {"message-ttl": 5000}))
        began = time.monotonic()
        Publisher(client).publish_all("q", b"old", **PERSISTENT)
    with running(tmp_path) as broker, connected(broker) as client:
        count = ready(client, "q")
        # On a busy machine the restart may take longer than the message lives.
        assert count == 1 or time.monotonic() - began >= 4.9
        wait_for_ready(client, "q", 0)
        assert time.monotonic() - began >= 4.9
        Publisher(client).publish_all("q", b"new", **PERSISTENT)
        wait_for_ready(client, "q", 0)


@pytest.mark.parametrize("by", ["argument", "policy"])
def test_limits_go_on(tmp_path: Path, by: str) -> None:
    with running(tmp_path) as broker, connected(broker) as client:
        declare(client, "grave")
        declare(client, "q", {**DEAD_LETTERS, **({"x-max-length": 2} if by == "argument" else {})})
        declare(client, "full", {"x-max-length-bytes": 10, "x-overflow": "reject-publish"})
        if by == "policy":
            broker.call(lambda node: node.policies.put("/", "short", "^q$", {"max-length": 2}, operator=True))
        publisher = Publisher(client)
        publisher.publish_all("q", b"1", b"2", **PERSISTENT)
        publisher.publish_all("full", b"12345678", **PERSISTENT)
    with running(tmp_path) as broker, connected(broker) as client:
        publisher = Publisher(client)
        publisher.publish_all("q", b"3", **PERSISTENT)
        assert publisher.publish("full", b"123") == "nack"
        assert collect_bodies(client, "grave", 1) == [b"1"]
        assert drain(client, "q") == [b"2", b"3"]
        if by == "policy":
            assert broker.call(lambda node: node.policies.delete("/", "short", operator=True))
    with running(tmp_path) as broker, connected(broker) as client:
        Publisher(client).publish_all("q", b"1", b"2", b"3", **PERSISTENT)
        assert ready(client, "q") == (2 if by == "argument" else 3)


def test_an_unused_queue_goes_after_a_restart(tmp_path: Path) -> None:
    """The start counts as a use of it."""
    with running(tmp_path) as broker, connected(broker) as client:
        declare(client, "q", {"x-expires": 800})
        declare(client, "stays")
        Publisher(client).publish_all("q", b"1", **PERSISTENT)
    time.sleep(0.9)

    def is_there(broker: Any) -> bool:
        there: bool = broker.call(lambda node: b"q" in node.broker.vhosts["/"].queues)
        return there

    with running(tmp_path) as broker, connected(broker) as client:
        assert is_there(broker)
        wait_for("the end of the queue", lambda: not is_there(broker))
        assert ready(client, "stays") == 0
    with running(tmp_path) as broker:
        assert not is_there(broker)


def test_priorities_go_on(tmp_path: Path) -> None:
    with running(tmp_path) as broker, connected(broker) as client:
        declare(client, "q", {"x-max-priority": 3})
        publisher = Publisher(client)
        for priority in (1, 3, 0, 2, 3):
            publisher.publish_all("q", b"%d" % priority, priority=priority, **PERSISTENT)
    with running(tmp_path) as broker, connected(broker) as client:
        assert drain(client, "q") == [b"3", b"3", b"2", b"1", b"0"]


# ---- rules that change over a backlog on disk


def rss_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def publish_backlog(client: RawClient, queue: str, count: int = BACKLOG) -> None:
    client.call(1, "confirm.select")
    for number in range(count):
        client.publish(1, "", queue, b"%d " % number + BODY, PERSISTENT)
        if number % 1000 == 999:
            while client.expect(1, "basic.ack")["delivery_tag"] <= number:
                pass


@contextmanager
def asking(broker: Any, queue: str) -> Iterator[list[float]]:
    """Another connection asks for messages all the time: how long each answer took, in seconds."""
    answers: list[float] = []
    done = threading.Event()

    def ask() -> None:
        with connected(broker) as client:
            while not done.is_set():
                began = time.monotonic()
                client.call(1, "basic.get", queue=queue, no_ack=True)
                answers.append(time.monotonic() - began)
                time.sleep(0.002)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield answers
    finally:
        done.set()
        thread.join()


def watched(broker: Any, over: Callable[[], bool], change: Callable[[Any], Any] | None = None) -> None:
    """Makes a change and waits until its work is over, while another connection must have its answers."""
    before, most = rss_bytes(), 0

    def is_over() -> bool:
        nonlocal most
        most = max(most, rss_bytes())
        return over()

    with asking(broker, "other") as answers:
        began = time.monotonic()
        if change is not None:
            broker.call(change)
        called = time.monotonic() - began
        wait_for("the work to be over", is_over)
        took = time.monotonic() - began
        time.sleep(0.1)
    growth = most - before
    print(  # noqa: T201
        f"the call took {called:.3f} s, all {took:.2f} s, the longest of {len(answers)} answers {max(answers):.3f} s; "
        f"memory grew by {growth // 1024} KiB"
    )
    assert max(answers) < ANSWER_SECONDS_MAX
    assert growth < RSS_GROWTH_BYTES_MAX


def numbers_in(client: RawClient, queue: str) -> list[int]:
    return [int(body.split()[0]) for body in drain(client, queue)]


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.timeout(240)
@pytest.mark.parametrize("buried", [False, True], ids=["dropped", "buried"])
@pytest.mark.parametrize("definition", [{"max-length": 10}, {"max-length-bytes": 10 * 506}], ids=str)
def test_a_limit_that_comes_over_a_backlog(tmp_path: Path, definition: dict[str, int], buried: bool) -> None:
    """Each message that is too much is dropped or buried once, in order."""
    left = 10
    with running(tmp_path, storage__segment_bytes=SEGMENT_BYTES) as broker, connected(broker) as client:
        declare(client, "grave")
        declare(client, "other")
        declare(client, "q", DEAD_LETTERS if buried else {})
        publish_backlog(client, "q")
        watched(
            broker,
            lambda: (ready(client, "q"), ready(client, "grave")) == (left, (BACKLOG - left) * buried),
            lambda node: node.policies.put("/", "short", "^q$", definition),
        )
        assert numbers_in(client, "q") == list(range(BACKLOG - left, BACKLOG))
        if buried:
            assert numbers_in(client, "grave") == list(range(BACKLOG - left))
        client.log_out()
    with running(tmp_path, storage__segment_bytes=SEGMENT_BYTES) as broker, connected(broker) as client:
        assert (ready(client, "q"), ready(client, "grave")) == (0, 0)


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.timeout(240)
@pytest.mark.parametrize("buried", [False, True], ids=["dropped", "buried"])
def test_a_backlog_that_expired_while_the_broker_was_down(tmp_path: Path, buried: bool) -> None:
    with running(tmp_path, storage__segment_bytes=SEGMENT_BYTES) as broker, connected(broker) as client:
        declare(client, "grave")
        declare(client, "other")
        declare(client, "q", {**(DEAD_LETTERS if buried else {}), "x-message-ttl": 10_000})
        publish_backlog(client, "q")
        published = time.monotonic()
        assert ready(client, "q") == BACKLOG
    time.sleep(max(0.0, published + 10.1 - time.monotonic()))
    with running(tmp_path, storage__segment_bytes=SEGMENT_BYTES) as broker, connected(broker) as client:
        watched(broker, lambda: (ready(client, "q"), ready(client, "grave")) == (0, BACKLOG * buried))
        if buried:
            assert numbers_in(client, "grave") == list(range(BACKLOG))


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.timeout(240)
def test_a_limit_is_lifted_in_the_middle(tmp_path: Path) -> None:
    """What has not left yet stays, and nothing is lost or there twice."""
    with running(tmp_path, storage__segment_bytes=SEGMENT_BYTES) as broker, connected(broker) as client:
        declare(client, "grave")
        declare(client, "q", DEAD_LETTERS)
        publish_backlog(client, "q")
        broker.call(lambda node: node.policies.put("/", "short", "^q$", {"max-length": 0}))
        broker.call(lambda node: node.policies.delete("/", "short"))
        wait_for("every letter to be somewhere", lambda: ready(client, "q") + ready(client, "grave") == BACKLOG)
        buried = numbers_in(client, "grave")
        assert buried == list(range(len(buried)))
        assert numbers_in(client, "q") == list(range(len(buried), BACKLOG))
        assert of_queue(broker, "q", lambda queue: queue.dropped_total) == len(buried)
