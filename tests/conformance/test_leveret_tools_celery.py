"""Celery at work, seen through the management API: by Flower's own request, by `leveret`, and by hand."""

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kombu.pools
import pytest
from celery import Celery, signature

from leveret.testing import Broker
from tests.conformance import celery_tasks
from tests.conformance.command_line import ROOT, CommandLine
from tests.conformance.server_process import end_process, spawn
from tests.conformance.topology import wait_for
from tests.http_client import Api

pytestmark = pytest.mark.timeout(180)
QUEUE = "celery-seen"
TASKS = 5


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture(scope="module")
def app(broker: Broker) -> Iterator[Celery]:
    application = celery_tasks.application(broker.url, QUEUE)
    yield application
    application.close()
    kombu.pools.reset()


@pytest.fixture(scope="module")
def marker(broker: Broker, app: Celery, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A worker that holds one task, with others behind it, until the file is made."""
    directory = tmp_path_factory.mktemp("celery")
    log, file = directory / "worker.log", directory / "go-on"
    environment = {**os.environ, "CONFORMANCE_URL": broker.url, "CONFORMANCE_QUEUE": QUEUE, "PYTHONPATH": str(ROOT)}
    for _ in range(TASKS):
        signature("hold", args=(str(file),), app=app, ignore_result=True).delay()
    words = ["worker", "--concurrency=1", "--pool=solo", "--loglevel=INFO", f"--hostname={QUEUE}@%h"]
    worker = spawn([sys.executable, "-m", "celery", "-A", "tests.conformance.celery_tasks", *words], log, environment)
    try:
        wait_for("the worker to take a task", lambda: worker.poll() is not None or b"received" in log.read_bytes())
        assert worker.poll() is None, log.read_text()
        yield file
    finally:
        file.touch()
        end_process(worker)


def counts(row: dict[str, Any]) -> tuple[int, int, int, int]:
    return row["messages"], row["messages_ready"], row["messages_unacknowledged"], row["consumers"]


def test_depths_are_right_while_a_worker_holds_a_task(broker: Broker, marker: Path, tmp_path: Path) -> None:
    api = Api(broker)
    wait_for("the worker's queue", lambda: counts(api.get(f"/queues/%2F/{QUEUE}").body) == (5, 4, 1, 1))
    assert [counts(row) for row in api.get("/queues/%2F").body if row["name"] == QUEUE] == [(5, 4, 1, 1)]
    overview = api.get("/overview").body["queue_totals"]
    assert (overview["messages"], overview["messages_ready"], overview["messages_unacknowledged"]) == (5, 4, 1)
    leveret = CommandLine(tmp_path, ["--url", broker.management_url])
    (row,) = leveret("queues", "list", "--name", f"^{QUEUE}$", "-o", "json").json
    assert counts(row) == (5, 4, 1, 1)
    (held,) = leveret("queues", "unacked", QUEUE, "-o", "json").json
    assert held["user"] == "guest"


# The second is what Celery's own default address ends in; RabbitMQ knows no such path, and Flower shows nothing there.
@pytest.mark.parametrize("vhost", ["", "/"])
def test_flower(broker: Broker, marker: Path, vhost: str) -> None:
    from flower.utils import broker as flower

    async def asked() -> list[dict[str, Any]]:
        seen = flower.RabbitMQ(f"amqp://guest:guest@127.0.0.1/{vhost}", f"{broker.management_url}/api/")
        found: list[dict[str, Any]] = await seen.queues([QUEUE])
        return found

    # It gives up after two seconds, and answers with nothing then.
    (row,) = asyncio.run(asked())
    assert counts(row) == (5, 4, 1, 1)


def test_the_queue_runs_empty(broker: Broker, marker: Path) -> None:
    marker.touch()
    api = Api(broker)
    wait_for("the tasks to be done", lambda: counts(api.get(f"/queues/%2F/{QUEUE}").body) == (0, 0, 0, 1))
