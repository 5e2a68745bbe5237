"""The leak check notices what it is for."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading

import pytest

from tests.client import leaks
from tests.client.leaks import no_leaks


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaks, "PATIENCE_S", 0.1)


def test_nothing_is_left_of_nothing() -> None:
    async def scene() -> None:
        async with no_leaks():
            await asyncio.create_task(asyncio.sleep(0))
            with socket.socket():
                pass

    asyncio.run(scene())
    with no_leaks():
        thread = threading.Thread(target=lambda: None)
        thread.start()
        thread.join()


def test_a_task_is_noticed() -> None:
    async def scene() -> None:
        with pytest.raises(AssertionError, match=r"task .*sleeper"):
            async with no_leaks():
                task = asyncio.create_task(asyncio.sleep(60), name="sleeper")
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(scene())


def test_a_task_that_ends_soon_is_none() -> None:
    async def scene() -> None:
        async with no_leaks():
            task = asyncio.create_task(asyncio.sleep(0.02))
        assert task.done()

    asyncio.run(scene())


def test_a_socket_is_noticed() -> None:
    with socket.socket() as before:
        with pytest.raises(AssertionError, match="socket:"), no_leaks():
            left = socket.socket()
        left.close()
        with no_leaks():
            before.close()


def test_a_thread_is_noticed() -> None:
    end = threading.Event()
    thread = threading.Thread(target=end.wait, name="idler")
    with pytest.raises(AssertionError, match="thread idler"), no_leaks():
        thread.start()
    end.set()
    thread.join()


def test_an_error_within_is_not_hidden() -> None:
    async def scene() -> None:
        with pytest.raises(ValueError, match="the real one"):
            async with no_leaks():
                task = asyncio.create_task(asyncio.sleep(60))
                raise ValueError("the real one")
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(scene())
