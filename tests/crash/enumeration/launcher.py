"""Brokers in forks, see fork_server.py: quick enough to start two of them for each of a thousand faults."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

from tests.conformance.server_process import free_port, speaks_amqp
from tests.crash.broker_process import SMALL_STREAMS, Settings, toml_of

_PROGRAM: Final = str(Path(__file__).with_name("fork_server.py"))
_WAIT_S: Final = 20.0
_ANNOUNCEMENT: Final = "AMQP 0-9-1  amqp://"


class Launcher:
    """One fork server; its brokers die with it, and it with the test."""

    def __init__(
        self,
        directory: Path,
        environment: Mapping[str, str],
        breakage: str | None = None,
        prefix: tuple[str, ...] = (),
    ) -> None:
        """The prefix is put before the command."""
        directory.mkdir(parents=True, exist_ok=True)
        # The server is killed if the thread that started it ends.
        guard = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        with (directory / "launcher.log").open("ab") as errors:
            self._server = subprocess.Popen(
                [*prefix, *guard, sys.executable, _PROGRAM, *([breakage] if breakage else [])],
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, **request: Any) -> Any:
        assert self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.write(json.dumps(request).encode() + b"\n")
        self._server.stdin.flush()
        answer = self._server.stdout.readline()
        assert answer, "the fork server has ended, see launcher.log"
        return json.loads(answer)

    def run(self, words: list[str], log: Path) -> int:
        """Runs a command to its end and gives its exit status."""
        process = self.ask(run=words, log=str(log))
        return self.status_of(process, _WAIT_S)

    def status_of(self, process: int, wait_s: float) -> int:
        deadline = time.monotonic() + wait_s
        while (status := self.ask(status=process)) is None:
            assert time.monotonic() < deadline, f"process {process} still runs after {wait_s} s"
            time.sleep(0.004)
        return int(status)

    def close(self) -> None:
        assert self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._server.wait(10)
        if self._server.poll() is None:
            self._server.kill()
            self._server.wait(10)
        self._server.stdout.close()


class ForkedBroker:
    """One broker after the other on one data directory."""

    def __init__(self, launcher: Launcher, directory: Path, settings: Settings, data: Path | None = None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.port, self.management_port = free_port(), free_port()
        self.data = data or directory / "data"
        self.log = directory / "broker.log"
        self._launcher = launcher
        self._config = directory / "leveret.toml"
        listen = {"stream_port": 0, "metrics_port": "off", "management_port": self.management_port}
        self._config.write_text(toml_of({**SMALL_STREAMS, **settings, "listen": listen}))
        self._process: int | None = None
        self._status: int | None = None
        # How much was in the log before the present process.
        self._said = 0

    def spawn(self, descriptors: int = 0) -> None:
        """Starts a process, perhaps with a limit on its descriptors, and does not wait for it."""
        words = ["serve", "--config", str(self._config), "--port", str(self.port), "--data-dir", str(self.data)]
        self._status = None
        self._said = len(self.log_text())
        self._process = self._launcher.ask(run=words, log=str(self.log), descriptors=descriptors)

    @property
    def process(self) -> int:
        assert self._process is not None
        return self._process

    @property
    def is_alive(self) -> bool:
        if self._process is not None and self._status is None:
            self._status = self._launcher.ask(status=self._process)
        return self._process is not None and self._status is None

    def serves(self, wait_s: float = _WAIT_S) -> bool:
        """Waits until it says that it serves and does, or has ended. A start that fails may answer on its way out."""
        deadline = time.monotonic() + wait_s
        while not (_ANNOUNCEMENT in self.log_text()[self._said :] and speaks_amqp(self.port)):
            if not self.is_alive:
                return False
            assert time.monotonic() < deadline, f"neither serving nor ended after {wait_s} s"
            time.sleep(0.005)
        return True

    def start(self) -> None:
        self.spawn()
        assert self.serves(), f"the broker ended while starting:\n{self.log_text()[-3000:]}"

    def status(self, wait_s: float = _WAIT_S) -> int:
        """Of a process that ends by itself."""
        assert self._process is not None
        if self._status is None:
            self._status = self._launcher.status_of(self._process, wait_s)
        return self._status

    def end(self, number: signal.Signals) -> int:
        """Sends a signal and gives the exit status; it may have ended before."""
        assert self._process is not None
        if self.is_alive:
            with suppress(ProcessLookupError):
                os.kill(self._process, number)
        return self.status()

    def is_whole(self) -> bool:
        """What `leveret storage check` says; the broker must not run."""
        return self._launcher.run(["storage", "check", "--data-dir", str(self.data)], self.log) == 0

    def log_text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""
