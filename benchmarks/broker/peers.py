"""The brokers that are compared. Each starts on loopback with its own ports and files and leaves nothing behind.

Adding one: a class as Peer describes it, and a line in PEERS."""

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
from pathlib import Path
from typing import Protocol

START_SECONDS_MAX = 120.0
STOP_SECONDS_MAX = 30.0
AMQP_HEADER = b"AMQP\x00\x00\x09\x01"


class PeerError(Exception):
    """A broker did not start; carries what it printed."""


class Peer(Protocol):
    name: str
    # For the load generator: what makes its queues those of this peer.
    queue_options: tuple[str, ...]
    # The share of a backlog that it gets: a slow broker would take minutes for a whole one.
    backlog_share: float
    # A queue type that only has durable queues, on a broker that is a peer of its own already.
    durable_only: bool
    # How long a queue must have been there to survive kill -9.
    settle_seconds: float
    # The files of its streams, below its directory.
    stream_files: str
    # Whether every offset of a stream is that of a message, and so the number of offsets that of messages.
    offsets_exact: bool

    def installed(self) -> bool: ...
    def version(self) -> str: ...
    def start(self, directory: Path, port: int) -> list[subprocess.Popen[bytes]]:
        """Starts the broker on 127.0.0.1:port with its files in `directory`; the last process is the broker."""
        ...


class Running:
    """A broker that accepts connections on `port`, with its files in `directory`."""

    def __init__(self, peer: Peer, directory: Path) -> None:
        self.peer = peer
        self.directory = directory
        self.port = free_port()
        # From spawn to the first answer, of the latest start.
        self.start_seconds = 0.0
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def pid(self) -> int:
        return self._processes[-1].pid

    def rss_mib(self) -> float:
        """Resident memory of the whole process tree."""
        return sum(_rss_bytes(pid) for pid in process_tree(self.pid)) / (1024 * 1024)

    def cpu_seconds(self) -> float:
        """CPU time of the whole process tree since it started."""
        return sum(cpu_seconds(pid) for pid in process_tree(self.pid))

    def start(self) -> None:
        begun = time.monotonic()
        self._processes = self.peer.start(self.directory, self.port)
        self.start_seconds = _first_answer(self._processes[-1], self.port, begun, self.directory / "output")

    def restart(self, *, kill: bool) -> float:
        """Ends it, with SIGTERM or at once, and starts it again with the same files; the seconds until it had ended."""
        begun = time.monotonic()
        ended = _end(self._processes.pop(), kill=kill)
        stop_seconds = time.monotonic() - begun
        if not ended and not kill:
            raise PeerError(f"{self.peer.name} had not ended {STOP_SECONDS_MAX:.0f} s after SIGTERM")
        self.close()
        self.start()
        return stop_seconds

    def close(self) -> None:
        for process in reversed(self._processes):
            _end(process)
        self._processes = []


class Leveret:
    """This project, as installed in the virtual environment that runs the benchmark."""

    name = "leveret"
    queue_options: tuple[str, ...] = ()
    backlog_share = 1.0
    durable_only = False
    settle_seconds = 0.0
    stream_files = "data/streams/*/*"
    offsets_exact = True
    # Any free ones.
    management_port = 0
    metrics_port = 0

    def installed(self) -> bool:
        return subprocess.run([*self._command(), "--help"], capture_output=True, check=False).returncode == 0

    def version(self) -> str:
        code = "import importlib.metadata as m; print(m.version('leveret'))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        return done.stdout.strip() or "from source"

    def start(self, directory: Path, port: int) -> list[subprocess.Popen[bytes]]:
        options = ["--host", "127.0.0.1", "--port", str(port), "--stream-port", "0"]
        options += ["--management-port", str(self.management_port), "--metrics-port", str(self.metrics_port)]
        options += ["--data-dir", str(directory / "data")]
        return [_spawn([*self._command(), *options], directory, os.environ)]

    def _command(self) -> list[str]:
        script = Path(sys.executable).with_name("leveret")
        return [str(script), "serve"] if script.exists() else [sys.executable, "-m", "leveret", "serve"]


class RabbitMQ:
    """RabbitMQ as the distribution installs it, without plugins; as its defaults leave it otherwise. Classic queues."""

    name = "rabbitmq"
    plugins: tuple[str, ...] = ()
    # Lines of its configuration beside those that every benchmark needs.
    configuration = ""
    queue_options: tuple[str, ...] = ()
    backlog_share = 0.1
    durable_only = False
    settle_seconds = 0.0
    stream_files = "mnesia/*/stream/*/*"
    # Each segment of a stream begins with what is tracked, which takes an offset.
    offsets_exact = False

    def installed(self) -> bool:
        return self._script() is not None and shutil.which("epmd") is not None

    def version(self) -> str:
        home = next(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*"), None)
        return home.name.removeprefix("rabbitmq_server-") if home else "unknown"

    def start(self, directory: Path, port: int) -> list[subprocess.Popen[bytes]]:
        (directory / "enabled_plugins").write_text(f"[{','.join(self.plugins)}].\n")
        # An alarm of a small machine would block the publishers in the middle of a case.
        (directory / "rabbitmq.conf").write_text(f"disk_free_limit.absolute = 1MB\n{self.configuration}")
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


class RabbitMQQuorum(RabbitMQ):
    """The same with quorum queues, on one node: replicated to nobody, but synced before the confirm."""

    name = "rabbitmq-quorum"
    queue_options = ("--queue-args", "x-queue-type=quorum")
    durable_only = True
    # 3.10.8 lists its quorum queues in a file that is saved half a second after the latest change. Killed before, it
    # answers 541 to whoever asks for the queue, though all messages are in its log. Only a scaled fill is so short.
    settle_seconds = 2.0


PEERS: dict[str, Peer] = {peer.name: peer for peer in (Leveret(), RabbitMQ(), RabbitMQQuorum())}


@contextmanager
def running(peer: Peer, root: Path) -> Iterator[Running]:
    """The broker, started, with its files below `root`; ended with all its processes and files at the end."""
    directory = Path(tempfile.mkdtemp(prefix=f"bench-{peer.name}-", dir=root))
    broker = Running(peer, directory)
    try:
        broker.start()
        yield broker
    finally:
        broker.close()
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


def cpu_seconds(pid: int) -> float:
    """With that of its children that have ended."""
    return sum(map(int, _stat(pid)[11:15])) / os.sysconf("SC_CLK_TCK")


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


def _end(process: subprocess.Popen[bytes], *, kill: bool = False) -> bool:
    """Ends the process and all it started, politely first unless told otherwise; whether that was enough."""
    members = {pid: _born(pid) for pid in process_tree(process.pid)}
    ended = not kill and _ended_by(signal.SIGTERM, process)
    if not ended:
        _ended_by(signal.SIGKILL, process)
    # Erlang's helpers lead groups of their own. The time of birth tells them from a later process with their id.
    rest = {pid: born for pid, born in members.items() if born is not None and pid != process.pid}
    for pid in _alive(rest):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    # A process that is still giving memory back holds its port, too.
    end = time.monotonic() + STOP_SECONDS_MAX
    while _alive(rest) and time.monotonic() < end:
        time.sleep(0.002)
    return ended


def _ended_by(number: signal.Signals, process: subprocess.Popen[bytes]) -> bool:
    """Signals the process group, which the process leads, and waits for the leader."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=STOP_SECONDS_MAX)
        return True
    return False


def _alive(born: Mapping[int, str]) -> list[int]:
    """Those that were born then and have not ended since; one that nobody waited for yet has ended."""
    stats = ((pid, then, _stat(pid)) for pid, then in born.items())
    return [pid for pid, then, stat in stats if stat and stat[19] == then and stat[0] != "Z"]
