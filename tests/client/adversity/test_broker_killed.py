"""The broker's process is killed and started again on the same port, under load: nothing confirmed is lost."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from tests.client.adversity.cases import SEED
from tests.client.adversity.checkers import check, summary
from tests.client.adversity.ledger import Ledger
from tests.client.adversity.load import Load
from tests.client.leaks import no_leaks
from tests.conformance.rabbitmq_node import running_rabbitmq
from tests.crash.broker_process import BrokerProcess

KILLS: Final = int(os.environ.get("LEVERET_CLIENT_KILLS", "3"))
RABBITMQ_KILLS: Final = max(1, KILLS // 10)
LIFE_S_MIN, LIFE_S_MAX = 0.2, 1.0
BACK_S: Final = 60.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180 + 40 * KILLS)]


async def kill_under(load: Load, times: int, kill: Callable[[], None], start: Callable[[], Awaitable[None]]) -> None:
    dice = random.Random(SEED)
    for number in range(times):
        await asyncio.sleep(dice.uniform(LIFE_S_MIN, LIFE_S_MAX))
        reconnects = load.connection.reconnects_total
        await asyncio.to_thread(kill)
        await asyncio.sleep(dice.uniform(0.0, 0.3))
        await start()
        with load.ledger.bounded("coming back", BACK_S):
            while load.connection.reconnects_total == reconnects:  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0.01)
            await load.connection.ready(BACK_S)
        if number % 2:
            await load.crash_consumers()


async def tormented(
    url: str, ledger: Ledger, exact: bool, times: int, kill: Callable[[], None], start: Callable[[], Awaitable[None]]
) -> Load:
    async with no_leaks(), Load(url, ledger, exact=exact, deadline_s=BACK_S) as load:
        await kill_under(load, times, kill, start)
        # The last life has to do some work, too.
        await asyncio.sleep(LIFE_S_MIN)
        await load.settle()
    assert load.connection.reconnects_total >= times
    # It was a load.
    assert len(ledger.confirmed) > 100 * times and ledger.answers_total > 0, summary(ledger)
    return load


def test_leveret_is_killed(broker: BrokerProcess) -> None:
    broker.start()
    ledger = Ledger()
    url = f"amqp://guest:guest@127.0.0.1:{broker.port}/"

    async def start() -> None:
        # In this thread: the process dies with the thread that started it.
        broker.spawn()

    load = asyncio.run(tormented(url, ledger, True, KILLS, broker.kill, start))
    check(ledger, load.findings)


def test_rabbitmq_is_killed() -> None:
    """Without retries: dead letters of its classic queues are not safe when it is killed."""
    with running_rabbitmq() as node:
        ledger = Ledger()
        url = f"amqp://guest:guest@{node.host}:{node.port}/"

        async def start() -> None:
            await asyncio.to_thread(node.start)

        load = asyncio.run(tormented(url, ledger, False, RABBITMQ_KILLS, node.kill, start))
    check(ledger, load.findings)
