"""Events: told in order, kept for a while, and never in anybody's way."""

from __future__ import annotations

import asyncio
from typing import Any

from leveret.broker.events import RING, Event, Events
from leveret.catalog.commands import Added, Removed
from leveret.catalog.records import ExchangeRecord, GlobalParameter, QueueRecord, User

QUEUE = QueueRecord("/", "q", "classic", True, False, 0, {})


def collected(events: Events, after: int | None, many: int, wait_s: float = 0.01) -> list[Any]:
    async def collect() -> list[Any]:
        found: list[Any] = []
        listening = events.listen(after, wait_s)
        async for event in listening:
            found.append(event)
            if len(found) == many:
                break
        await listening.aclose()
        return found

    return asyncio.run(collect())


def kinds(found: list[Any]) -> list[str]:
    return [event.kind for event in found if isinstance(event, Event)]


def test_records_that_come_and_go_are_told_by_their_names() -> None:
    events = Events(100)
    events.changed(Added(QUEUE), 5)
    events.changed(Removed(QUEUE), 6)
    events.changed(Added(ExchangeRecord("/", "x", "topic", True, False, False, {})), 7)
    events.changed(Added(User("bob", "secret hash", ())), 8)
    events.changed(Added(GlobalParameter("leveret.own", 1)), 9)
    found = collected(events, 99, 4)
    assert kinds(found) == ["queue.created", "queue.deleted", "exchange.created", "user.put"]
    assert [event.id for event in found] == [100, 101, 102, 103]
    assert (found[0].at_ms, found[0].vhost, found[0].what["name"]) == (5, "/", "q")
    assert found[3].what == {"name": "bob"}, "and nothing that is secret"


def test_whoever_comes_back_gets_what_he_missed() -> None:
    events = Events(1)
    for number in range(5):
        events.tell(f"e{number}", number, {})
    assert kinds(collected(events, 3, 2)) == ["e3", "e4"]
    assert collected(events, 5, 1) == [None], "nothing new, and a sign of life"
    assert collected(events, None, 1) == [None], "from now on"


def test_what_is_no_longer_kept_is_counted() -> None:
    events = Events(1)
    for number in range(RING + 10):
        events.tell(f"e{number}", 0, {})
    missed, first = collected(events, 2, 2)
    assert (missed, first.kind) == (8, "e10")


def test_ids_of_another_life_begin_anew() -> None:
    events = Events(1)
    events.tell("e", 0, {})
    assert kinds(collected(events, 10**15, 1)) == ["e"]


def test_listeners_are_woken_and_end_with_the_broker() -> None:
    async def scene() -> tuple[list[str], int]:
        events = Events(1)
        heard: list[str] = []

        async def listen() -> None:
            async for event in events.listen(None, 60):
                assert isinstance(event, Event)
                heard.append(event.kind)

        listeners = [asyncio.create_task(listen()) for _ in range(3)]
        await asyncio.sleep(0)
        assert events.listener_count == 3
        events.tell("first", 0, {})
        await asyncio.sleep(0.01)
        events.tell("second", 0, {})
        await asyncio.sleep(0.01)
        events.close()
        await asyncio.wait_for(asyncio.gather(*listeners), 5)
        return heard, events.listener_count

    heard, left = asyncio.run(scene())
    assert sorted(heard) == ["first"] * 3 + ["second"] * 3
    assert left == 0
