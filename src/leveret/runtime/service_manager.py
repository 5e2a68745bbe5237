"""What a service manager such as systemd is told: that the node serves, reads its configuration again, stops, lives.

The datagrams of sd_notify(3), to the socket that NOTIFY_SOCKET names; without one nobody is told. A datagram that
cannot be sent is logged and forgotten: the broker serves all the same."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator, MutableMapping
from time import clock_gettime_ns

from leveret.runtime.log import get_logger

log = get_logger(__name__)

# The clock that systemd compares the moment of a reload with.
MONOTONIC = 1


class ServiceManager:
    def __init__(self, environment: MutableMapping[str, str]) -> None:
        """Takes what is for this process alone out of the environment: what it starts is not the service."""
        self._path = environment.pop("NOTIFY_SOCKET", "")
        interval = environment.pop("WATCHDOG_USEC", "")
        pid = environment.pop("WATCHDOG_PID", "") or str(os.getpid())
        # Twice as often as it must be.
        self._alive_every_s = int(interval) / 2e6 if interval.isdigit() and pid == str(os.getpid()) else 0.0
        self._timer: asyncio.TimerHandle | None = None

    def ready(self, status: str) -> None:
        """The node serves. From now on the loop says that it lives, if the manager wants to know."""
        self._tell("READY=1", f"STATUS={status}")
        if self._path and self._alive_every_s and self._timer is None:
            self._live(asyncio.get_running_loop())

    @contextlib.contextmanager
    def reloading(self) -> Iterator[None]:
        self._tell("RELOADING=1", f"MONOTONIC_USEC={clock_gettime_ns(MONOTONIC) // 1000}")
        try:
            yield
        finally:
            self._tell("READY=1")

    def stopping(self, status: str) -> None:
        self._tell("STOPPING=1", f"STATUS={status}")

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _live(self, loop: asyncio.AbstractEventLoop) -> None:
        self._tell("WATCHDOG=1")
        self._timer = loop.call_later(self._alive_every_s, self._live, loop)

    def _tell(self, *lines: str) -> None:
        if not self._path:
            return
        # @ is how an address without a file is written.
        address = "\0" + self._path[1:] if self._path.startswith("@") else self._path
        text = "\n".join(line.replace("\n", " ") for line in lines)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
                sock.setblocking(False)
                sock.sendto(text.encode(), address)
        except OSError as error:
            log.warning("the service manager could not be told", said=lines[0], error=error.strerror or str(error))
