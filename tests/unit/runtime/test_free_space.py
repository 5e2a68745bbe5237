"""Free space: what is left for anybody, asked one question at a time without ever holding the loop up."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from leveret.runtime import free_space
from leveret.runtime.free_space import FreeSpace, free_bytes


class HungDisk:
    """A question for free space that takes until the test lets it go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = threading.Event()
        self.released = threading.Event()
        self.questions = 0
        self.threads: list[threading.Thread] = []
        monkeypatch.setattr(free_space, "free_bytes", self.free_bytes)

    def free_bytes(self, directory: str) -> int:
        self.questions += 1
        self.threads.append(threading.current_thread())
        self.asked.set()
        assert self.released.wait(30)
        return 4711

    def let_go(self) -> None:
        self.released.set()
        for thread in self.threads:
            thread.join(30)


async def answer_of(space: FreeSpace) -> int | OSError:
    future: asyncio.Future[int | OSError] = asyncio.get_running_loop().create_future()
    assert space.ask(future.set_result)
    return await asyncio.wait_for(future, 30)


def test_the_reserve_of_root_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = SimpleNamespace(f_bavail=90, f_bfree=100, f_frsize=512, f_bsize=4096)
    monkeypatch.setattr(os, "statvfs", lambda directory: answer)
    assert free_bytes("/data") == 90 * 512


def test_a_directory_has_free_space(tmp_path: Path) -> None:
    total = os.statvfs(tmp_path)
    assert 0 <= free_bytes(str(tmp_path)) <= total.f_blocks * total.f_frsize


def test_the_answer_comes_on_the_loop(tmp_path: Path) -> None:
    async def live() -> None:
        threads: list[threading.Thread] = []
        arrived = asyncio.Event()

        def answered(answer: int | OSError) -> None:
            assert isinstance(answer, int)
            threads.append(threading.current_thread())
            arrived.set()

        space = FreeSpace(asyncio.get_running_loop(), str(tmp_path))
        assert space.ask(answered)
        await asyncio.wait_for(arrived.wait(), 30)
        assert threads == [threading.current_thread()]

    asyncio.run(live())


def test_an_error_is_an_answer(tmp_path: Path) -> None:
    async def live() -> None:
        space = FreeSpace(asyncio.get_running_loop(), str(tmp_path / "missing"))
        assert isinstance(await answer_of(space), FileNotFoundError)
        # And does not keep the next question from being asked.
        assert isinstance(await answer_of(space), FileNotFoundError)

    asyncio.run(live())


def test_a_hung_question_gathers_no_others_and_does_not_hold_the_loop_up(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = HungDisk(monkeypatch)

    async def live() -> None:
        space = FreeSpace(asyncio.get_running_loop(), "/data")
        future: asyncio.Future[int | OSError] = asyncio.get_running_loop().create_future()
        assert space.ask(future.set_result)
        assert disk.asked.wait(30)
        refused: Callable[[int | OSError], None] = pytest.fail  # type: ignore[assignment]
        assert [space.ask(refused) for _ in range(10)] == [False] * 10
        assert disk.questions == 1 and not future.done()
        disk.let_go()
        assert await asyncio.wait_for(future, 30) == 4711
        assert await answer_of(space) == 4711

    asyncio.run(live())


def test_a_late_answer_after_close_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = HungDisk(monkeypatch)

    async def live() -> None:
        answers: list[int | OSError] = []
        space = FreeSpace(asyncio.get_running_loop(), "/data")
        space.ask(answers.append)
        assert disk.asked.wait(30)
        space.close()
        disk.let_go()
        # The thread has ended, so its answer stands before this turn of the loop.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert answers == []

    asyncio.run(live())


def test_a_hung_question_keeps_neither_loop_nor_process_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = HungDisk(monkeypatch)

    async def live() -> None:
        FreeSpace(asyncio.get_running_loop(), "/data").ask(pytest.fail)  # type: ignore[arg-type]
        assert disk.asked.wait(30)

    asyncio.run(live())
    assert [thread.daemon for thread in disk.threads] == [True]
    # Its answer finds the loop closed; a traceback in the thread would fail this test.
    disk.let_go()


def test_a_process_out_of_threads_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def live() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", start)
            answer = await answer_of(FreeSpace(asyncio.get_running_loop(), "/data"))
        assert isinstance(answer, OSError) and str(answer) == "can't start new thread"

    asyncio.run(live())
