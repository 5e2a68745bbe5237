"""Many reconnects at random moments, under load: nothing confirmed is lost, nothing hangs, nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
import os
import random
from collections import Counter
from typing import Final

import pytest

from tests.client.adversity.cases import SEED
from tests.client.adversity.checkers import check
from tests.client.adversity.ledger import Ledger
from tests.client.adversity.load import Load
from tests.client.leaks import no_leaks
from tests.client.proxy import Proxy
from tests.crash.broker_process import BrokerProcess

RECONNECTS: Final = int(os.environ.get("LEVERET_CLIENT_RECONNECTS", "60"))
# The longest time that a connection lives, and how long one may take to come back.
LIFE_S_MAX: Final = 0.06
BACK_S: Final = 20.0
CRASH_EVERY: Final = 7
# Of these there are as many as there are messages.
MESSAGES: Final = ("Outgoing", "Confirmation", "Delivery", "BatchWait")
# What a census may show more at the end than at the beginning: what is under way in that moment.
OBJECTS_MORE: Final = 60
# The process may grow by this, and for each line of the ledger.
RSS_BYTES_MORE: Final = 48 * 1024 * 1024
RSS_BYTES_A_LINE: Final = 512

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120 + RECONNECTS)]


def census() -> Counter[str]:
    """The client's objects that are alive, by their class. Messages are not counted: there are as many as there are."""
    gc.collect()
    found: Counter[str] = Counter()
    for thing in gc.get_objects():
        # A class may have made anything of its __module__.
        module, name = str(type(thing).__module__), type(thing).__name__
        if module.startswith(("leveret.client", "leveret.core.client")) and name not in MESSAGES:
            found[f"{module}.{name}"] += 1
    return found


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


async def break_often(proxy: Proxy, load: Load, reconnects: int, dice: random.Random) -> None:
    """Until it has come back so often."""
    number = 0
    while load.connection.reconnects_total < reconnects:
        number += 1
        with load.ledger.bounded("coming back", BACK_S):
            await load.connection.ready(BACK_S)
        # Also in the middle of a handshake or of a restore, not only when all is well.
        await asyncio.sleep(dice.random() * LIFE_S_MAX)
        (proxy.cut_all if dice.random() < 0.5 else proxy.reset_all)()
        if dice.random() < 0.3:
            await asyncio.sleep(dice.random() * 0.02)
            (proxy.cut_all if dice.random() < 0.5 else proxy.reset_all)()
        if number % CRASH_EVERY == 0:
            await load.crash_consumers()


def lines(ledger: Ledger) -> int:
    return len(ledger.attempts) + len(ledger.sightings)


def test_many_reconnects(broker: BrokerProcess) -> None:
    """The broker is another process, so that this one's memory is the client's."""
    broker.start()
    ledger = Ledger()
    dice = random.Random(SEED)

    async def main(proxy: Proxy) -> Load:
        async with no_leaks(), Load(proxy.url, ledger) as load:
            await break_often(proxy, load, min(50, RECONNECTS // 3), dice)
            await load.connection.ready(BACK_S)
            before, resident = census(), resident_bytes() - RSS_BYTES_A_LINE * lines(ledger)
            await break_often(proxy, load, RECONNECTS, dice)
            await load.settle()
            more = census() - before
            assert all(count <= OBJECTS_MORE for count in more.values()), more
            assert resident_bytes() - resident < RSS_BYTES_MORE + RSS_BYTES_A_LINE * lines(ledger), lines(ledger)
        return load

    with Proxy(("127.0.0.1", broker.port)) as proxy:
        load = asyncio.run(main(proxy))
    check(ledger, load.findings)
    # It was a load: every way of publishing has got something through.
    ways = {message.producer.partition("-")[0] for message in ledger.confirmed}
    assert ways >= {"single", "future", "batch", "once", "proof"}
    assert ledger.answers_total > 0
