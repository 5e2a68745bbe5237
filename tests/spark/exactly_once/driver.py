"""The Spark driver as a process of its own, with everything that it starts: a JVM, and Python workers below it.

All of it is in one session of the kernel's, which is how it is found: nothing else is ever ended."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.conformance.server_process import spawn

__all__ = ["Driver", "end_session", "session_of", "spawn_guarded"]

ROOT = Path(__file__).parents[3]
END_DEADLINE_S = 30.0
TASKS = "pyspark.daemon pyspark.worker"


def session_of(leader: int) -> dict[int, tuple[int, str]]:
    """The processes of a session that run, each with its parent and its command line."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, parent, _, session = (folder / "stat").read_text().rsplit(")", 1)[1].split()[:4]
            if int(session) == leader and state not in "ZX":
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found[int(folder.name)] = (int(parent), command)
    return found


def end_session(leader: int) -> None:
    """Ends whatever is left of a session, by ids."""
    until = time.monotonic() + END_DEADLINE_S
    while left := session_of(leader):
        assert time.monotonic() < until, f"these processes cannot be ended: {left}"
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def spawn_guarded(command: list[str], log: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Starts a process in a session of its own, which the kernel kills if the test that started it is killed."""
    guard = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
    return spawn([*guard, *command], log, environment)


class Driver:
    """One after the other: the next process goes on with the checkpoints of the one before."""

    def __init__(self, places: Path, log: Path) -> None:
        self._places = places
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._leaders: list[int] = []

    def start(self, mode: str) -> None:
        assert self._process is None or self._process.poll() is not None, "the driver still runs"
        here = [str(ROOT), str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(here),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        command = [sys.executable, "-m", "tests.spark.exactly_once.job", mode, str(self._places)]
        self._process = spawn_guarded(command, self.log, environment)
        self._leaders.append(self._process.pid)

    @property
    def status(self) -> int | None:
        assert self._process is not None
        return self._process.poll()

    def kill(self) -> None:
        """SIGKILL to the driver: its Python process and its JVM. The workers below them notice by themselves, which
        takes a moment, in which they may still publish: that is how it is on a cluster as well."""
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(END_DEADLINE_S)

    def kill_executor(self, dice: random.Random) -> bool:
        """SIGKILL to one of the Python processes that run tasks. False if there is none."""
        assert self._process is not None
        running = session_of(self._process.pid)
        # They are forks of a daemon and have its command line. Those that plan have another, and belong to the driver.
        workers = sorted(
            pid
            for pid, (parent, command) in running.items()
            if TASKS in command and TASKS in running.get(parent, (0, ""))[1]
        )
        if not workers:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(dice.choice(workers), signal.SIGKILL)
        return True

    def wait(self, deadline_s: float) -> int:
        """The status of a process that ends by itself."""
        assert self._process is not None
        return self._process.wait(deadline_s)

    def close(self) -> None:
        """Whatever happened, nothing that it started is left."""
        for leader in self._leaders:
            end_session(leader)
        if self._process is not None:
            self._process.wait(END_DEADLINE_S)

    def log_tail(self) -> str:
        return self.log.read_text(errors="replace")[-4000:] if self.log.exists() else ""
