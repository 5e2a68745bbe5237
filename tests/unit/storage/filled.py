"""A broker with a queue `orders` and a stream `visits` whose segments are small, so that few messages fill several."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika

from leveret.testing import Broker

PERSISTENT = pika.BasicProperties(delivery_mode=2)
STREAM = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 65536}
BODY = b"x" * 600


def settings(root: Path) -> dict[str, object]:
    return {"data_dir": str(root), "storage.segment_bytes": 65536}


@contextmanager
def channel_of(broker: Broker) -> Iterator[Any]:
    """One that confirms; the queue and the stream are there."""
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("orders", durable=True)
    channel.queue_declare("visits", durable=True, arguments=STREAM)
    yield channel
    connection.close()


def fill(channel: Any, count: int = 400) -> None:
    """So many into both; a body starts with its number, four digits."""
    for number in range(count):
        for queue in ("orders", "visits"):
            channel.basic_publish("", queue, b"%04d" % number + BODY, PERSISTENT)


def waited(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "waited 20 s"
        time.sleep(0.01)
