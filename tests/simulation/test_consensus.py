"""Seeded runs of the consensus: real engine and driver, everything around them fake and failing."""

from __future__ import annotations

import os

import pytest

from tests.simulation.campaign import Tally, simulate
from tests.simulation.engine_needed import engine_marks
from tests.simulation.world import Faults, World

pytestmark = engine_marks()

# Interpreted, the data plane is not in it, but for a checksum.
SEEDS = 20 if os.environ.get("LEVERET_PURE", "") not in ("", "0") else 80


@pytest.mark.parametrize("first", range(0, 10 * SEEDS, SEEDS))
def test_nothing_is_broken(first: int) -> None:
    tally = Tally()
    for seed in range(first, first + SEEDS):
        tally.add(simulate(seed, 1200))
    # A campaign in which nothing happened would prove nothing.
    assert tally.answered > 40 * SEEDS and tally.crashes > 2 * SEEDS and tally.leaders > 3 * SEEDS, tally
    assert tally.changes > SEEDS and tally.installs > SEEDS / 2, tally


def test_a_seed_repeats_exactly() -> None:
    def trace(seed: int) -> list[object]:
        world = simulate(seed, 1500)
        histories = [(group, vars_of(history)) for group, history in sorted(world.checkers.groups.items())]
        return [
            world.now,
            world.crashes,
            histories,
            [(call.payload, call.index, call.answered_at) for call in world.checkers.calls],
        ]

    def vars_of(history: object) -> list[object]:
        return [getattr(history, name) for name in ("leaders", "entries", "applied", "digests", "committed_in")]

    for seed in (3, 17, 253):
        assert trace(seed) == trace(seed)
    assert trace(3) != trace(4)


def test_without_faults_nothing_waits_for_an_election() -> None:
    world = World(1, faults=Faults(10**9, 0.0, 0.0, 0.0, False)).run(3000)
    calls = world.checkers.calls
    late = [call for call in calls if call.called_at > 300 and not call.answered_at]
    assert len(calls) > 200 and len(late) < len(calls) / 10
    assert all(len(history.leaders) <= 2 for history in world.checkers.groups.values())
