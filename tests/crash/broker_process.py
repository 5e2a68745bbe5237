"""The broker under torment: Leveret as a process of its own, which can be started, killed and looked at.

Never waits without a deadline and leaves no process behind: the broker dies with the test that started it."""

import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.conformance.server_process import end_process, free_port, kill_process, spawn, wait_until_serving

# A boot after a crash reads a few MiB; the rest is for a busy machine.
BOOT_S_MAX: Final = 30.0
# Any free ones, unless a test wants another: several brokers run side by side.
# Segments of streams are as short as tests want them.
SMALL_STREAMS: Final = {"streams": {"segment_bytes_min": 1}}
OTHER_PORTS: Final = {"stream_port": 0, "management_port": 0, "metrics_port": 0}

Settings = Mapping[str, Mapping[str, object]]


def toml_of(settings: Settings) -> str:
    """Sections with whole numbers, fractions, true, false and plain strings."""
    lines = []
    for section, values in settings.items():
        lines.append(f"[{section}]")
        for key, value in values.items():
            shown = str(value).lower() if isinstance(value, bool) else repr(value).replace("'", '"')
            lines.append(f"{key} = {shown}")
    return "\n".join(lines) + "\n"


class BrokerProcess:
    """One broker with its port, its files and its successive processes."""

    def __init__(
        self,
        directory: Path,
        settings: Settings | None = None,
        data_directory: Path | None = None,
        prefix: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
        program: tuple[str, ...] = ("-m", "leveret"),
    ) -> None:
        """The prefix is put before the command, the environment replaces that of the test."""
        directory.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.log = directory / "broker.log"
        self.data_directory = data_directory or directory / "data"
        self.prefix = prefix
        self.environment = environment
        self.program = program
        self.process: subprocess.Popen[bytes] | None = None
        self.boot_s = 0.0
        self._config = directory / "leveret.toml"
        self.configure(settings or {})

    def configure(self, settings: Settings) -> None:
        """For the next start."""
        listen = {**OTHER_PORTS, **settings.get("listen", {})}
        self._config.write_text(toml_of({**SMALL_STREAMS, **settings, "listen": listen}))

    def spawn(self) -> None:
        """Starts a process and does not wait for it."""
        assert not self.is_alive, "the broker still runs"
        serve = ["serve", "--config", str(self._config), "--port", str(self.port)]
        # The broker is killed if the thread that started it ends, even by a signal that nobody can handle.
        guard = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        command = [*self.prefix, *guard, sys.executable, *self.program, *serve]
        environment = None if self.environment is None else dict(self.environment)
        self.process = spawn([*command, "--data-dir", str(self.data_directory)], self.log, environment)

    def start(self) -> None:
        """Starts a process and returns when it serves, which it must do in good time."""
        begun = time.monotonic()
        self.spawn()
        self.wait_until_serving()
        self.boot_s = time.monotonic() - begun

    def wait_until_serving(self) -> None:
        assert self.process is not None
        begun = time.monotonic()
        wait_until_serving(self.process, self.port, self.log)
        took_s = time.monotonic() - begun
        assert took_s < BOOT_S_MAX, f"the boot took {took_s:.1f} s:\n{self.log_tail()}"

    def kill(self) -> None:
        """SIGKILL; returns when the process is gone. It may have ended before."""
        assert self.process is not None
        with suppress(ProcessLookupError):
            kill_process(self.process)

    def stop(self) -> None:
        """SIGTERM, as an operator ends it; the status must be good."""
        assert self.process is not None
        end_process(self.process)
        assert self.process.returncode == 0, f"status {self.process.returncode} after SIGTERM:\n{self.log_tail()}"

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def exit_status(self, wait_s: float) -> int:
        """The status of a process that is to end by itself."""
        assert self.process is not None
        try:
            return self.process.wait(wait_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the broker still runs after {wait_s} s:\n{self.log_tail()}") from None

    def close(self) -> None:
        """For the end of a test, whatever happened."""
        if self.is_alive:
            self.kill()

    def log_tail(self) -> str:
        return self.log.read_text(errors="replace")[-4000:] if self.log.exists() else ""
