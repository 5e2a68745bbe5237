"""The schedule: which queues are chosen, and when the next run is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from leveret.broker.broker import Broker
from leveret.broker.policies import Policies
from leveret.catalog import commands
from leveret.catalog.records import Parameter
from leveret.operations.reprocess.reprocessor import Reprocessor
from leveret.operations.reprocess.schedule import Plan, Schedule
from leveret.operations.reprocess.timing import parse_choice
from leveret.runtime.clock import Clock
from leveret.runtime.dice import Dice
from leveret.runtime.time_slice import TimeSlice
from tests.unit.catalog.naming import queue
from tests.unit.queues.dataplane import message


@pytest.mark.parametrize(
    ("text", "vhost", "pattern"),
    [
        ("dead", "/", "dead"),
        ("dead-.*", "/", "dead-.*"),
        ("shop/dead", "shop", "dead"),
        ("/a/b", "/", "a/b"),
        ("shop/a/b", "shop", "a/b"),
    ],
)
def test_a_choice_names_a_virtual_host_and_a_pattern(text: str, vhost: str, pattern: str) -> None:
    found, compiled = parse_choice(text)
    assert (found, compiled.text) == (vhost, pattern)


@pytest.mark.parametrize("text", ["", "shop/", "(", "(?!a)"])
def test_what_is_no_choice_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_choice(text)


class SetClock(Clock):
    now_s = 3600 * 5 + 600.0

    def wall(self) -> float:
        return self.now_s


def new_schedule(**plan: Any) -> Schedule:
    broker = Broker(Dice(), SetClock())
    return Schedule(broker, Reprocessor(broker), Plan(**plan))


def test_runs_are_at_whole_intervals_of_the_clock() -> None:
    assert new_schedule(queues=("dead",)).next_delay_s() == 3000
    assert new_schedule(queues=("dead",), every_s=7 * 3600.0).next_delay_s() == 2 * 3600 - 600


@pytest.mark.parametrize(
    ("record", "chosen"),
    [
        (queue("dead"), True),
        (queue("dead-letters"), False),
        (queue("x-dead"), False),
        (queue("dead", vhost="shop"), False),
        (queue("grave-5", vhost="shop"), True),
        (queue("dead", owner=3), False),
        (queue("leveret.archive"), False),
    ],
)
def test_the_whole_name_must_match_and_the_archive_never_does(record: Any, chosen: bool) -> None:
    schedule = new_schedule(queues=("dead", r"leveret\..*", "shop/grave-[0-9]"))
    assert (schedule.timing_of(record) is not None) is chosen


# ---- by policy, parameter and configuration


class Yard:
    """Queues a to d with a message each, and a clock that is set."""

    def __init__(self, **plan: Any) -> None:
        self.clock = SetClock()
        self.broker = Broker(Dice(), self.clock)
        self.broker.create_defaults()
        for name in "abcd":
            self.broker.apply(commands.DeclareQueue(queue(name)))
            self.broker.vhosts["/"].queues[name.encode()].publish(message(b"1"))
        self.reprocessor = Reprocessor(self.broker)
        self.schedule = Schedule(self.broker, self.reprocessor, Plan(**plan))

    def policy(self, pattern: str, **definition: Any) -> None:
        named = {key.replace("_", "-"): value for key, value in definition.items()}
        Policies(self.broker).put("/", "p", pattern, named, apply_to="queues")

    def parameter(self, name: str, **value: Any) -> None:
        named = {key.replace("_", "-"): text for key, text in value.items()}
        self.broker.apply(commands.PutParameter(Parameter("/", "reprocess-schedule", name, named)))

    def started(self, seconds: float) -> list[str]:
        """Queues that got a job when so much time had passed."""

        async def live() -> list[str]:
            loop = asyncio.get_running_loop()
            self.reprocessor.open(loop)
            self.schedule.open(loop)
            self.clock.now_s += seconds
            self.schedule._ring()
            for _ in range(10):
                await asyncio.sleep(0)
            names = sorted(job.queue for job in self.reprocessor.jobs())
            self.schedule.close()
            await self.reprocessor.close()
            for job in self.reprocessor.jobs():
                self.broker.apply(commands.DeleteJob("/", job.queue))
            return names

        return asyncio.run(live())


def test_each_queue_has_its_own_interval() -> None:
    yard = Yard(queues=("a",), schedules=(("b", "20min"),), archive_after_s=0.0)
    yard.policy("^c$", reprocess_every="10min")
    yard.parameter("d", every="1min")
    assert yard.schedule.intervals() == {3600.0, 1200.0, 600.0, 60.0}
    # 10 minutes past the hour, by the wall clock.
    assert yard.started(59) == []
    assert yard.started(1) == ["d"]
    assert yard.started(9 * 60) == ["b", "c", "d"]
    assert yard.started(40 * 60) == ["a", "b", "c", "d"]


def test_the_next_whole_interval_of_any_counts() -> None:
    yard = Yard(queues=("a",))
    assert yard.schedule.next_delay_s() == 3000
    yard.policy("^b$", reprocess_every="15min")
    assert yard.schedule.next_delay_s() == 300


def test_what_is_off_is_left_alone() -> None:
    yard = Yard(queues=(".",), schedules=(("b", "off"),))
    yard.policy("^c$", reprocess_every="off")
    yard.parameter("d", every="off")
    assert yard.started(50 * 60) == ["a"]


def test_the_age_is_the_queues_own() -> None:
    yard = Yard(queues=("a",), archive_after_s=50.0, to_files=True)
    yard.parameter("b", archive_after="2h")
    for name, after_s, by in (("a", 50.0, "configuration"), ("b", 7200.0, "parameter")):
        timing = yard.schedule.timing_of(queue(name))
        assert timing is not None
        assert (timing.every_s, timing.archive_after_s, timing.said_by) == (3600.0, after_s, by)
    assert yard.schedule.timing_of(queue("c")) is None


def test_all_schedules_are_listed_with_their_next_turn() -> None:
    yard = Yard(queues=("a",))
    yard.parameter("b", every="15min")

    async def listed() -> list[tuple[str, float]]:
        found = await yard.schedule.scheduled({"/"}, TimeSlice())
        assert await yard.schedule.scheduled({"elsewhere"}, TimeSlice()) == []
        return [(one.record.name, one.next_s) for one in found]

    assert asyncio.run(listed()) == [("a", 6 * 3600.0), ("b", 5 * 3600 + 900.0)]
