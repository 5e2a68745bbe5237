"""The Celery application that the tests and their worker share. The worker runs it in a process of its own:
`celery -A tests.conformance.celery_tasks worker`, with the broker's address and the queue's name in the environment."""

import os
import time
from pathlib import Path
from typing import Any

from celery import Celery, Task


def application(url: str, queue: str) -> Celery:
    app = Celery("conformance", broker=url, backend="rpc://")
    app.conf.update(
        task_default_queue=queue,
        task_default_exchange=queue,
        task_default_routing_key=queue,
        task_queue_max_priority=None,
        result_expires=60,
        result_persistent=False,
        worker_prefetch_multiplier=1,
        worker_hijack_root_logger=False,
        broker_connection_retry_on_startup=True,
        broker_connection_timeout=10,
        task_publish_retry_policy={"max_retries": 5, "interval_start": 0.1},
        control_exchange=f"{queue}.control",
        event_exchange=f"{queue}.events",
        timezone="UTC",
    )
    return app


app = application(os.environ.get("CONFORMANCE_URL", "amqp://"), os.environ.get("CONFORMANCE_QUEUE", "conformance"))


@app.task(name="add")
def add(x: int, y: int) -> int:
    return x + y


@app.task(name="fail")
def fail(text: str) -> None:
    raise ValueError(text)


@app.task(name="retry-until", bind=True, max_retries=5)
def retry_until(self: Task, wanted: int) -> int:
    """Succeeds at this attempt."""
    if self.request.retries < wanted:
        raise self.retry(countdown=0.1)
    attempts: int = self.request.retries
    return attempts


@app.task(name="die-once", bind=True, acks_late=True, reject_on_worker_lost=True)
def die_once(self: Task, marker: str) -> str:
    """The first attempt takes its process down with the message unacknowledged; the second finds the marker."""
    if not Path(marker).exists():
        Path(marker).write_text("was here")
        os._exit(1)
    info: dict[str, Any] = self.request.delivery_info
    return "redelivered" if info["redelivered"] else "delivered"


@app.task(name="now")
def now() -> float:
    return time.time()


@app.task(name="hold", acks_late=True)
def hold(marker: str) -> None:
    """Takes until somebody makes the file; its message is unacknowledged so long."""
    while not Path(marker).exists():
        time.sleep(0.05)
