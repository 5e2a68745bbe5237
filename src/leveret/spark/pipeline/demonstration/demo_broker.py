"""A broker of its own for the demonstration: `leveret serve` in another process, on free ports, with its data in a
temporary folder. It is gone afterwards, whatever happens in between."""

from __future__ import annotations

import contextlib
import re
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from leveret.spark.pipeline.failures import Failed

__all__ = ["running_broker"]

START_S, STOP_S = 30.0, 20.0
_ADDRESS = re.compile(r"amqp://(\S+)")


@contextlib.contextmanager
def running_broker() -> Iterator[dict[str, str]]:
    """The connector's options for it: url and managementUrl."""
    with tempfile.TemporaryDirectory(prefix="leveret-demo-") as folder:
        management_port = _free_port()
        ports = {
            "host": "127.0.0.1",
            "port": 0,
            "management-port": management_port,
            "metrics-port": "off",
            "stream-port": "off",
        }
        words = [f"--{name}={value}" for name, value in {**ports, "data-dir": f"{folder}/data"}.items()]
        log = Path(folder, "log")
        with log.open("wb") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", "leveret", "serve", *words], stdout=subprocess.PIPE, stderr=errors
            )
        try:
            address = _address(process, log)
            yield {"url": f"amqp://guest:guest@{address}/", "managementUrl": f"http://127.0.0.1:{management_port}"}
        finally:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    """Waits until the broker says where it is."""
    assert process.stdout is not None
    until, said = time.monotonic() + START_S, b""
    while time.monotonic() < until and process.poll() is None:
        if select.select([process.stdout], [], [], 0.1)[0]:
            said += process.stdout.read1(4096)  # type: ignore[attr-defined]
            # The line with the data folder is the last one.
            if b"data" in said and (found := _ADDRESS.search(said.decode())):
                return found[1]
    raise Failed(f"the broker did not start: {said.decode()}{log.read_text('utf-8', 'replace')}")
