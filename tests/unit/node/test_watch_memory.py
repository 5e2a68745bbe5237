"""The watch and its memory: collecting and giving back before an alarm, and giving back what a backlog has left."""

from __future__ import annotations

import pytest

from tests.unit.node.test_watch import MIB, Scene, gaps


@pytest.fixture
def scene() -> Scene:
    scene = Scene()
    scene.watch.start()
    return scene


def test_garbage_is_collected_before_an_alarm_is_raised(scene: Scene) -> None:
    def collected() -> None:
        scene.memory.resident = 20 * MIB

    scene.on_collect = collected
    scene.use(101)
    assert scene.collections == [False]
    assert (scene.alarms, scene.watch.memory_alarms_total, scene.watch.memory_alarms_averted_total) == ({}, 0, 1)


def test_memory_is_given_back_before_an_alarm_is_raised(scene: Scene) -> None:
    def give_back() -> bool:
        scene.memory.resident = 20 * MIB
        return True

    scene.memory.give_back = give_back  # type: ignore[method-assign]
    scene.use(101)
    assert (scene.alarms, scene.watch.memory_alarms_averted_total) == ({}, 1)
    assert scene.watch.returned_bytes_total == 81 * MIB


def test_an_alarm_that_cannot_be_averted_is_raised_at_once(scene: Scene) -> None:
    scene.use(101, 0.3)
    assert scene.alarms
    # With the alarm up garbage may be collected although that takes long.
    assert scene.collections[0] is False and True in scene.collections


def test_what_comes_back_soon_after_it_was_averted_raises_the_alarm(scene: Scene) -> None:
    """Collecting over and over would take all the time there is."""
    scene.on_collect = lambda: setattr(scene.memory, "resident", 20 * MIB)
    scene.use(101)
    scene.use(101, 0.1)
    assert scene.watch.memory_alarms_total == 1


def test_much_that_was_freed_is_given_back_without_any_pressure(scene: Scene) -> None:
    scene.use(40, 5)
    assert scene.memory.trims == []
    scene.memory.free = 12 * MIB
    scene.use(40, 5)
    assert scene.memory.trims == [], "that little is not worth it"
    scene.memory.free = 30 * MIB
    scene.use(40, 5)
    assert len(scene.memory.trims) == 1, "once: it is as free afterwards as before"


def test_what_is_used_again_at_once_is_not_given_back_each_time(scene: Scene) -> None:
    """Every message would cost page faults."""
    for _ in range(40):
        scene.memory.free = 40 * MIB
        scene.use(40, 0.5)
        scene.memory.free = 0
        scene.use(40, 0.5)
    assert 1 <= len(scene.memory.trims) <= 4


def test_a_backlog_that_drains_is_given_back_in_small_pieces(scene: Scene) -> None:
    scene.memory.trim_s = 0.005
    for _ in range(100):
        scene.memory.free += 8 * MIB
        scene.use(40, 0.05)
    assert len(scene.memory.trims) >= 25


# ---- while memory is short


def test_memory_is_given_back_as_long_as_the_alarm_lasts(scene: Scene) -> None:
    scene.use(101, 2)
    above = len(scene.memory.trims)
    assert 3 <= above <= 5
    # Below the watermark, but not yet so far that the alarm ends.
    scene.use(97, 2)
    assert 3 <= len(scene.memory.trims) - above <= 5
    assert min(gaps(scene.memory.trims)) >= 0.5
    assert scene.watch.trims_total == len(scene.memory.trims)


def test_memory_is_given_back_less_often_when_there_is_only_pressure(scene: Scene) -> None:
    scene.use(50, 30)
    assert scene.memory.trims == []
    scene.use(90, 30)
    assert 5 <= len(scene.memory.trims) <= 7
    assert min(gaps(scene.memory.trims)) >= 5
    # An alarm does not wait for that.
    scene.use(101)
    scene.loop.advance(0.3)
    assert scene.loop.now - scene.memory.trims[-1] <= 0.6


def test_giving_back_that_takes_long_is_done_seldom(scene: Scene) -> None:
    scene.memory.trim_s = 0.2
    scene.use(101, 30)
    assert len(scene.memory.trims) >= 6
    assert min(gaps(scene.memory.trims)) >= 4.2
