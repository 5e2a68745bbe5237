"""The line of logins: whoever comes during a storm waits for one login of each address, not for the storm."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from leveret.auth import login_queue as login_line
from leveret.auth.login_queue import LoginQueue
from leveret.errors import LoginRefused


class Storm:
    """A line with one thread that stands still until it is let go, and the order in which the logins were served."""

    def __init__(self, threads: int = 1) -> None:
        self.line = LoginQueue(threads)
        self.served: list[str] = []
        self.go = threading.Event()
        self.holding = threading.Event()
        self.tasks: list[asyncio.Task[None]] = []

    def _hold(self) -> None:
        self.holding.set()
        self.go.wait(20)

    async def begin(self) -> None:
        self.tasks.append(asyncio.ensure_future(self.line.run("10.9.9.9", self._hold)))
        await asyncio.sleep(0)
        assert await asyncio.to_thread(self.holding.wait, 20)

    async def arrive(self, host: str, name: str) -> asyncio.Task[None]:
        task = asyncio.ensure_future(self.line.run(host, self.served.append, name))
        self.tasks.append(task)
        await asyncio.sleep(0)
        return task

    async def end(self) -> list[BaseException | None]:
        self.go.set()
        return await asyncio.gather(*self.tasks, return_exceptions=True)


@pytest.fixture
def storm() -> Iterator[Storm]:
    made = Storm()
    yield made
    made.go.set()
    made.line.close()


def test_a_newcomer_waits_for_one_login_of_each_address(storm: Storm) -> None:
    """What was reported: 360 connections from 60 addresses, and then somebody else."""

    async def act() -> None:
        await storm.begin()
        for number in range(6):
            for address in range(60):
                await storm.arrive(f"10.0.0.{address}", f"storm {number}")
        await storm.arrive("10.0.1.1", "newcomer")
        await storm.end()

    asyncio.run(act())
    assert storm.served.index("newcomer") == 60
    assert len(storm.served) == 361
    assert storm.line.waiting == 0


def test_one_address_with_a_long_line_delays_others_by_one(storm: Storm) -> None:
    async def act() -> None:
        await storm.begin()
        for number in range(100):
            await storm.arrive("10.0.0.1", f"storm {number}")
        for number in range(3):
            await storm.arrive("10.0.0.2", f"other {number}")
        await storm.end()

    asyncio.run(act())
    assert storm.served[:6] == ["storm 0", "other 0", "storm 1", "other 1", "storm 2", "other 2"]


def test_a_household_of_ipv6_is_one_address(storm: Storm) -> None:
    async def act() -> None:
        await storm.begin()
        for number in range(50):
            await storm.arrive(f"2001:db8::{number + 1:x}", f"storm {number}")
        await storm.arrive("2001:db8:0:1::1", "other")
        await storm.end()

    asyncio.run(act())
    assert storm.served.index("other") == 1


def test_a_full_line_is_refused_and_others_are_not(storm: Storm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_line, "WAITING_PER_ADDRESS_MAX", 3)

    async def act() -> list[BaseException | None]:
        await storm.begin()
        for number in range(5):
            await storm.arrive("10.0.0.1", f"storm {number}")
        await storm.arrive("10.0.0.2", "other")
        return await storm.end()

    ended = asyncio.run(act())
    assert [isinstance(one, LoginRefused) for one in ended] == [False] * 4 + [True, True, False]
    assert storm.served == ["storm 0", "other", "storm 1", "storm 2"]
    assert storm.line.refused_total == 2


def test_when_all_lines_are_full_the_longest_gives_way(storm: Storm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_line, "WAITING_MAX", 4)

    async def act() -> list[BaseException | None]:
        await storm.begin()
        for number in range(4):
            await storm.arrive("10.0.0.1", f"storm {number}")
        for number in range(3):
            await storm.arrive("10.0.0.2", f"other {number}")
        return await storm.end()

    ended = asyncio.run(act())
    refused = [isinstance(one, LoginRefused) for one in ended]
    assert refused == [False, False, False, True, True, False, False, True]
    assert storm.served == ["storm 0", "other 0", "storm 1", "other 1"]


def test_whoever_hangs_up_leaves_the_line(storm: Storm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_line, "WAITING_PER_ADDRESS_MAX", 2)

    async def act() -> None:
        await storm.begin()
        for number in range(10):
            task = await storm.arrive("10.0.0.1", f"gone {number}")
            task.cancel()
            await asyncio.wait([task])
        assert storm.line.waiting == 0
        await storm.arrive("10.0.0.1", "stays")
        await storm.end()

    asyncio.run(act())
    assert storm.served == ["stays"]


def test_the_further_steps_of_a_login_are_not_refused(storm: Storm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_line, "WAITING_PER_ADDRESS_MAX", 0)

    async def act() -> None:
        with pytest.raises(LoginRefused):
            await storm.line.run("10.0.0.1", storm.served.append, "first step")
        await storm.line.run("10.0.0.1", storm.served.append, "second step", has_waited=True)

    asyncio.run(act())
    assert storm.served == ["second step"]


def test_as_many_run_beside_each_other_as_there_are_threads() -> None:
    storm = Storm(threads=3)
    together = threading.Barrier(3)

    async def act() -> None:
        await asyncio.gather(*(storm.line.run(f"10.0.0.{number}", together.wait, 20) for number in range(3)))

    try:
        asyncio.run(act())
    finally:
        storm.line.close()


def test_an_error_of_the_work_is_the_callers() -> None:
    line = LoginQueue(1)

    def fail() -> None:
        raise ValueError("odd")

    async def act() -> None:
        with pytest.raises(ValueError, match="odd"):
            await line.run("", fail)
        assert await line.run("", int, "7") == 7

    try:
        asyncio.run(act())
    finally:
        line.close()
