"""The oracle: a RabbitMQ server of our own in a temporary directory, gone without trace when the tests end.

It has its own port mapper (epmd), cookie, database and log, so it disturbs no other node on the machine and two test
runs can go on side by side."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.conformance.server_process import end_process, free_port, kill_process, spawn, wait_until_serving

_SCRIPTS: Final = Path("/usr/lib/rabbitmq/bin")
# A command starts an Erlang of its own: two seconds of a quiet processor, a minute of a very busy one. Below what a
# test may take, so that the failure names the command.
_CONTROL_S_MAX: Final = 110

# Neither the machine's memory nor its disk may raise an alarm in the middle of a test.
_CONFIGURATION: Final = """
disk_free_limit.absolute = 1MB
vm_memory_high_watermark.relative = 0.9
"""


class RabbitNode:
    """A server with its files: where it listens and what an operator can do to it."""

    def __init__(self, directory: Path, plugins: Sequence[str] = (), configuration: str = "") -> None:
        self.host = "127.0.0.1"
        self.port = free_port()
        self.directory = directory
        self.log = directory / "server.log"
        self.server: subprocess.Popen[bytes] | None = None
        self.environment = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(directory),
            "ERL_EPMD_PORT": str(free_port()),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"conformance-{os.getpid()}-{self.port}@localhost",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
            "RABBITMQ_LOG_BASE": str(directory / "log"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_PID_FILE": str(directory / "pid"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "enabled_plugins"),
            "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq"),
            "RABBITMQ_CONF_ENV_FILE": str(directory / "rabbitmq-env.conf"),
            # Idle schedulers sleep instead of spinning: the machine has other work.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+sbwt none +sbwtdcpu none +sbwtdio none",
        }
        (directory / "enabled_plugins").write_text(f"[{','.join(plugins)}].\n")
        (directory / "rabbitmq.conf").write_text(_CONFIGURATION + configuration)

    def control(self, *arguments: str) -> str:
        """Runs one `rabbitmqctl` command and gives what it printed."""
        command = [str(_SCRIPTS / "rabbitmqctl"), "--quiet", *arguments]
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=_CONTROL_S_MAX, check=False
        )
        assert done.returncode == 0, f"rabbitmqctl {arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def set_policy(
        self,
        name: str,
        pattern: str,
        definition: dict[str, Any],
        *,
        priority: int = 0,
        apply_to: str = "all",
        operator: bool = False,
    ) -> None:
        verb = "set_operator_policy" if operator else "set_policy"
        options = ("--priority", str(priority), "--apply-to", apply_to)
        self.control(verb, *options, "--", name, pattern, json.dumps(definition))

    def clear_policy(self, name: str, *, operator: bool = False) -> None:
        self.control("clear_operator_policy" if operator else "clear_policy", "--", name)

    def start(self) -> None:
        """Starts the server and waits until it serves."""
        self.server = spawn([str(_SCRIPTS / "rabbitmq-server")], self.log, self.environment)
        wait_until_serving(self.server, self.port, self.log)

    def stop(self) -> None:
        if self.server:
            end_process(self.server)

    def kill(self) -> None:
        if self.server:
            kill_process(self.server)


@contextmanager
def running_rabbitmq(plugins: Sequence[str] = (), configuration: str = "") -> Iterator[RabbitNode]:
    """Starts a server on a free port and ends it with all its children and files."""
    if not (_SCRIPTS / "rabbitmq-server").exists():
        pytest.skip("rabbitmq-server is missing; install with: apt-get install rabbitmq-server")
    directory = Path(tempfile.mkdtemp(prefix="leveret-rabbitmq-"))
    node = RabbitNode(directory, plugins, configuration)
    port_mapper = spawn(["epmd"], node.log, node.environment)
    try:
        node.start()
        yield node
    finally:
        node.stop()
        end_process(port_mapper)
        shutil.rmtree(directory, ignore_errors=True)
