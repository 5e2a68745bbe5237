"""`leveret serve` under a service manager: a real process tells a real socket how it is."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

from tests.unit.node.process import serving

SECONDS_MAX = 60


def test_start_reload_life_and_stop_are_told(tmp_path: Path) -> None:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(path)
        sock.settimeout(SECONDS_MAX)
        more = {"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "200000"}
        with serving("--data-dir", str(tmp_path / "data"), **more) as server:
            assert sock.recv(4096).decode() == f"READY=1\nSTATUS=serves clients from {tmp_path / 'data'}"
            assert sock.recv(4096) == b"WATCHDOG=1"

            def next_but_life() -> str:
                while (told := sock.recv(4096)) == b"WATCHDOG=1":
                    pass
                return told.decode().splitlines()[0]

            server.process.send_signal(signal.SIGHUP)
            assert [next_but_life(), next_but_life()] == ["RELOADING=1", "READY=1"]
            server.process.terminate()
            assert next_but_life() == "STOPPING=1"
            assert server.process.wait(SECONDS_MAX) == 0
