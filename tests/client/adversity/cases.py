"""Every step of a good run with a fault at it: which cases there are, how one is run, and what is sampled of them."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar

from tests.client.adversity.compact import Compact
from tests.client.adversity.ledger import Ledger
from tests.client.faults import Action, Step, When
from tests.client.proxy import Proxy

T = TypeVar("T")
WHENS: Final[tuple[When, ...]] = ("before", "middle", "after")
# All of them, not a sample.
ALL: Final = os.environ.get("LEVERET_CLIENT_ADVERSITY") == "all"
SEED: Final = int(os.environ.get("LEVERET_CLIENT_ADVERSITY_SEED", "7"))


class Case(NamedTuple):
    step: Step
    action: Action

    def __str__(self) -> str:
        step = self.step
        return f"{self.action.name} {step.when} {step.name} number {step.nth} of the {step.side}"


def every_case(steps: Sequence[Step], actions: Sequence[Action], whens: Sequence[When] = WHENS) -> list[Case]:
    # Heartbeats come when they like.
    named = [step for step in steps if step.name != "heartbeat"]
    return [Case(replace(step, when=when), action) for step in named for when in whens for action in actions]


def sample(everything: Sequence[T], count: int) -> list[T]:
    """Always the same ones, unless all are wanted."""
    if ALL or len(everything) <= count:
        return list(everything)
    return random.Random(SEED).sample(list(everything), count)


async def good_steps(proxy: Proxy) -> list[Step]:
    """What passes when nothing goes wrong."""
    await Compact(proxy.url, Ledger()).run()
    return proxy.steps()


def tasks_left(before: set[asyncio.Task[Any] | None]) -> list[str]:
    return [f"task left: {task!r}" for task in asyncio.all_tasks() - before]
