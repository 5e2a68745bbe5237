"""The alarm for file descriptors: raised when somebody waits for one, ended when nobody has for a while."""

from __future__ import annotations

import asyncio
import errno

import pytest

from leveret.node import descriptor_watch
from leveret.node.descriptor_watch import ALARM, DescriptorWatch
from leveret.runtime.descriptors import DescriptorBudget
from tests.unit.runtime.endpoints import until


class Alarms:
    def __init__(self) -> None:
        self.raised: dict[str, str] = {}
        self.blocking: list[str] = []

    def raise_alarm(self, source: str, reason: str, blocks: bool = True) -> None:
        self.raised[source] = reason
        if blocks:
            self.blocking.append(source)

    def clear_alarm(self, source: str) -> None:
        del self.raised[source]


class Scene:
    def __init__(self) -> None:
        self.limit = 1024
        self.alarms = Alarms()
        self.budget = DescriptorBudget(lambda: self.limit, 11)
        self.watch = DescriptorWatch(self.budget, self.alarms)
        self.told: list[int] = []
        self.watch.on_changed = lambda budget: self.told.append(budget.limit)


def test_a_peer_that_waits_raises_the_alarm_and_quiet_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptor_watch, "INTERVAL_S", 0.01)
    monkeypatch.setattr(descriptor_watch, "QUIET_S", 0.1)

    async def test() -> None:
        scene = Scene()
        scene.watch.start(asyncio.get_running_loop())
        await asyncio.sleep(0.05)
        assert scene.alarms.raised == {}
        scene.budget.http.used = scene.budget.http.limit
        scene.budget.http.refused_total += 1
        await until(lambda: scene.alarms.raised)
        assert f"{scene.budget.http.limit} of {scene.budget.http.limit} http" in scene.alarms.raised[ALARM]
        await until(lambda: not scene.alarms.raised)
        # Connections that are open go on all the time.
        assert scene.alarms.blocking == []
        assert scene.watch.alarms_total == 1
        scene.watch.stop()

    asyncio.run(test())


def test_storage_that_waits_raises_it_at_once() -> None:
    async def test() -> None:
        scene = Scene()
        scene.watch.start(asyncio.get_running_loop())
        scene.watch.shortage("open a segment", OSError(errno.ENOSPC, "No space left on device"))
        assert scene.alarms.raised == {}
        scene.watch.shortage("open a segment", OSError(errno.EMFILE, "Too many open files"))
        assert "storage waits for a file descriptor (open a segment)" in scene.alarms.raised[ALARM]
        assert scene.watch.shortages_total == {"descriptors": 1, "memory": 0, "space": 1, "other": 0}
        scene.watch.stop()

    asyncio.run(test())


def test_a_limit_that_is_changed_from_outside_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptor_watch, "INTERVAL_S", 0.01)

    async def test() -> None:
        scene = Scene()
        scene.watch.start(asyncio.get_running_loop())
        scene.limit = 256
        await until(lambda: scene.told == [1024, 256])
        scene.watch.stop()

    asyncio.run(test())
