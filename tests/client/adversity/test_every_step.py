"""A connection that ends at any step of the protocol: every call succeeds nevertheless, and nothing is lost."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest
import uvloop

from tests.client.adversity.cases import ALL, every_case, good_steps, lone_life, sample
from tests.client.adversity.checkers import shortened
from tests.client.amqp_server import AmqpServer
from tests.client.leaks import no_leaks
from tests.client.proxy import CUT, RESET, Proxy
from tests.client.proxy_scene import OPENING

SAMPLE: Final = 60
# Confirms may come together: then there are fewer of them than in the run that was recorded.
MISSED_SHARE_MAX: Final = 0.1

pytestmark = pytest.mark.timeout(600 if ALL else 120)

# What a compact life says and hears, whatever else it does.
SPOKEN: Final = {
    *OPENING,
    ("client", "exchange.declare"),
    ("server", "exchange.declare-ok"),
    ("client", "queue.declare"),
    ("server", "queue.declare-ok"),
    ("client", "queue.bind"),
    ("server", "queue.bind-ok"),
    ("client", "confirm.select"),
    ("server", "confirm.select-ok"),
    ("client", "basic.publish"),
    ("client", "header"),
    ("client", "body"),
    ("server", "basic.ack"),
    ("client", "basic.qos"),
    ("server", "basic.qos-ok"),
    ("client", "basic.consume"),
    ("server", "basic.consume-ok"),
    ("server", "basic.deliver"),
    ("server", "header"),
    ("server", "body"),
    ("client", "basic.ack"),
    ("client", "basic.cancel"),
    ("server", "basic.cancel-ok"),
    ("client", "queue.delete"),
    ("server", "queue.delete-ok"),
    ("client", "exchange.delete"),
    ("server", "exchange.delete-ok"),
    ("client", "channel.close"),
    ("server", "channel.close-ok"),
    ("client", "connection.close"),
    ("server", "connection.close-ok"),
}


def test_the_compact_life_takes_every_step(leveret_server: AmqpServer) -> None:
    with Proxy((leveret_server.host, leveret_server.port)) as proxy:
        steps = asyncio.run(good_steps(proxy))
    assert {(step.side, step.name) for step in steps} >= SPOKEN


async def end_everywhere(proxy: Proxy, count: int) -> list[str]:
    """What is wrong with so many lives, each with an end at another step."""
    wrong: list[str] = []
    missed = []
    cases = sample(every_case(await good_steps(proxy), (RESET, CUT)), count)
    async with no_leaks():
        for case in cases:
            struck, found = await lone_life(proxy, case)
            wrong += found
            if not struck:
                missed.append(case)
    assert len(missed) <= MISSED_SHARE_MAX * len(cases), [str(case) for case in missed]
    return wrong


def test_an_end_at_every_step(amqp_server: AmqpServer) -> None:
    with Proxy((amqp_server.host, amqp_server.port)) as proxy:
        wrong = asyncio.run(end_everywhere(proxy, SAMPLE))
    assert not wrong, shortened(wrong)


def test_an_end_at_every_step_on_uvloop(leveret_server: AmqpServer) -> None:
    target = (leveret_server.host, leveret_server.port)
    with Proxy(target) as proxy, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        wrong = runner.run(end_everywhere(proxy, SAMPLE // 2))
    assert not wrong, shortened(wrong)
