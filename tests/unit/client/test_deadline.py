"""Waiting with a deadline: what is late is named, and what others have to say is not mistaken for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from leveret.client.deadline import within
from leveret.client.errors import ClientError, DeadlineExceeded


async def raising(error: BaseException) -> None:
    raise error


def run(awaitable: Awaitable[object]) -> object:
    async def scene() -> object:
        return await awaitable

    return asyncio.run(scene())


def test_what_comes_in_time_is_given() -> None:
    assert run(within(5, "sleep", asyncio.sleep(0, "slept"))) == "slept"
    assert run(within(None, "sleep", asyncio.sleep(0, "slept"))) == "slept"


def test_what_is_late_is_named() -> None:
    with pytest.raises(DeadlineExceeded, match=r"^a long sleep took longer than 0.01 s$") as caught:
        run(within(0.01, "a long sleep", asyncio.sleep(60)))
    assert isinstance(caught.value, TimeoutError)
    assert isinstance(caught.value, ClientError)


@pytest.mark.parametrize("seconds", [5, None])
@pytest.mark.parametrize("error", [TimeoutError("of its own"), DeadlineExceeded("of its own"), ValueError("no")])
def test_errors_of_what_is_waited_for_pass_as_they_are(seconds: float | None, error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        run(within(seconds, "it", raising(error)))
    assert caught.value is error


def test_cancelling_passes_through() -> None:
    async def scene() -> None:
        task = asyncio.create_task(within(60, "it", asyncio.sleep(60)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scene())
