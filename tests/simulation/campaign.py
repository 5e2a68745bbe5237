"""Many seeds, one after the other: `python -m tests.simulation.campaign --seeds 1000`, or `--minutes 60`.

A seed determines everything in a run. One that fails is printed, and `--first SEED --seeds 1` repeats it exactly."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass

from tests.simulation.world import World


@dataclass(slots=True)
class Tally:
    """What a campaign has seen; without crashes, elections or installs it would show nothing."""

    runs: int = 0
    calls: int = 0
    answered: int = 0
    leaders: int = 0
    installs: int = 0
    changes: int = 0
    crashes: int = 0

    def add(self, world: World) -> None:
        self.runs += 1
        self.calls += len(world.checkers.calls)
        self.answered += sum(call.answered_at > 0 for call in world.checkers.calls)
        self.leaders += sum(len(history.leaders) for history in world.checkers.groups.values())
        self.installs += world.installs
        self.changes += world.administrator.changes
        self.crashes += world.crashes

    def __str__(self) -> str:
        return (
            f"{self.runs} runs: {self.answered} of {self.calls} proposals answered, {self.leaders} elections, "
            f"{self.crashes} crashes, {self.changes} changes of members, {self.installs} installs"
        )


def simulate(seed: int, units: int, mistakes: Iterable[str] = ()) -> World:
    """One run; whatever is raised in it names the seed."""
    try:
        return World(seed, mistakes).run(units)
    except Exception as error:
        error.add_note(f"seed {seed}: python -m tests.simulation.campaign --first {seed} --seeds 1 --units {units}")
        raise


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.campaign", description=__doc__.split("\n")[0])
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1000, help="how many, unless --minutes is given")
    parser.add_argument("--minutes", type=float, default=0, help="as many seeds as fit into this time")
    parser.add_argument("--units", type=int, default=2000, help="virtual time under faults; a tick is 10 units")
    chosen = parser.parse_args()
    tally, ends = Tally(), time.monotonic() + 60 * chosen.minutes
    seed, told = chosen.first, time.monotonic()
    while time.monotonic() < ends if chosen.minutes else seed < chosen.first + chosen.seeds:
        try:
            tally.add(simulate(seed, chosen.units))
        except Exception as error:
            sys.stdout.write(f"seed {seed} fails: {type(error).__name__}: {error}\n{tally}\n")
            raise
        seed += 1
        if time.monotonic() - told > 10:
            told = time.monotonic()
            sys.stdout.write(f"up to seed {seed}; {tally}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{tally}; nothing is broken\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
