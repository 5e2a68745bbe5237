"""Outages of every kind under load: nobody listens, nobody answers, a cable is pulled and put back."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from tests.client.adversity.cases import ALL, SEED, tasks_left
from tests.client.adversity.checkers import check
from tests.client.adversity.ledger import Ledger
from tests.client.adversity.load import Load
from tests.client.amqp_server import AmqpServer
from tests.client.leaks import no_leaks
from tests.client.proxy import Proxy

ROUNDS: Final = 20 if ALL else 2
HEARTBEAT_S: Final = 1.0
# Two heartbeats and a look.
SILENCE_S: Final = 2.6
BACK_S: Final = 20.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120 + 30 * ROUNDS)]


async def nobody_listens(proxy: Proxy, seconds: float) -> None:
    proxy.refuse = True
    proxy.reset_all()
    await asyncio.sleep(seconds)
    proxy.refuse = False


async def hangs_up(proxy: Proxy, seconds: float) -> None:
    proxy.hang_up = True
    proxy.cut_all()
    await asyncio.sleep(seconds)
    proxy.hang_up = False


async def says_nothing(proxy: Proxy, seconds: float) -> None:
    """Connections to come are accepted and swallowed, until the client has no more patience with them."""
    proxy.blackhole = True
    proxy.cut_all()
    await asyncio.sleep(seconds)
    proxy.blackhole = False


async def cable(proxy: Proxy, seconds: float) -> None:
    """Out for longer than heartbeats allow; what was on the way arrives afterwards."""
    proxy.freeze()
    await asyncio.sleep(SILENCE_S + seconds)
    proxy.thaw()


async def loose_contact(proxy: Proxy, seconds: float) -> None:
    """Out for so short a time that it may not be noticed."""
    proxy.freeze()
    await asyncio.sleep(seconds)
    proxy.thaw()


async def crawling(proxy: Proxy, seconds: float) -> None:
    proxy.slow_all(3_000)
    await asyncio.sleep(seconds)
    proxy.cut_all()


async def bad_minute(proxy: Proxy, seconds: float) -> None:
    """Each connection ends before it is of any use."""
    end = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < end:
        proxy.reset_all()
        await asyncio.sleep(0.005)


OUTAGES: Final[tuple[Callable[[Proxy, float], Awaitable[None]], ...]] = (
    nobody_listens,
    hangs_up,
    says_nothing,
    cable,
    loose_contact,
    crawling,
    bad_minute,
)


@pytest.mark.parametrize("outage", OUTAGES, ids=lambda outage: outage.__name__)
def test_outages(leveret_server: AmqpServer, outage: Callable[[Proxy, float], Awaitable[None]]) -> None:
    ledger = Ledger()
    dice = random.Random(f"{SEED} {outage.__name__}")

    async def main(proxy: Proxy) -> Load:
        async with Load(proxy.url, ledger, heartbeat=HEARTBEAT_S, connect_deadline_s=0.5) as load:
            for _ in range(ROUNDS):
                await asyncio.sleep(dice.random() * 0.2)
                await outage(proxy, dice.random() * 0.8)
                with ledger.bounded("coming back", BACK_S):
                    await load.connection.ready(BACK_S)
            await load.settle()
        assert not tasks_left({asyncio.current_task()})
        return load

    # Around the proxy, too, which closes and opens sockets of its own.
    with no_leaks(), Proxy((leveret_server.host, leveret_server.port)) as proxy:
        load = asyncio.run(main(proxy))
    check(ledger, load.findings)


def test_all_outages_in_any_order(leveret_server: AmqpServer) -> None:
    ledger = Ledger()
    dice = random.Random(SEED)

    async def main(proxy: Proxy) -> Load:
        async with Load(proxy.url, ledger, heartbeat=HEARTBEAT_S, connect_deadline_s=0.5) as load:
            for _ in range(ROUNDS * 2):
                # One upon another, with no time to come back between them.
                for outage in dice.sample(OUTAGES, 2):
                    await outage(proxy, dice.random() * 0.3)
                await asyncio.sleep(dice.random() * 0.3)
                await load.crash_consumers()
            await load.settle()
        assert not tasks_left({asyncio.current_task()})
        return load

    # Around the proxy, too, which closes and opens sockets of its own.
    with no_leaks(), Proxy((leveret_server.host, leveret_server.port)) as proxy:
        load = asyncio.run(main(proxy))
    check(ledger, load.findings)
