"""What the suite runs against: Leveret, or RabbitMQ as the oracle, behind one face.

`LEVERET_CONFORMANCE_TARGET=rabbitmq` chooses the oracle; anything else is Leveret in a thread of the test process."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

from tests.conformance.rabbitmq_node import RabbitNode, running_rabbitmq
from tests.conformance.server_process import end_process, free_port, kill_process, spawn, wait_until_serving

ORACLE_IS_TARGET: Final = os.environ.get("LEVERET_CONFORMANCE_TARGET", "leveret") == "rabbitmq"


class Target(Protocol):
    """A running broker with the user guest, password guest, virtual host /."""

    host: str
    port: int

    @property
    def url(self) -> str: ...

    def close_connections(self) -> None:
        """Makes the broker close every client connection, as an operator would."""

    def raise_memory_alarm(self) -> None: ...

    def clear_memory_alarm(self) -> None: ...

    def set_policy(
        self,
        name: str,
        pattern: str,
        definition: dict[str, Any],
        *,
        priority: int = 0,
        apply_to: str = "all",
        operator: bool = False,
    ) -> None:
        """Sets a policy of virtual host /, or replaces it. It applies when this returns."""

    def clear_policy(self, name: str, *, operator: bool = False) -> None: ...


class RestartableTarget(Protocol):
    """A broker in its own process, with a data directory that outlives it."""

    host: str
    port: int

    def kill(self) -> None:
        """Ends the process at once, as a power cut would; nothing is flushed."""

    def stop(self) -> None:
        """Ends the process in good order."""

    def start(self) -> None: ...


class RabbitTarget:
    """RabbitMQ in its own process, told what to do by rabbitmqctl."""

    def __init__(self, node: RabbitNode) -> None:
        self.node = node
        self.host = node.host
        self.port = node.port
        self.url = f"amqp://guest:guest@{node.host}:{node.port}/"

    def close_connections(self) -> None:
        self.node.control("close_all_connections", "closed by the conformance tests")

    def raise_memory_alarm(self) -> None:
        self.node.control("set_vm_memory_high_watermark", "0.00001")

    def clear_memory_alarm(self) -> None:
        self.node.control("set_vm_memory_high_watermark", "0.9")

    def set_policy(
        self,
        name: str,
        pattern: str,
        definition: dict[str, Any],
        *,
        priority: int = 0,
        apply_to: str = "all",
        operator: bool = False,
    ) -> None:
        self.node.set_policy(name, pattern, definition, priority=priority, apply_to=apply_to, operator=operator)

    def clear_policy(self, name: str, *, operator: bool = False) -> None:
        self.node.clear_policy(name, operator=operator)


class LeveretTarget:
    """Leveret in a thread of this process."""

    def __init__(self, broker: Any) -> None:
        # The broker's type is not named, so that the oracle can be asked where Leveret is not built.
        self.broker = broker
        self.host: str = broker.host
        self.port: int = broker.port
        self.url: str = broker.url

    def close_connections(self) -> None:
        self.broker.close_connections("closed by the conformance tests")

    def raise_memory_alarm(self) -> None:
        self.broker.raise_alarm("memory")

    def clear_memory_alarm(self) -> None:
        self.broker.clear_alarm("memory")

    def set_policy(
        self,
        name: str,
        pattern: str,
        definition: dict[str, Any],
        *,
        priority: int = 0,
        apply_to: str = "all",
        operator: bool = False,
    ) -> None:
        self.broker.call(
            lambda node: node.policies.put(
                "/", name, pattern, definition, priority=priority, apply_to=apply_to, operator=operator
            )
        )

    def clear_policy(self, name: str, *, operator: bool = False) -> None:
        self.broker.call(lambda node: node.policies.delete("/", name, operator=operator))


class LeveretProcess:
    """Leveret as users run it: `python -m leveret serve` with a data directory."""

    def __init__(
        self, data_directory: Path, host: str = "127.0.0.1", *, stream_port: int = 0, management_port: int = 0
    ) -> None:
        self.host = host
        self.port = free_port()
        # Any free ones if 0, which nobody is told.
        self.stream_port = stream_port
        self.management_port = management_port
        self.data_directory = data_directory
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "leveret", "serve", "--host", self.host, "--port", str(self.port)]
        command += ["--stream-port", str(self.stream_port), "--management-port", str(self.management_port)]
        command += ["--metrics-port", "0"]
        log = self.data_directory.with_suffix(".log")
        self.process = spawn([*command, "--data-dir", str(self.data_directory)], log)
        wait_until_serving(self.process, self.port, log)

    def stop(self) -> None:
        if self.process:
            end_process(self.process)

    def kill(self) -> None:
        if self.process:
            kill_process(self.process)


@contextmanager
def running_target() -> Iterator[Target]:
    """The broker that the suite shares."""
    if ORACLE_IS_TARGET:
        with running_rabbitmq() as node:
            yield RabbitTarget(node)
    else:
        from leveret.testing import Broker

        with Broker() as broker:
            yield LeveretTarget(broker)


@contextmanager
def running_process(directory: Path, host: str = "127.0.0.1") -> Iterator[RestartableTarget]:
    """A broker of a test's own, in its own process, which the test may restart."""
    if ORACLE_IS_TARGET:
        with running_rabbitmq() as node:
            yield node
    else:
        server = LeveretProcess(directory / "data", host)
        try:
            server.start()
            yield server
        finally:
            server.stop()
