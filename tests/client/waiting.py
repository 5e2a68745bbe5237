"""Waiting for what nobody tells: a look every few milliseconds, and a failure that names it if it does not come."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

WAIT_S = BLOCKING_WAIT_S = 60.0
PAUSE_S = 0.005


async def until(condition: Callable[[], object], what: str = "it holds", seconds: float = WAIT_S) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        await asyncio.sleep(PAUSE_S)


def until_blocking(condition: Callable[[], object], what: str = "it holds", seconds: float = BLOCKING_WAIT_S) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(PAUSE_S)


async def until_off_loop(condition: Callable[[], object], what: str = "it holds") -> None:
    """For a condition that blocks, such as a look into a database."""
    await asyncio.to_thread(until_blocking, condition, what, WAIT_S)
