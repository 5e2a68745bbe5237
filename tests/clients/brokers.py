"""The brokers that clients are run against: Leveret, and RabbitMQ as the control. Each is a process of its own with
AMQP, the stream protocol and the management API, which a test may stop, kill and start again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from tests.conformance.rabbitmq_node import running_rabbitmq
from tests.conformance.server_process import free_port
from tests.conformance.target import LeveretProcess
from tests.http_client import Api, name

KINDS: Final = ("leveret", "rabbitmq")
WAIT_SECONDS_MAX: Final = 60.0
# RabbitMQ writes what was declared a little later than it says so.
_SETTLE_SECONDS: Final = 3.0


class _Process(Protocol):
    port: int

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def kill(self) -> None: ...


class Broker:
    """A running broker with the user guest, and what its operator can do to it."""

    def __init__(self, kind: str, process: _Process, stream_port: int, management_port: int) -> None:
        self.kind = kind
        self._process = process
        self.url = f"amqp://guest:guest@127.0.0.1:{process.port}/%2f"
        self.stream_url = f"rabbitmq-stream://guest:guest@127.0.0.1:{stream_port}/%2f"
        self.api = Api(f"http://127.0.0.1:{management_port}")

    @property
    def version(self) -> tuple[int, ...]:
        """Major and minor, as the management API has them."""
        text = self.api.ask("GET", "/overview").body["rabbitmq_version"]
        return tuple(int(part) for part in text.split(".")[:2])

    def restart(self) -> None:
        """Ends the broker in good order, and starts it again."""
        self._process.stop()
        self._process.start()

    def kill(self) -> None:
        """Ends the broker as a power cut would, and starts it again."""
        if self.kind == "rabbitmq":
            time.sleep(_SETTLE_SECONDS)
        self._process.kill()
        self._process.start()

    def connections(self) -> set[str]:
        """The names of all connections, as the management API lists them."""
        reply = self.api.ask("GET", "/connections")
        assert reply.status == 200, reply
        # RabbitMQ lists some for a moment of which it knows nothing yet.
        return {found["name"] for found in reply.body if "name" in found}

    def some_connections(self) -> set[str]:
        """The same, as soon as there are some: RabbitMQ lists them with its next statistics."""
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while not (there := self.connections()):
            assert time.monotonic() < deadline, "the API lists no connection"
            time.sleep(0.2)
        return there

    def close_connections(self) -> None:
        """Closes every connection by the management API, and waits until those are gone."""
        there = self.some_connections()
        for connection in there:
            reply = self.api.ask("DELETE", f"/connections/{name(connection)}")
            assert reply.status == 204, (connection, reply)
        self.await_closed(there)

    def await_closed(self, connections: set[str]) -> None:
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while left := self.connections() & connections:
            assert time.monotonic() < deadline, f"still there: {left}"
            time.sleep(0.2)


@contextmanager
def running_broker(kind: str, directory: Path) -> Iterator[Broker]:
    stream_port, management_port = free_port(), free_port()
    if kind == "rabbitmq":
        configuration = (
            f"management.tcp.port = {management_port}\nmanagement.tcp.ip = 127.0.0.1\n"
            f"stream.listeners.tcp.1 = 127.0.0.1:{stream_port}\n"
            f"stream.advertised_host = 127.0.0.1\nstream.advertised_port = {stream_port}\n"
            # Connections are to be listed soon after they were made.
            "collect_statistics_interval = 500\n"
        )
        with running_rabbitmq(("rabbitmq_management", "rabbitmq_stream"), configuration) as node:
            yield Broker(kind, node, stream_port, management_port)
        return
    process = LeveretProcess(directory / "data", stream_port=stream_port, management_port=management_port)
    try:
        process.start()
        yield Broker(kind, process, stream_port, management_port)
    finally:
        process.stop()
