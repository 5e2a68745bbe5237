"""Events of a connection: every listener hears everything from the moment it began to listen."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator

from leveret.client.events import WAITING_MAX, Blocked, Closed, Event, Events, Lost, Unblocked


async def heard(listener: AsyncIterator[Event]) -> list[Event]:
    async with asyncio.timeout(60):
        return [event async for event in listener]


def test_it_is_heard_from_the_moment_of_listening() -> None:
    async def scene() -> None:
        events = Events()
        events.tell(Lost("before"))
        listener = events.listen()
        events.tell(Blocked("memory"))
        events.tell(Unblocked())
        events.tell(Closed("done"))
        assert await heard(listener) == [Blocked("memory"), Unblocked(), Closed("done")]
        assert await heard(listener) == [], "it is over"

    asyncio.run(scene())


def test_one_who_comes_after_the_end_hears_of_it() -> None:
    async def scene() -> None:
        events = Events()
        events.tell(Closed("done"))
        [event] = await heard(events.listen())
        assert isinstance(event, Closed)

    asyncio.run(scene())


def test_all_hear_the_same_at_their_own_pace() -> None:
    async def scene() -> None:
        events = Events()
        fast, slow = events.listen(), events.listen()
        waiting = asyncio.create_task(anext(fast))
        await asyncio.sleep(0)
        events.tell(Lost("1"))
        assert await waiting == Lost("1")
        events.tell(Lost("2"))
        events.tell(Closed("done"))
        assert await heard(fast) == [Lost("2"), Closed("done")]
        assert await heard(slow) == [Lost("1"), Lost("2"), Closed("done")]

    asyncio.run(scene())


def test_who_does_not_look_keeps_the_newest() -> None:
    async def scene() -> None:
        events = Events()
        listener = events.listen()
        for at in range(WAITING_MAX + 10):
            events.tell(Lost(str(at)))
        events.tell(Closed("done"))
        found = await heard(listener)
        assert len(found) == WAITING_MAX
        assert found[0] == Lost("11")
        assert found[-1] == Closed("done")

    asyncio.run(scene())


def test_who_goes_away_is_forgotten_without_a_task() -> None:
    async def scene() -> None:
        events = Events()
        for at in range(10):
            listener = events.listen()
            events.tell(Lost(str(at)))
            async for event in listener:
                assert event == Lost(str(at))
                break
        del listener
        events.listen()
        gc.collect()
        assert len(events._listeners) == 0
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scene())


def test_a_listener_that_is_cancelled_can_listen_again() -> None:
    async def scene() -> None:
        events = Events()
        listener = events.listen()
        waiting = asyncio.create_task(anext(listener))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        events.tell(Lost("later"))
        async with asyncio.timeout(60):
            assert await anext(listener) == Lost("later")

    asyncio.run(scene())
