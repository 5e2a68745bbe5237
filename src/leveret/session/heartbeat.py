"""Heartbeats of one connection: sent when nothing else was for half the interval, missed twice: the peer is gone."""

from __future__ import annotations

from typing import Protocol

from leveret.core.outbox import Outbox
from leveret.runtime.network import Pump, Switchboard
from leveret.wire.constants import HEARTBEAT_FRAME

# Ticks are half intervals: this many without a single octet are two missed heartbeats.
SILENT_TICKS_MAX = 4


class Receiver(Protocol):
    """What counts what comes in: the compiled connection of either protocol."""

    @property
    def bytes_received(self) -> int: ...


class Heartbeat:
    __slots__ = (
        "_board",
        "_core",
        "_frame",
        "_interval_s",
        "_listening",
        "_outbox",
        "_pump",
        "_received",
        "_sent",
        "_silent_ticks",
        "_timer",
    )

    def __init__(
        self,
        board: Switchboard,
        pump: Pump,
        core: Receiver,
        outbox: Outbox,
        heartbeat_s: int,
        frame: bytes = HEARTBEAT_FRAME,
    ) -> None:
        self._board = board
        self._frame = frame
        self._pump = pump
        self._core = core
        self._outbox = outbox
        self._interval_s = heartbeat_s / 2
        self._listening = True
        self._silent_ticks = 0
        self._received = core.bytes_received
        self._sent = outbox.bytes_sent
        self._timer = board.loop.call_later(self._interval_s, self._tick)

    def listen(self, listening: bool) -> None:
        """Whether the peer's silence means anything: not while the connection is not being read."""
        self._listening = listening
        self._silent_ticks = 0

    def _tick(self) -> None:
        self._timer = self._board.loop.call_later(self._interval_s, self._tick)
        # One that is not read, because it takes its answers slowly, shows by taking them that it is there.
        takes = self._pump.flooded and self._outbox.bytes_sent != self._sent
        if self._core.bytes_received != self._received or not self._listening or takes:
            self._received = self._core.bytes_received
            self._silent_ticks = 0
        else:
            self._silent_ticks += 1
            if self._silent_ticks >= SILENT_TICKS_MAX:
                self._pump.abort("missed heartbeats from client")
                return
        # Nothing went out, and nothing waits to: a backlog the peer does not read is no sign of life from us needed.
        if self._outbox.bytes_sent == self._sent and self._outbox.pending() == 0:
            self._outbox.write(self._frame)
            self._board.kick()
        self._sent = self._outbox.bytes_sent

    def stop(self) -> None:
        self._timer.cancel()
