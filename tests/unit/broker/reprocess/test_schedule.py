"""The schedule: which queues are chosen, and when the next run is."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.broker.broker import Broker
from leveret.broker.reprocess.reprocessor import Reprocessor
from leveret.broker.reprocess.schedule import Plan, Schedule, parse_choice
from leveret.runtime.clock import Clock
from leveret.runtime.dice import Dice
from tests.unit.catalog.naming import queue


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
    assert (found, compiled.pattern) == (vhost, pattern)


@pytest.mark.parametrize("text", ["", "shop/", "(", "(a*)*"])
def test_what_is_no_choice_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_choice(text)


class SetClock(Clock):
    def wall(self) -> float:
        return 3600 * 5 + 600.0


def new_schedule(**plan: Any) -> Schedule:
    broker = Broker(Dice(), SetClock())
    return Schedule(broker, Reprocessor(broker), Plan(**plan))


def test_runs_are_at_whole_intervals_of_the_clock() -> None:
    assert new_schedule().next_delay_s() == 3000
    assert new_schedule(every_s=7 * 3600.0).next_delay_s() == 2 * 3600 - 600


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
    assert schedule._is_chosen(record) is chosen
