"""A real HAProxy for a test, with the configuration that we hand out: other ports, and one broker behind them."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest import mock

from tests.conformance.server_process import end_process, free_port, spawn

CONFIGURATION = Path(__file__).parents[2] / "deploy/haproxy/haproxy.cfg"
START_DEADLINE_S = 30.0
# Where the configuration expects the broker.
BROKER = "10.0.0.10"


def binary() -> str:
    # Debian keeps it where only root looks.
    found = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
    assert found, "haproxy is missing; as root on Debian: apt-get install --no-install-recommends haproxy"
    return found


@contextmanager
def haproxy(directory: Path, brokers: Mapping[int, int], client: str = "") -> Iterator[dict[int, int]]:
    """Gives the port of the proxy for each port in the configuration; `brokers` has the broker's. Clients seem to come
    from the address `client` if there is one."""
    text = CONFIGURATION.read_text()
    fronts = {port: free_port() for port in brokers}
    for port, ours in brokers.items():
        bound = f"bind 127.0.0.1:{fronts[port]}"
        if client:
            bound += f"\n    tcp-request connection set-src str({client})"
        text, count = re.subn(rf"bind :{port}\b", bound, text)
        assert count == 1
        text = re.sub(rf"\b{re.escape(BROKER)}:{port}\b", f"127.0.0.1:{ours}", text)
        text = re.sub(rf"\bcheck port {port}\b", f"check port {ours}", text)
    file = directory / "haproxy.cfg"
    file.write_text(text)
    log = directory / "haproxy.log"
    process = spawn([binary(), "-db", "-f", str(file)], log)
    try:
        _await_listening(process, fronts, log)
        yield fronts
    finally:
        end_process(process)


def _await_listening(process: subprocess.Popen[bytes], fronts: Mapping[int, int], log: Path) -> None:
    deadline = time.monotonic() + START_DEADLINE_S
    waiting = set(fronts.values())
    while waiting:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        for port in list(waiting):
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 5):
                waiting.remove(port)
        time.sleep(0.02)


@contextmanager
def through(header: bytes, source: str) -> Iterator[None]:
    """Connections of this process come from that address, and begin with the header."""
    real = socket.create_connection

    def connect(address: tuple[str, int], timeout: float | None = None, *_: object, **__: object) -> socket.socket:
        made = real(address, timeout, (source, 0))
        made.sendall(header)
        return made

    with mock.patch.object(socket, "create_connection", connect):
        yield
