"""The brokers that are compared. Each starts on loopback with its own ports and files and leaves nothing behind.

Adding one: a class with `name`, `installed()`, `version()` and `start()`, and a line in PEERS."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

START_SECONDS_MAX = 120.0
STOP_SECONDS_MAX = 30.0
AMQP_HEADER = b"AMQP\x00\x00\x09\x01"


class PeerError(Exception):
    """A broker did not start; carries what it printed."""


@dataclass(frozen=True, slots=True)
class Running:
    """A broker that accepts connections, the seconds from spawn to its first answer, and its process id."""

    port: int
    pid: int
    start_seconds: float

    def rss_mib(self) -> float:
        """Resident memory of the whole process tree."""
        return sum(_rss_bytes(pid) for pid in process_tree(self.pid)) / (1024 * 1024)


class Peer(Protocol):
    name: str

    def installed(self) -> bool: ...
    def version(self) -> str: ...
    def start(self, directory: Path, port: int) -> list[subprocess.Popen[bytes]]:
        """Starts the broker on 127.0.0.1:port with its files in `directory`; the last process is the broker."""
        ...


class Leveret:
    """This project, as installed in the virtual environment that runs the benchmark."""

    name = "leveret"

    def installed(self) -> bool:
        return subprocess.run([*self._command(), "--help"], capture_output=True, check=False).returncode == 0

    def version(self) -> str:
        code = "import importlib.metadata as m; print(m.version('leveret'))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        return done.stdout.strip() or "from source"

    def start(self, directory: Path, port: int) -> list[subprocess.Popen[bytes]]:
        options = ["--host", "127.0.0.1", "--port", str(port), "--data-dir", str(directory / "data")]
        return [_spawn([*self._command(), *options], directory, os.environ)]

    def _command(self) -> list[str]:
        script = Path(sys.executable).with_name("leveret")
        return [str(script), "serve"] if script.exists() else [sys.executable, "-m", "leveret", "serve"]


class RabbitMQ:
    """RabbitMQ as the distribution installs it, without plugins; as its defaults leave it otherwise."""

    name = "rabbitmq"

    def installed(self) -> bool:
        return self._script() is not None and shutil.which("epmd") is not None

    def version(self) -> str:
        home = next(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*"), None)
        return home.name.removeprefix("rabbitmq_server-") if home else "unknown"

    def start(self, directory: Path, port: int) -> list[subprocess.Popen[bytes]]:
        (directory / "enabled_plugins").write_text("[].\n")
        # An alarm of a small machine would block the publishers in the middle of a case.
        (directory / "rabbitmq.conf").write_text("disk_free_limit.absolute = 1MB\n")
        environment = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(directory),  # the cookie is written there
            "ERL_EPMD_PORT": str(free_port()),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"bench{port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
            "RABBITMQ_LOG_BASE": str(directory / "log"),
            "RABBITMQ_PID_FILE": str(directory / "pid"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "enabled_plugins"),
            "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq"),
            "RABBITMQ_CONF_ENV_FILE": str(directory / "rabbitmq-env.conf"),
        }
        # Its own port mapper in the foreground; the one that Erlang starts by itself would outlive the node.
        port_mapper = _spawn(["epmd"], directory, environment)
        return [port_mapper, _spawn([str(self._script())], directory, environment)]

    def _script(self) -> Path | None:
        """Not the one in sbin, which changes to the user `rabbitmq` and to the machine's own node."""
        script = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
        return script if script.exists() else None


PEERS: dict[str, Peer] = {peer.name: peer for peer in (Leveret(), RabbitMQ())}


@contextmanager
def running(peer: Peer) -> Iterator[Running]:
    """The broker, started; ended with all its processes and files at the end."""
    directory = Path(tempfile.mkdtemp(prefix=f"bench-{peer.name}-"))
    port = free_port()
    processes: list[subprocess.Popen[bytes]] = []
    try:
        begun = time.monotonic()
        processes = peer.start(directory, port)
        start_seconds = _first_answer(processes[-1], port, begun, directory / "output")
        yield Running(port, processes[-1].pid, start_seconds)
    finally:
        for process in reversed(processes):
            _end(process)
        shutil.rmtree(directory, ignore_errors=True)


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def process_tree(pid: int) -> list[int]:
    """The process and all its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (stat := _stat(int(entry.name))):
            children.setdefault(int(stat[1]), []).append(int(entry.name))
    tree = [pid]
    for member in tree:
        tree.extend(children.get(member, []))
    return tree


def _stat(pid: int) -> list[str]:
    """The fields of /proc/pid/stat from the state on, after the name, which may hold spaces; empty if it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return []


def _born(pid: int) -> str | None:
    stat = _stat(pid)
    return stat[19] if stat else None


def _rss_bytes(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _spawn(command: list[str], directory: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    with (directory / "output").open("ab") as output:
        return subprocess.Popen(
            command,
            cwd=directory,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _first_answer(process: subprocess.Popen[bytes], port: int, begun: float, output: Path) -> float:
    """Seconds until the broker answers a protocol header with connection.start."""
    while time.monotonic() < begun + START_SECONDS_MAX:
        if process.poll() is not None:
            raise PeerError(f"the broker ended while starting:\n{output.read_text(errors='replace')[-4000:]}")
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(AMQP_HEADER)
            if connection.recv(1):
                return time.monotonic() - begun
        time.sleep(0.002)
    raise PeerError(f"no answer after {START_SECONDS_MAX:.0f} s:\n{output.read_text(errors='replace')[-4000:]}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the process and what it started, politely first. It leads a process group of its own."""
    members = {pid: _born(pid) for pid in process_tree(process.pid)}
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=STOP_SECONDS_MAX)
            break
    # Erlang's helpers lead groups of their own. The time of birth tells them from a later process with their id.
    for pid, born in members.items():
        if born is not None and _born(pid) == born and pid != process.pid:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
