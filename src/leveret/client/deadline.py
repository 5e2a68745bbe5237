"""Waiting, but not for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from leveret.client.errors import DeadlineExceeded

T = TypeVar("T")


async def within(seconds: float | None, what: str, awaitable: Awaitable[T]) -> T:
    """Raises DeadlineExceeded, naming what was waited for, if it takes longer. None is no deadline."""
    try:
        async with asyncio.timeout(seconds) as limit:
            return await awaitable
    except TimeoutError:
        # What is waited for may have deadlines of its own.
        if not limit.expired():
            raise
        raise DeadlineExceeded(f"{what} took longer than {seconds:g} s") from None
