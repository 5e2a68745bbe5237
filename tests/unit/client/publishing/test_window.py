"""How much may be under way: never more than the window, first come first served, also when some give up."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.client.errors import ClientClosed, DeadlineExceeded
from leveret.client.publishing.window import Window


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def waits(window: Window, size: int = 1, due: float = 1e9) -> asyncio.Task[None]:
    return asyncio.ensure_future(window.wait(size, due, asyncio.get_running_loop()))


def test_bounds_of_count_and_bytes() -> None:
    window = Window(2, 10)
    assert window.take(4) and window.take(6)
    assert not window.take(0)
    window.release(1, 4)
    assert not window.take(5)
    assert window.take(4)
    assert (window.count, window.bytes) == (2, 10)


def test_what_is_larger_than_the_window_goes_alone() -> None:
    window = Window(10, 10)
    assert window.take(100)
    assert not window.take(1)
    window.release(1, 100)
    assert window.take(1)
    assert not window.take(100)


@pytest.mark.parametrize(("count", "size"), [(0, 1), (1, 0), (-1, 1)])
def test_a_window_without_room(count: int, size: int) -> None:
    with pytest.raises(ValueError, match="window"):
        Window(count, size)


def test_first_come_first_served() -> None:
    async def script() -> None:
        window = Window(1, 100)
        assert window.take(1)
        tasks = [waits(window) for _ in range(3)]
        await turns()
        assert window.waiting == 3
        for position in range(3):
            # Nobody overtakes, though there is room for a moment.
            window.release(1, 1)
            assert not window.take(1)
            await turns()
            assert [task.done() for task in tasks] == [other <= position for other in range(3)]
        window.release(1, 1)
        assert window.take(1)

    asyncio.run(script())


def test_a_large_one_at_the_head_is_not_starved() -> None:
    async def script() -> None:
        window = Window(10, 10)
        assert window.take(5)
        large, small = waits(window, 8), waits(window, 1)
        await turns()
        assert not large.done() and not small.done()
        window.release(1, 5)
        await turns()
        assert large.done() and small.done()
        assert window.bytes == 9

    asyncio.run(script())


def test_who_gives_up_is_not_in_the_way() -> None:
    async def script() -> None:
        window = Window(1, 100)
        assert window.take(1)
        first, second = waits(window), waits(window)
        await turns()
        first.cancel()
        await turns()
        window.release(1, 1)
        await turns()
        assert second.done() and window.count == 1

    asyncio.run(script())


def test_who_gives_up_when_it_is_let_in_gives_its_room_back() -> None:
    async def script() -> None:
        window = Window(1, 100)
        assert window.take(1)
        first, second = waits(window), waits(window)
        await turns()
        window.release(1, 1)
        first.cancel()
        await turns()
        assert first.cancelled() and second.done()
        assert window.count == 1

    asyncio.run(script())


def test_much_waits_for_half_of_the_window() -> None:
    async def script() -> None:
        window = Window(10, 100)
        for _ in range(10):
            assert window.take(1)
        much = asyncio.ensure_future(window.wait_for_much(1e9, asyncio.get_running_loop()))
        behind = waits(window)
        await turns()
        window.release(4, 4)
        await turns()
        assert not much.done() and not behind.done()
        window.release(1, 1)
        await turns()
        assert much.done() and behind.done() and window.count == 6

    asyncio.run(script())


def test_expired_ones_are_sent_away() -> None:
    async def script() -> None:
        window = Window(1, 100)
        assert window.take(1)
        early, late = waits(window, due=5), waits(window, due=9)
        await turns()
        assert window.expire(4) == 5
        assert window.expire(5) == 9
        await turns()
        with pytest.raises(DeadlineExceeded, match="no room"):
            await early
        assert not late.done() and window.waiting == 1
        window.release(1, 1)
        await late
        assert window.expire(100) == float("inf")

    asyncio.run(script())


def test_at_the_end_all_are_sent_away() -> None:
    async def script() -> None:
        window = Window(1, 100)
        assert window.take(1)
        tasks = [waits(window), waits(window)]
        await turns()
        window.end("it was closed")
        for task in tasks:
            with pytest.raises(ClientClosed, match="it was closed"):
                await task

    asyncio.run(script())


@given(st.lists(st.tuples(st.sampled_from(["take", "wait", "release", "cancel"]), st.integers(1, 6)), max_size=60))
def test_against_a_model(steps: list[tuple[str, int]]) -> None:
    """Whoever is in is counted, the bound holds, and nobody waits while there is room for the first in line."""

    async def script() -> None:
        window = Window(4, 10)
        inside: list[int] = []
        line: list[tuple[int, asyncio.Task[None]]] = []

        async def settle() -> None:
            await turns()
            while line and line[0][1].done():
                size, task = line.pop(0)
                if not task.cancelled():
                    inside.append(size)

        for what, size in steps:
            if what == "take":
                had_room = not line and len(inside) < 4 and (sum(inside) + size <= 10 or not inside)
                assert window.take(size) == had_room
                if had_room:
                    inside.append(size)
            elif what == "wait" and (line or len(inside) >= 4 or sum(inside) + size > 10):
                line.append((size, waits(window, size)))
            elif what == "release" and inside:
                window.release(1, inside.pop(0))
            elif what == "cancel" and line:
                _, task = line.pop(size % len(line))
                task.cancel()
            await settle()
            assert (window.count, window.bytes) == (len(inside), sum(inside))
            if line:
                assert len(inside) == 4 or (sum(inside) + line[0][0] > 10 and inside)
        for _, task in line:
            task.cancel()
        await asyncio.gather(*(task for _, task in line), return_exceptions=True)

    asyncio.run(script())


def test_room_that_was_never_taken_cannot_be_given_back() -> None:
    with pytest.raises(AssertionError):
        Window(1, 1).release(1, 0)
