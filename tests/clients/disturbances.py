"""What happens to the broker, or to the program, while that publishes and consumes."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from typing import Final

from tests.clients.brokers import Broker

Disturb = Callable[[Broker, "subprocess.Popen[str]"], None]


def _stop(broker: Broker, program: subprocess.Popen[str]) -> None:
    broker.restart()


def _kill(broker: Broker, program: subprocess.Popen[str]) -> None:
    broker.kill()


def _close(broker: Broker, program: subprocess.Popen[str]) -> None:
    broker.close_connections()


def _freeze(broker: Broker, program: subprocess.Popen[str]) -> None:
    """The program stands still until the broker misses its heartbeats and closes its connections."""
    connections = broker.some_connections()
    program.send_signal(signal.SIGSTOP)
    try:
        broker.await_closed(connections)
    finally:
        program.send_signal(signal.SIGCONT)


DISTURBANCES: Final[dict[str, Disturb]] = {"stop": _stop, "kill": _kill, "close": _close, "freeze": _freeze}
