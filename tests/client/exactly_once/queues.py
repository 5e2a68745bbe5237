"""What a test asks of queues directly, with a client that is not ours: pika."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel


@contextmanager
def opened(url: str) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(url))
    try:
        yield connection.channel()
    finally:
        connection.close()


def declare(url: str, *names: str, **arguments: Any) -> None:
    with opened(url) as channel:
        for name in names:
            channel.queue_declare(name, durable=True, arguments={f"x-{key}".replace("_", "-"): value
                                                                 for key, value in arguments.items()})  # fmt: skip


def take_all(url: str, name: str) -> list[tuple[pika.BasicProperties, bytes]]:
    """Everything in the queue, in order."""
    found = []
    with opened(url) as channel:
        while True:
            method, properties, body = channel.basic_get(name, auto_ack=True)
            if method is None:
                return found
            found.append((properties, body))


def bodies(url: str, name: str) -> list[str]:
    return [body.decode() for _, body in take_all(url, name)]


def publish(url: str, name: str, body: str, **properties: Any) -> None:
    with opened(url) as channel:
        channel.basic_publish("", name, body.encode(), pika.BasicProperties(delivery_mode=2, **properties))


def depth(url: str, name: str) -> int:
    with opened(url) as channel:
        return int(channel.queue_declare(name, passive=True).method.message_count)
