"""What the tests of transports share: an endpoint that keeps what it gets, and waiting for callbacks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop

from leveret.core.codec.write_buffer import WriteBuffer
from leveret.runtime.network import SocketHub


class Recorder:
    """An endpoint that keeps what it receives."""

    def __init__(self, board: SocketHub) -> None:
        self.write_buffer = WriteBuffer(board.dirty, board.spares)
        self.octets = b""
        self.calms = 0
        self.losses: list[str] = []

    def received(self, data: bytearray, size: int) -> None:
        self.octets += bytes(data[:size])

    def calmed(self) -> None:
        self.calms += 1

    def lost(self, reason: str) -> None:
        self.losses.append(reason)


async def until(condition: Callable[[], Any]) -> None:
    """Waits for what no event tells, such as a callback of the code under test."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + 5
    while not condition():
        assert loop.time() < deadline, "still not so after 5 s"
        await asyncio.sleep(0.002)


def run(test: Callable[[], Awaitable[None]]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(test())  # type: ignore[arg-type]
