"""Starting a broker as a process, waiting until it really serves, and ending it with all that it started."""

import os
import random
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

START_SECONDS_MAX: Final = 240.0
_PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
_FRAME_METHOD: Final = b"\x01"
# Above what servers usually have, and below what Linux gives to clients.
_SERVER_PORTS: Final = (16_384, 32_768)
# Of the system: workers that share a seed must not take the same ports.
_DICE: Final = random.SystemRandom()


def free_port() -> int:
    """A port nobody listens on now, and none that the kernel gives to clients: a broker that restarts needs its port
    again, which a connection of another test must not have taken meanwhile."""
    while True:
        port = _DICE.randrange(*_SERVER_PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def spawn(command: list[str], log: Path, environment: dict[str, str] | None = None) -> "subprocess.Popen[bytes]":
    """Starts a process in a group of its own, with its output in the log."""
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def speaks_amqp(port: int) -> bool:
    """Whether connection.start comes: a port may accept before the broker behind it is ready."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as probe:
        probe.sendall(_PROTOCOL_HEADER)
        return probe.recv(1) == _FRAME_METHOD
    return False


def wait_until_serving(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while not speaks_amqp(port):
        assert process.poll() is None, f"the broker ended while starting:\n{log.read_text()[-4000:]}"
        assert time.monotonic() < deadline, f"the broker does not serve after {START_SECONDS_MAX} s:\n{log.read_text()}"
        time.sleep(0.05)


def end_process(process: "subprocess.Popen[bytes]") -> None:
    """Ends the process and whatever it started, in good order if it can."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=30)
            return


def kill_process(process: "subprocess.Popen[bytes]") -> None:
    """Ends the process at once, as a power cut would."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=30)
