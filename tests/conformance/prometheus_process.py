"""A real Prometheus for a test: it scrapes one broker every second, with our rules, and answers questions."""

import json
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.conformance.server_process import end_process, free_port, spawn

ROOT = Path(__file__).parents[2]
START_DEADLINE_S = 30.0


class Prometheus:
    def __init__(self, directory: Path, target: str) -> None:
        self.directory = directory
        self.port = free_port()
        text = (ROOT / "deploy/prometheus/prometheus.yml").read_text()
        # What we hand out, only quicker and with another address.
        text = text.replace("127.0.0.1:15692", target).replace("15s", "1s").replace("30s", "1s")
        for name in ("recording.yml", "alerts.yml"):
            shutil.copy(ROOT / "deploy/prometheus" / name, directory)
        (directory / "prometheus.yml").write_text(text)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        binary = shutil.which("prometheus")
        assert binary, "prometheus is missing; as root on Debian: apt-get install --no-install-recommends prometheus"
        command = [
            binary,
            f"--config.file={self.directory / 'prometheus.yml'}",
            f"--storage.tsdb.path={self.directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--log.level=warn",
        ]
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(self.directory), "GOMAXPROCS": "1"}
        self.process = spawn(command, self.directory / "prometheus.log", environment)

    def get(self, path: str, **parameters: str) -> Any:
        url = f"http://127.0.0.1:{self.port}{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]

    def ask(self, expression: str) -> list[dict[str, Any]]:
        """What the expression is now. Raises if it cannot be evaluated."""
        found: list[dict[str, Any]] = self.get("/api/v1/query", query=expression)["result"]
        return found

    def wait_for(self, expression: str, deadline_s: float = START_DEADLINE_S) -> list[dict[str, Any]]:
        """Asks until something comes."""
        until = time.monotonic() + deadline_s
        while True:
            try:
                if found := self.ask(expression):
                    return found
            except OSError:
                assert self.process is not None and self.process.poll() is None, self.log()
            assert time.monotonic() < until, f"{expression} stays empty\n{self.log()}"
            time.sleep(0.2)

    def log(self) -> str:
        return (self.directory / "prometheus.log").read_text()


@contextmanager
def running_prometheus(directory: Path, target: str) -> Iterator[Prometheus]:
    prometheus = Prometheus(directory, target)
    prometheus.start()
    try:
        yield prometheus
    finally:
        assert prometheus.process is not None
        end_process(prometheus.process)
