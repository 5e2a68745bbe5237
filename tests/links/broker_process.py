"""Leveret as a process of its own that can be killed and started again with the same ports and files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.conformance.server_process import end_process, free_port, kill_process, spawn, wait_until_serving
from tests.http_client import Api


class BrokerProcess:
    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._port, self._management_port = free_port(), free_port()
        self.api = Api(f"http://127.0.0.1:{self._management_port}")
        self.url = f"amqp://guest:guest@127.0.0.1:{self._port}/"
        self._process = self._spawned()

    def _spawned(self) -> subprocess.Popen[bytes]:
        options = {"port": self._port, "management-port": self._management_port, "metrics-port": 0, "stream-port": 0}
        command = [sys.executable, "-m", "leveret", "serve", "--data-dir", str(self._directory / "data")]
        command += [part for name, value in options.items() for part in (f"--{name}", str(value))]
        process = spawn(command, self._directory / "log")
        wait_until_serving(process, self._port, self._directory / "log")
        return process

    def kill(self) -> None:
        kill_process(self._process)

    def start(self) -> None:
        self._process = self._spawned()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        end_process(self._process)
