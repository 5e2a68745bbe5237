"""Long random histories of a state machine, step by step from a seed: they get to states that hypothesis, which likes
short and simple examples, seldom reaches. What fails is told with its seed and its steps; hypothesis finds the short
ones."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

# How likely a step is compared to others, how its arguments are chosen, and when it can be done at all.
Step = tuple[int, str, Callable[[Random], dict[str, Any]], Callable[[Any], Any]]


def play(machine: Any, steps: list[Step], seed: int, length: int, check: Callable[[], None]) -> None:
    """The first of the steps, then so many of the others, then the machine's end."""
    random = Random(seed)
    weights = [step[0] for step in steps[1:]]
    told = []
    try:
        for step in [steps[0], *random.choices(steps[1:], weights, k=length)]:
            _, name, choose, can = step
            if can(machine):
                arguments = choose(random)
                told.append(f"{name}(**{arguments})")
                getattr(machine, name)(**arguments)
                check()
        machine.teardown()
    except Exception as error:
        error.add_note(f"seed {seed}, after:\n" + "\n".join(told))
        raise


def several(random: Random, most: int, choose: Callable[[], Any]) -> list[Any]:
    return [choose() for _ in range(random.randint(1, most))]
