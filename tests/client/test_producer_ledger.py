"""Any order of publishes and accidents: nothing that was confirmed is lost, nothing else arrives, and all in order."""

from __future__ import annotations

import asyncio
import random
import uuid

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leveret.client import BatchFailed, ChannelClosed, ClientError, Confirmation, Message, Unroutable, connect
from leveret.client.publishing.producer import Producer
from tests.client.amqp_server import AmqpServer
from tests.client.faults import CUT, RESET
from tests.client.producer_scene import QUICK, bodies, declare, expect_nothing_left
from tests.client.proxy import Proxy, Step

STEPS = st.one_of(
    st.tuples(st.just("submit"), st.integers(1, 40)),
    st.tuples(st.just("batch"), st.integers(1, 60)),
    st.tuples(st.just("cancel"), st.integers(1, 5)),
    st.tuples(st.just("unroutable"), st.integers(1, 3)),
    st.tuples(st.just("missing exchange"), st.integers(1, 2)),
    st.tuples(st.just("cut"), st.integers(0, 3)),
    st.tuples(st.just("cut at publish"), st.integers(1, 30)),
    st.tuples(st.just("cut at ack"), st.integers(1, 3)),
    st.tuples(st.just("broker closes"), st.just(0)),
    st.tuples(st.just("pause"), st.integers(1, 20)),
)


class Ledger:
    """What was published, and what was said about it."""

    def __init__(self, producer: Producer, queue: str, proxy: Proxy, server: AmqpServer) -> None:
        self._producer = producer
        self._queue = queue
        self._proxy = proxy
        self._server = server
        self._next = 0
        self._waiting: dict[int, Confirmation] = {}
        self.confirmed: set[int] = set()
        # Must never arrive; may or may not.
        self.impossible: set[int] = set()
        self.unknown: set[int] = set()

    def number(self) -> int:
        self._next += 1
        return self._next

    async def do(self, what: str, count: int) -> None:
        if what in ("submit", "unroutable", "missing exchange", "cancel"):
            for _ in range(count):
                await self._submit(what)
        elif what == "batch":
            await self._batch(count)
        elif what == "cut":
            (self._proxy.reset_all if count % 2 else self._proxy.cut_all)()
        elif what == "cut at publish":
            self._proxy.at(Step("client", "basic.publish", nth=count), RESET)
        elif what == "cut at ack":
            self._proxy.at(Step("server", "basic.ack", nth=count), CUT)
        elif what == "broker closes":
            assert self._server.broker is not None
            self._server.broker.close_connections()
        else:
            await asyncio.sleep(count / 1000)

    async def _submit(self, what: str) -> None:
        number = self.number()
        where = {"unroutable": ("", "none"), "missing exchange": ("missing", "")}.get(what, ("", self._queue))
        sent = await self._producer.submit(b"%d" % number, exchange=where[0], routing_key=where[1])
        if what == "cancel":
            self.unknown.add(number)
            sent.cancel()
            return
        self._waiting[number] = sent

    async def _batch(self, count: int) -> None:
        numbers = [self.number() for _ in range(count)]
        messages = [Message(b"%d" % number, routing_key=self._queue) for number in numbers]
        messages[0].routing_key = "none"
        failed = set()
        try:
            await self._producer.publish_batch(messages)
        except BatchFailed as error:
            assert [(index, type(one)) for index, one in error.failures] == [(0, Unroutable)]
            failed = {numbers[0]}
        assert failed == {numbers[0]}
        self.impossible |= failed
        self.confirmed |= set(numbers) - failed

    async def close(self) -> None:
        for number, sent in self._waiting.items():
            try:
                await sent
            except ClientError as error:
                assert isinstance(error, Unroutable | ChannelClosed), error
                self.impossible.add(number)
            else:
                self.confirmed.add(number)

    def check(self, arrived: list[int]) -> None:
        there = set(arrived)
        assert self.confirmed <= there
        assert not self.impossible & there
        assert there <= self.confirmed | self.unknown
        # Whatever came a second time, the first time was in order.
        firsts = list(dict.fromkeys(arrived))
        assert firsts == sorted(firsts)


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, min_size=3, max_size=14), window=st.sampled_from([5, 50, 10_000]))
def test_nothing_confirmed_is_lost(leveret_server: AmqpServer, steps: list[tuple[str, int]], window: int) -> None:
    async def script() -> None:
        queue = f"ledger-{uuid.uuid4().hex[:12]}"
        with Proxy((leveret_server.host, leveret_server.port)) as proxy:
            async with asyncio.timeout(60), connect(proxy.url, **QUICK) as connection:
                await declare(connection, queue, expires=120_000)
                async with connection.producer(window=window, deadline_s=50) as producer:
                    ledger = Ledger(producer, queue, proxy, leveret_server)
                    for what, count in steps:
                        await ledger.do(what, count)
                    await ledger.close()
                    assert producer.in_flight == 0
            # On a connection that no accident is about to happen to.
            async with connect(leveret_server.url) as connection:
                ledger.check([int(body) for body in await bodies(connection, queue)])
        await expect_nothing_left()

    asyncio.run(script())


def test_many_producers_under_many_accidents(amqp_server: AmqpServer) -> None:
    """The same at random and all at once, on both brokers."""

    async def script() -> None:
        dice = random.Random(7)
        queues = [f"ledger-{uuid.uuid4().hex[:12]}" for _ in range(4)]
        with Proxy((amqp_server.host, amqp_server.port)) as proxy:
            async with asyncio.timeout(90), connect(proxy.url, **QUICK) as connection:
                for queue in queues:
                    await declare(connection, queue, expires=120_000)
                until = asyncio.get_running_loop().time() + 3

                async def publish(queue: str) -> int:
                    number = 0
                    async with connection.producer(routing_key=queue, window=20, deadline_s=60) as producer:
                        while asyncio.get_running_loop().time() < until:
                            sent = [await producer.submit(b"%d" % (number + n)) for n in range(30)]
                            await asyncio.gather(*sent)
                            number += 30
                    return number

                async def disturb() -> None:
                    while asyncio.get_running_loop().time() < until:
                        await asyncio.sleep(dice.random() * 0.2)
                        dice.choice((proxy.reset_all, proxy.cut_all))()

                *published, _ = await asyncio.gather(*(publish(queue) for queue in queues), disturb())
                assert connection.reconnects_total > 3
            async with connect(amqp_server.url) as connection:
                for queue, number in zip(queues, published, strict=True):
                    arrived = [int(body) for body in await bodies(connection, queue)]
                    assert number > 0
                    assert list(dict.fromkeys(arrived)) == list(range(number))
        await expect_nothing_left()

    asyncio.run(script())
