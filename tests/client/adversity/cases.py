"""Every step of a good run with a fault at it: which cases there are, how one is run, and what is sampled of them."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar

from leveret.client import ClientError
from tests.client.adversity.checkers import findings
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


async def struck_life(proxy: Proxy, case: Case, *, may_fail: bool = False, **options: float) -> tuple[bool, list[str]]:
    """A compact life with this fault in it. Gives whether the fault happened, and what is wrong."""
    ledger = Ledger()
    watch = asyncio.create_task(ledger.watch_lag())
    struck = proxy.at(case.step, case.action)
    wrong: list[str] = []
    try:
        await Compact(proxy.url, ledger, **options).run()
    except Exception as error:  # noqa: BLE001 - it is a finding
        # With deadlines that are shorter than heartbeats, calls may fail; but they fail in time.
        if not (may_fail and isinstance(error, ClientError)):
            wrong.append(f"raised: {error!r}")
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
        proxy.disarm()
    # A life that was cut short has not come to consume what was confirmed.
    wrong += [one for one in findings(ledger) if not (may_fail and one.startswith("lost"))]
    return struck.is_set(), [f"{one} ({case})" for one in wrong]


async def lone_life(proxy: Proxy, case: Case, *, may_fail: bool = False, **options: float) -> tuple[bool, list[str]]:
    """The same when no other is lived at its side: it must not leave a task behind."""
    before = asyncio.all_tasks()
    struck, wrong = await struck_life(proxy, case, may_fail=may_fail, **options)
    return struck, wrong + [f"{one} ({case})" for one in tasks_left(before)]
