"""A connection of the blocking face with a queue of its own, and a look at what is left behind."""

from __future__ import annotations

import itertools
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from leveret.client.blocking import Connection, connect
from leveret.client.topology import Queue
from tests.client.waiting import until_blocking

NAMES = itertools.count(1)


class Scene:
    """A connection, and an empty queue that is gone with it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.queue = f"blocking-{next(NAMES)}"
        connection.topology.declare(Queue(self.queue, durable=False, exclusive=True))

    @property
    def count(self) -> int:
        """Messages that wait in the queue."""
        return self.connection.topology.counts(self.queue).message_count

    def fill(self, *bodies: bytes | str) -> None:
        with self.connection.producer(routing_key=self.queue) as producer:
            producer.publish_batch(bodies)


def our_threads() -> list[str]:
    return sorted(
        thread.name for thread in threading.enumerate() if thread.name.startswith(("leveret-client", "leveret-handler"))
    )


@contextmanager
def scene_at(url: str) -> Iterator[Scene]:
    before = our_threads()
    with connect(url, deadline_s=10) as connection:
        yield Scene(connection)
    until_blocking(lambda: our_threads() == before)


def interrupt_soon(seconds: float = 0.2) -> threading.Thread:
    """Ctrl-C for the main thread."""

    def interrupt() -> None:
        time.sleep(seconds)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    return thread
