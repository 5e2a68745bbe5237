"""A consumer whose connection ends at every single step of the protocol: it works on everything all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from leveret.client import Delivery, connect
from tests.client.amqp_server import AmqpServer
from tests.client.consumer_scene import eventually, in_loop, numbered, placed
from tests.client.faults import Action, When
from tests.client.proxy import CUT, RESET, Proxy, Step

COUNT = 6
PATIENCE_S = 20.0


@pytest.fixture
def proxy(leveret_server: AmqpServer) -> Iterator[Proxy]:
    with Proxy((leveret_server.host, leveret_server.port)) as proxy:
        yield proxy


async def work(server: AmqpServer, proxy: Proxy) -> None:
    """Each message is seen, acknowledged once, and gone from the queue."""
    assert server.broker is not None
    async with placed(server, *numbered(COUNT)) as place:
        watched = server.broker.queue(place.queue)
        seen: set[bytes] = set()
        async with connect(proxy.url, backoff_min_s=0.001, backoff_max_s=0.05, wait_s=PATIENCE_S) as connection:
            consumer = connection.consumer(place.queue, prefetch=2)

            async def handler(delivery: Delivery) -> None:
                await asyncio.sleep(0)
                seen.add(delivery.body)

            async def is_busy() -> bool:
                # An ack that was written is not there yet, and may be lost: then the message comes again.
                return bool(
                    watched.count or watched.unacked_count or consumer.in_hand or consumer.waiting or len(seen) < COUNT
                )

            async with asyncio.timeout(PATIENCE_S):
                async with consumer:
                    running = asyncio.create_task(consumer.run(handler, concurrency=2))
                    await eventually(is_busy, False)
                await running
        assert sorted(seen) == numbered(COUNT)
        assert consumer.acked + consumer.stale >= COUNT and consumer.failed == 0
        await place.expect_depth(0)


def steps_of_a_good_run(server: AmqpServer, proxy: Proxy) -> list[Step]:
    in_loop(work(server, proxy))
    steps = proxy.steps()
    # The rest is the end, after which nobody comes back.
    last = max(number for number, step in enumerate(steps) if step.name == "basic.ack")
    return steps[: last + 1]


@pytest.mark.parametrize(("action", "when"), [(CUT, "before"), (RESET, "middle"), (CUT, "after")])
def test_every_step(leveret_server: AmqpServer, proxy: Proxy, action: Action, when: When) -> None:
    steps = steps_of_a_good_run(leveret_server, proxy)
    assert {"connection.open", "channel.open", "basic.qos", "basic.consume", "basic.ack"} <= {one.name for one in steps}
    for step in steps:
        struck = proxy.at(Step(step.side, step.name, step.nth, when), action)
        in_loop(work(leveret_server, proxy))
        assert struck.is_set() or step.name in ("basic.ack", "basic.deliver", "header", "body"), step
        proxy.disarm()
