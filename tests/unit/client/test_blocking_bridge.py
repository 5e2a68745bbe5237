"""The bridge from threads into a loop: deadlines, interrupts, order, and nothing left behind."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from leveret.client.blocking import bridge as bridge_module
from leveret.client.blocking.bridge import Bridge
from leveret.client.errors import ClientClosed, ClientError, DeadlineExceeded


@pytest.fixture
def bridge() -> Iterator[Bridge]:
    before = set(threading.enumerate())
    bridge = Bridge()
    yield bridge
    bridge.close(5)
    assert not set(threading.enumerate()) - before


async def double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


async def sleep(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "awake"


def interrupt_soon() -> threading.Thread:
    def interrupt() -> None:
        time.sleep(0.1)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    return thread


def running(bridge: Bridge) -> list[str]:
    """The names of the tasks in the loop, without the one that keeps it and the one that looks."""
    names = bridge.do(lambda: [task.get_name() for task in asyncio.all_tasks()])
    return sorted(name for name in names if name.startswith("leveret-") and name != "leveret-Bridge.do")


def test_results_and_errors_come_back(bridge: Bridge) -> None:
    async def fail() -> None:
        raise KeyError("mine")

    assert bridge.call(1, double, 4) == 8
    assert bridge.call(None, double, number=5) == 10
    assert bridge.do(threading.current_thread).name == "leveret-client"
    with pytest.raises(KeyError, match="mine"):
        bridge.call(1, fail)


def test_many_threads_call_at_once(bridge: Bridge) -> None:
    with ThreadPoolExecutor(16) as pool:
        found = pool.map(lambda number: bridge.call(5, double, number), range(500))
        assert list(found) == [2 * number for number in range(500)]


def test_a_deadline_ends_the_work(bridge: Bridge) -> None:
    started = time.monotonic()
    with pytest.raises(DeadlineExceeded, match=r"sleep took longer than 0\.6 s"):
        bridge.call(0.1, sleep, 60)
    assert time.monotonic() - started < 30
    assert running(bridge) == []


def test_a_loop_that_is_stuck_keeps_nobody(bridge: Bridge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge_module, "STUCK_S", 0.1)
    monkeypatch.setattr(bridge_module, "CANCEL_S", 0.1)
    released = threading.Event()
    bridge.soon(lambda: released.wait(60))
    with pytest.raises(DeadlineExceeded, match="the client's thread is stuck"):
        bridge.call(0.1, sleep, 60)
    # The call came back although the loop is still stuck.
    released.set()
    monkeypatch.undo()
    assert running(bridge) == []


def test_an_interrupt_cancels_the_work(bridge: Bridge) -> None:
    thread = interrupt_soon()
    with pytest.raises(KeyboardInterrupt):
        bridge.call(60, sleep, 60)
    thread.join()
    assert running(bridge) == []


def test_what_came_although_the_caller_was_interrupted_is_given_back(bridge: Bridge) -> None:
    given_back: list[str] = []

    async def stubborn() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "a channel"
        return "never"

    async def undo(what: str) -> None:
        given_back.append(what)

    thread = interrupt_soon()
    with pytest.raises(KeyboardInterrupt):
        bridge.acquire(undo, 60, stubborn)
    thread.join()
    assert given_back == ["a channel"]
    assert bridge.acquire(undo, 1, sleep, 0) == "awake"
    assert given_back == ["a channel"]


def test_errands_are_run_in_order_and_before_later_calls(bridge: Bridge) -> None:
    done: list[int] = []
    for number in range(1000):
        bridge.soon(lambda number=number: done.append(number))  # type: ignore[misc]
    assert bridge.do(lambda: list(done)) == list(range(1000))


def test_items_come_one_by_one(bridge: Bridge) -> None:
    ended = threading.Event()

    async def count() -> AsyncIterator[int]:
        try:
            for number in range(5):
                yield number
        finally:
            ended.set()

    assert list(bridge.iterate(count())) == [0, 1, 2, 3, 4]
    ended.clear()
    for number in bridge.iterate(count()):
        if number == 2:
            break
    assert ended.wait(5)


def test_its_own_thread_may_not_wait_for_itself(bridge: Bridge) -> None:
    async def call_again() -> None:
        bridge.call(1, double, 1)

    with pytest.raises(ClientError, match="would wait for itself"):
        bridge.call(1, call_again)


def test_closing_ends_what_is_under_way_and_refuses_the_rest() -> None:
    bridge = Bridge()
    ended: list[str] = []

    def wait() -> None:
        try:
            bridge.call(60, sleep, 60)
        except ClientClosed as error:
            ended.append(str(error))

    threads = [threading.Thread(target=wait) for _ in range(5)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    bridge.close(5)
    for thread in threads:
        thread.join(5)
    assert ended == ["the connection was closed during sleep"] * 5
    bridge.close(5)
    for call in (lambda: bridge.call(1, double, 1), lambda: bridge.soon(ended.clear)):
        with pytest.raises(ClientClosed):
            call()
    bridge.end_soon(call_nothing, 1)


async def call_nothing() -> None:
    raise AssertionError("nobody may come in any more")


def test_a_finalizer_ends_it_without_waiting() -> None:
    bridge = Bridge()
    done: list[str] = []

    async def last() -> None:
        await asyncio.sleep(0.05)
        done.append("goodbye")

    bridge.end_soon(last, 5)
    bridge.join(5)
    assert done == ["goodbye"]
    with pytest.raises(ClientClosed):
        bridge.call(1, double, 1)


def test_a_loop_that_cannot_be_made_is_told() -> None:
    def make() -> asyncio.AbstractEventLoop:
        raise OSError("no more descriptors")

    with pytest.raises(ClientError, match="no event loop") as failed:
        Bridge(make)
    assert isinstance(failed.value.__cause__, OSError)
