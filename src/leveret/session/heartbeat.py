"""Heartbeats of one connection: sent when nothing else was for half the interval, missed twice: the peer is gone."""

from __future__ import annotations

from typing import Protocol

from leveret.core.codec.write_buffer import WriteBuffer
from leveret.runtime.network import SocketHub, SocketTransport
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
        "_quiet_at",
        "_received",
        "_sent",
        "_silent_ticks",
        "_timer",
        "_transport",
        "_write_buffer",
    )

    def __init__(
        self,
        board: SocketHub,
        transport: SocketTransport,
        core: Receiver,
        write_buffer: WriteBuffer,
        heartbeat_s: int,
        frame: bytes = HEARTBEAT_FRAME,
    ) -> None:
        self._board = board
        self._frame = frame
        self._transport = transport
        self._core = core
        self._write_buffer = write_buffer
        self._interval_s = heartbeat_s / 2
        self._listening = True
        self._silent_ticks = 0
        self._received = core.bytes_received
        self._sent = write_buffer.bytes_sent
        # What `bytes_sent` is if nothing but our own heartbeat has gone out since the last tick.
        self._quiet_at = self._sent
        self._timer = board.loop.call_later(self._interval_s, self._tick)

    def listen(self, listening: bool) -> None:
        """Whether the peer's silence means anything: not while the connection is not being read."""
        self._listening = listening
        self._silent_ticks = 0

    def _tick(self) -> None:
        self._timer = self._board.loop.call_later(self._interval_s, self._tick)
        # One that is not read, because it takes its answers slowly, shows by taking them that it is there.
        takes = self._transport.flooded and self._write_buffer.bytes_sent != self._sent
        if self._core.bytes_received != self._received or not self._listening or takes:
            self._received = self._core.bytes_received
            self._silent_ticks = 0
        else:
            self._silent_ticks += 1
            if self._silent_ticks >= SILENT_TICKS_MAX:
                self._transport.abort("missed heartbeats from client")
                return
        # Nothing went out, and nothing waits to: a backlog the peer does not read is no sign of life from us needed.
        self._sent = self._write_buffer.bytes_sent
        if self._sent == self._quiet_at and self._write_buffer.pending() == 0:
            self._write_buffer.write(self._frame)
            self._board.kick()
            # Without this the next tick would take the heartbeat for traffic, and send one an interval only.
            self._quiet_at = self._sent + len(self._frame)
        else:
            self._quiet_at = self._sent

    def stop(self) -> None:
        self._timer.cancel()
