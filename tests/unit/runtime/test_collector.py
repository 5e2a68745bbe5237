"""The collector: young garbage goes by itself, old garbage when memory is short, and the loop never waits long."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from leveret.runtime import collector as module
from leveret.runtime.collector import Collector


class Knot:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def collector() -> Iterator[Collector]:
    thresholds = gc.get_threshold()
    collector = Collector()
    collector.manage()
    yield collector
    collector.release()
    gc.set_threshold(*thresholds)


def make_young(count: int) -> list[list[int]]:
    return [[number] for number in range(count)]


def test_young_garbage_goes_by_itself(collector: Collector) -> None:
    knot = weakref.ref(Knot())
    kept = make_young(10 * module.YOUNG_OBJECTS)
    assert knot() is None and kept


def test_what_has_survived_is_not_looked_at_again(collector: Collector) -> None:
    """A full collection by itself would look at everything there is."""
    before = gc.get_stats()[2]["collections"]
    kept = make_young(100 * module.YOUNG_OBJECTS)
    assert gc.get_stats()[2]["collections"] == before
    assert len(gc.get_objects()) < 20 * module.YOUNG_OBJECTS, "the others are put aside"
    assert kept


def test_old_garbage_goes_when_memory_is_short(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    # The process of the tests may have collected for an hour.
    monkeypatch.setattr(module, "PAUSE_S_MAX", float("inf"))
    knot = Knot()
    gone = weakref.ref(knot)
    kept = make_young(20 * module.YOUNG_OBJECTS)
    del knot
    assert gone() is not None, "it is old"
    assert collector.collect(alarm=False)
    assert gone() is None and kept
    assert collector.collections_total == 1 and collector.collected_total >= 1


def test_a_long_collection_waits_for_an_alarm_and_is_rare(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAUSE_S_MAX", 0.0)
    assert not collector.collect(alarm=False)
    assert collector.collect(alarm=True)
    assert not collector.collect(alarm=True), "it has just been"
    monkeypatch.setattr(collector, "_rest_until", 0.0)
    assert collector.collect(alarm=True)
