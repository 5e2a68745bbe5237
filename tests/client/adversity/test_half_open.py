"""A cable that is pulled at any step: nothing waits beyond its deadline, and heartbeats notice."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import replace
from typing import Final

import pytest

from tests.client.adversity.cases import ALL, WHENS, Case, every_case, good_steps, sample, struck_life, tasks_left
from tests.client.adversity.checkers import shortened
from tests.client.amqp_server import AmqpServer
from tests.client.leaks import no_leaks
from tests.client.proxy import HALF_OPEN, STALL_READING, STALL_SERVER, Proxy

# Each has a proxy and a connection of its own.
AT_ONCE: Final = 12
SAMPLE: Final = 24
# What small deadlines are; and heartbeats, of which AMQP has none below a second. Two of them and a look are silence.
SMALL_S: Final = 0.5
ATTEMPTS: Final = 4
HEARTBEAT_S: Final = 0.3
NOTICED_S: Final = 3.0
SMALL: Final[dict[str, float]] = {
    "deadline_s": SMALL_S,
    "connect_deadline_s": SMALL_S,
    "close_deadline_s": SMALL_S,
    "wait_s": SMALL_S,
    "heartbeat": 0,
}

pytestmark = pytest.mark.timeout(600 if ALL else 120)


async def struck_lives(server: AmqpServer, cases: list[Case], may_fail: bool, **options: float) -> list[str]:
    """Lives side by side, each with its own fault. Gives what is wrong with them."""
    wrong: list[str] = []
    missed = cases

    async def life(case: Case, proxy: Proxy) -> None:
        struck, found = await struck_life(proxy, case, may_fail=may_fail, **options)
        wrong.extend(found)
        if not struck:
            missed.append(case)

    for _ in range(ATTEMPTS):
        # A life that does not come as far as its fault, on a busy machine within its small deadlines, proves nothing.
        left, missed = missed, []
        for start in range(0, len(left), AT_ONCE):
            part = left[start : start + AT_ONCE]
            before = asyncio.all_tasks()
            with ExitStack() as stack:
                proxies = [stack.enter_context(Proxy((server.host, server.port))) for _ in part]
                await asyncio.gather(*(life(case, proxy) for case, proxy in zip(part, proxies, strict=True)))
            wrong += tasks_left(before)
    assert len(missed) <= 0.1 * len(cases), [str(case) for case in missed]
    return wrong


async def all_cases(server: AmqpServer, action: object) -> list[Case]:
    with Proxy((server.host, server.port)) as proxy:
        steps = await good_steps(proxy)
    if ALL:
        return every_case(steps, (action,))  # type: ignore[arg-type]
    # Each step with another part of the frame.
    return [Case(replace(step, when=WHENS[at % 3]), action) for at, step in enumerate(steps)]  # type: ignore[arg-type]


def expect_well(server: AmqpServer, action: object, count: int, may_fail: bool, **options: float) -> None:
    """Of so many lives, each with this fault at another step."""

    async def main() -> list[str]:
        cases = sample(await all_cases(server, action), count)
        async with no_leaks():
            return await struck_lives(server, cases, may_fail, **options)

    wrong = asyncio.run(main())
    assert not wrong, shortened(wrong)


def test_small_deadlines_hold_at_every_step(leveret_server: AmqpServer) -> None:
    expect_well(leveret_server, HALF_OPEN, SAMPLE, may_fail=True, **SMALL)


def test_heartbeats_notice_at_every_step(leveret_server: AmqpServer) -> None:
    """Long deadlines: every call succeeds, over another connection."""
    expect_well(
        leveret_server,
        HALF_OPEN,
        SAMPLE,
        may_fail=False,
        deadline_s=4 * NOTICED_S,
        connect_deadline_s=NOTICED_S,
        close_deadline_s=NOTICED_S,
        heartbeat=HEARTBEAT_S,
    )


@pytest.mark.parametrize("action", [STALL_READING, STALL_SERVER], ids=["reading", "server"])
def test_one_way_that_stands_still(leveret_server: AmqpServer, action: object) -> None:
    expect_well(leveret_server, action, SAMPLE // 2, may_fail=True, **SMALL)
