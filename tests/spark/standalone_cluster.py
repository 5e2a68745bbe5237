"""A standalone Spark cluster on this machine: a master and workers, each a process, on free ports of 127.0.0.1.

Everything that it starts, executors and their Python workers too, is found by its session and ended by its id."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final

from tests.conformance.server_process import free_port
from tests.spark.exactly_once.driver import end_session, session_of, spawn_guarded

__all__ = ["StandaloneCluster"]

START_S_MAX: Final = 90.0
MEMORY: Final = "512m"


class StandaloneCluster:
    def __init__(self, directory: Path, workers: int, environment: Mapping[str, str]) -> None:
        """`environment` is that of the workers, and so of what they run."""
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._count = workers
        self._environment = dict(environment)
        self._started: list[subprocess.Popen[bytes]] = []
        self.master = f"spark://127.0.0.1:{free_port()}"
        self.log = directory / "cluster.log"

    def __enter__(self) -> StandaloneCluster:
        try:
            host, port = self.master.removeprefix("spark://").split(":")
            self._spawn("master.Master", "--host", host, "--port", port, "--webui-port", "0")
            self._wait_for("I have been elected leader", 1)
            for number in range(self._count):
                room = ["--cores", "1", "--memory", MEMORY, "--work-dir", str(self._directory / f"worker-{number}")]
                self._spawn("worker.Worker", "--host", host, "--webui-port", "0", *room, self.master)
            self._wait_for("Successfully registered with master", self._count)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for process in reversed(self._started):
            end_session(process.pid)
            process.wait()

    @property
    def processes(self) -> list[int]:
        """Ids of all that belong to it and run."""
        return [pid for process in self._started for pid in session_of(process.pid)]

    def _spawn(self, name: str, *arguments: str) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        environment = {
            **self._environment,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": sys.executable,
            "PATH": os.environ["PATH"],
            **({"JAVA_HOME": os.environ["JAVA_HOME"]} if "JAVA_HOME" in os.environ else {}),
        }
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
        self._started.append(spawn_guarded(command, self.log, environment))

    def _wait_for(self, words: str, times: int) -> None:
        until = time.monotonic() + START_S_MAX
        while (said := self.log.read_text(errors="replace")).count(words) < times:
            assert all(process.poll() is None for process in self._started), f"the cluster ended:\n{said[-4000:]}"
            assert time.monotonic() < until, f"the cluster does not say {words!r} {times} times:\n{said[-4000:]}"
            time.sleep(0.1)
