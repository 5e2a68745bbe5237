"""Celery with a real worker in a process of its own: tasks, results, retries, late acks, schedules, remote control."""

import os
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import kombu.pools
import pytest
from celery import Celery, chain, group, signature
from celery.canvas import Signature
from celery.exceptions import TaskRevokedError
from celery.exceptions import TimeoutError as CeleryTimeout
from celery.result import AsyncResult
from kombu import Consumer, Exchange, Queue
from kombu.message import Message

from tests.conformance import celery_tasks
from tests.conformance.raw_client import RawClient
from tests.conformance.server_process import end_process, spawn
from tests.conformance.target import Target
from tests.conformance.topology import unique_name, wait_for

pytestmark = pytest.mark.timeout(180)

WAIT_SECONDS_MAX = 60
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def app(target: Target, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Celery]:
    """The application, with a worker that serves its queue."""
    queue = unique_name("celery")
    directory = tmp_path_factory.mktemp("celery")
    log = directory / "worker.log"
    environment = {**os.environ, "CONFORMANCE_URL": target.url, "CONFORMANCE_QUEUE": queue, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "celery", "-A", "tests.conformance.celery_tasks", "worker"]
    command += ["--concurrency=2", "--loglevel=INFO", f"--hostname={queue}@%h"]
    worker = spawn(command, log, environment)
    application = celery_tasks.application(target.url, queue)
    try:
        wait_for("the worker to be ready", lambda: worker.poll() is not None or b" ready." in log.read_bytes())
        assert worker.poll() is None, log.read_text()
        yield application
    finally:
        # Celery keeps the connections of results and of producers open by itself.
        results = application.backend.binding.name
        application.backend.result_consumer.stop()
        application.close()
        kombu.pools.reset()
        end_process(worker)
        remove_leftovers(target, queue, results)


def remove_leftovers(target: Target, queue: str, results: str) -> None:
    """The reply queue that the worker makes for tasks it calls itself is left; it expires."""
    with RawClient(target.host, target.port) as client:
        client.log_in().open_channel(1)
        for name in (queue, results):
            client.call(1, "queue.delete", queue=name)
        exchanges = [queue, f"{queue}.events", f"{queue}.control.pidbox", f"reply.{queue}.control.pidbox"]
        for exchange in exchanges:
            client.call(1, "exchange.delete", exchange=exchange)


def task(app: Celery, name: str, *arguments: object) -> Signature:
    return signature(name, args=arguments, app=app)


def value(result: AsyncResult) -> object:
    return result.get(timeout=WAIT_SECONDS_MAX)


def test_results(app: Celery) -> None:
    results = [task(app, "add", number, 1).delay() for number in range(20)]
    assert [value(result) for result in results] == list(range(1, 21))


def test_a_failure_is_told(app: Celery) -> None:
    result = task(app, "fail", "of course").delay()
    with pytest.raises(ValueError, match="of course"):
        value(result)
    assert result.state == "FAILURE"


def test_retries(app: Celery) -> None:
    assert value(task(app, "retry-until", 3).delay()) == 3


def test_late_acks_survive_the_death_of_a_worker_process(app: Celery, tmp_path: Path) -> None:
    assert value(task(app, "die-once", str(tmp_path / "marker")).delay()) == "redelivered"


@pytest.mark.parametrize("schedule", ["countdown", "eta"])
def test_schedules(app: Celery, schedule: str) -> None:
    began = time.time()
    when = {"countdown": 1} if schedule == "countdown" else {"eta": datetime.now(UTC) + timedelta(seconds=1)}
    ran_at = value(task(app, "now").apply_async(**when))
    assert isinstance(ran_at, float)
    # The worker may wake a little early by the clock's grain.
    assert ran_at - began > 0.9


def test_chain(app: Celery) -> None:
    assert value(chain(task(app, "add", 1, 2), task(app, "add", 10), task(app, "add", 100)).delay()) == 113


def test_group(app: Celery) -> None:
    results = group(task(app, "add", number, number) for number in range(5)).delay()
    assert results.get(timeout=WAIT_SECONDS_MAX) == [0, 2, 4, 6, 8]


def test_chords_are_what_this_backend_cannot_do(app: Celery) -> None:
    """The rpc backend refuses them before it sends anything; that is Celery's word and not the broker's."""
    both = group([task(app, "add", 1, 1), task(app, "add", 2, 2)]) | task(app, "add", 1)
    with pytest.raises(NotImplementedError):
        both.delay()


def test_links(app: Celery) -> None:
    result = task(app, "add", 1, 1).apply_async(link=task(app, "add", 10))
    assert value(result) == 2


def test_expired_tasks_are_revoked(app: Celery) -> None:
    """Celery gives such a message 0 ms to live, so a worker that is busy just then never sees it."""
    for _ in range(5):
        result = task(app, "add", 1, 1).apply_async(expires=datetime.now(UTC) - timedelta(seconds=10))
        try:
            result.get(timeout=WAIT_SECONDS_MAX / 5)
        except CeleryTimeout:
            continue
        except TaskRevokedError as error:
            assert "expired" in str(error)
            return
    pytest.fail("no worker was told of a task that has expired")


def test_ping(app: Celery) -> None:
    answers = app.control.inspect(timeout=WAIT_SECONDS_MAX, limit=1).ping()
    assert answers
    assert list(answers.values()) == [{"ok": "pong"}]


def test_inspect_and_control(app: Celery) -> None:
    inspect = app.control.inspect(timeout=WAIT_SECONDS_MAX, limit=1)
    (registered,) = (inspect.registered() or {}).values()
    assert {"add", "fail", "now"} <= set(registered)
    (answer,) = app.control.rate_limit("now", "100/s", reply=True, timeout=WAIT_SECONDS_MAX, limit=1)
    assert next(iter(answer.values())) == {"ok": "new rate limit set successfully"}
    (queues,) = (inspect.active_queues() or {}).values()
    assert [queue["name"] for queue in queues] == [app.conf.task_default_queue]


def test_revoke(app: Celery) -> None:
    result = task(app, "now").apply_async(countdown=3)
    app.control.revoke(result.id, reply=True, timeout=WAIT_SECONDS_MAX, limit=1)
    with pytest.raises(Exception, match="revoked"):
        value(result)


def test_events(app: Celery) -> None:
    """The worker's events reach a listener through a topic exchange."""
    exchange = Exchange(app.conf.event_exchange, "topic")
    queue = Queue(unique_name("events"), exchange, routing_key="task.#", exclusive=True)
    seen: list[str] = []

    def keep(body: list[dict[str, Any]] | dict[str, Any], message: Message) -> None:
        # Events of tasks come in batches.
        seen.extend(event["type"] for event in (body if isinstance(body, list) else [body]))
        message.ack()

    with app.connection_for_read() as connection, Consumer(connection.channel(), [queue], callbacks=[keep]):
        app.control.enable_events(reply=True, timeout=WAIT_SECONDS_MAX, limit=1)
        value(task(app, "add", 1, 1).delay())
        while "task-succeeded" not in seen:
            connection.drain_events(timeout=WAIT_SECONDS_MAX)
        app.control.disable_events(reply=True, timeout=WAIT_SECONDS_MAX, limit=1)
    assert seen.index("task-received") < seen.index("task-succeeded")


def test_purge(app: Celery) -> None:
    assert app.control.purge() == 0
