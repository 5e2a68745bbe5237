"""Links that are slow, and brokers that do not read: there is back-pressure, memory is bounded, deadlines hold."""

from __future__ import annotations

import asyncio
import random
from typing import Final

import pytest

from leveret.client import ClientError, DeadlineExceeded, connect
from leveret.client.topology import Queue
from tests.client.adversity.cases import SEED
from tests.client.adversity.checkers import check, late
from tests.client.adversity.compact import QUICK
from tests.client.adversity.ledger import Ledger
from tests.client.adversity.load import Load
from tests.client.amqp_server import AmqpServer
from tests.client.faults import Step
from tests.client.leaks import no_leaks
from tests.client.proxy import STALL_READING, Proxy
from tests.conformance.topology import unique_name

DEADLINE_S: Final = 0.4
BODY: Final = bytes(64 * 1024)
WINDOW_BYTES: Final = 32 * len(BODY)
# A link keeps what its transport takes before it says stop, and what a turn of the loop adds to that.
KEPT_BYTES_MAX: Final = 2 * 1024 * 1024


def test_a_load_over_links_that_are_slow_at_times(leveret_server: AmqpServer) -> None:
    ledger = Ledger()
    dice = random.Random(SEED)

    async def main(proxy: Proxy) -> Load:
        async with no_leaks(), Load(proxy.url, ledger) as load:
            for _ in range(4):
                await asyncio.sleep(dice.random() * 0.2)
                proxy.slow_all(dice.choice((2_000, 50_000, 500_000)))
                await asyncio.sleep(dice.random() * 0.6)
                if dice.random() < 0.5:
                    proxy.reset_all()
                proxy.slow_all(0)
            await load.settle()
        return load

    with Proxy((leveret_server.host, leveret_server.port)) as proxy:
        load = asyncio.run(main(proxy))
    check(ledger, load.findings)


async def stalled_producer(proxy: Proxy, ledger: Ledger, confirms: bool) -> None:
    """Publishes into a connection of which nothing is read, until all deadlines are over; then it is read again."""
    queue = unique_name("adversity")
    async with no_leaks(), connect(proxy.url, **{**QUICK, "heartbeat": 0}) as connection:
        await connection.topology.declare(Queue(queue))
        options = {"window_bytes": WINDOW_BYTES} if confirms else {"confirms": False}
        producer = connection.producer("", queue, **options)
        await producer.publish(b"first")
        struck = proxy.at(Step("client", "basic.publish"), STALL_READING)
        late_count = 0
        link = await connection.ready()

        async def publish() -> None:
            nonlocal late_count
            try:
                with ledger.bounded("publish", DEADLINE_S):
                    await producer.publish(BODY, deadline_s=DEADLINE_S)
            except DeadlineExceeded:
                late_count += 1

        for _ in range(3):
            await asyncio.gather(*(publish() for _ in range(100)))
            transport = link._transport
            assert transport is not None
            kept = link.pending_bytes + transport.get_write_buffer_size()
            assert kept < (WINDOW_BYTES + KEPT_BYTES_MAX if confirms else 100 * len(BODY) + KEPT_BYTES_MAX)
        assert struck.is_set() and late_count > 0
        proxy.thaw()
        await producer.publish(b"last", deadline_s=10)
        assert connection.reconnects_total == 0
        await connection.topology.delete(Queue(queue))


@pytest.mark.parametrize("confirms", [True, False])
def test_a_broker_that_does_not_read(leveret_server: AmqpServer, confirms: bool) -> None:
    ledger = Ledger()
    with Proxy((leveret_server.host, leveret_server.port)) as proxy:
        asyncio.run(stalled_producer(proxy, ledger, confirms))
    assert not late(ledger), late(ledger)


def test_everything_ends_in_time_when_nothing_is_read(leveret_server: AmqpServer) -> None:
    """With octets that wait to be sent there is no goodbye; what is closed is closed nevertheless."""
    ledger = Ledger()
    queue = unique_name("adversity")

    async def expect_late(what: str, work: object) -> None:
        with ledger.bounded(what, DEADLINE_S):
            try:
                await work  # type: ignore[misc]
            except ClientError as error:
                assert isinstance(error, DeadlineExceeded), error

    async def main(proxy: Proxy) -> None:
        async with no_leaks():
            options = {**QUICK, "heartbeat": 0, "close_deadline_s": DEADLINE_S}
            connection = await connect(proxy.url, **options)
            await connection.topology.declare(Queue(queue))
            producer = connection.producer("", queue)
            rpc = connection.rpc()
            await producer.publish(b"")
            proxy.at(Step("client", "basic.publish"), STALL_READING)
            calls = [
                *(producer.publish(BODY, deadline_s=DEADLINE_S) for _ in range(100)),
                connection.channel(DEADLINE_S),
                connection.topology.counts(queue, deadline_s=DEADLINE_S),
                connection.get(queue, deadline_s=DEADLINE_S),
                rpc.call(b"", routing_key=queue, deadline_s=DEADLINE_S),
                producer.flush(DEADLINE_S),
            ]
            await asyncio.gather(*(expect_late(call.__qualname__, call) for call in calls))
            with ledger.bounded("close", 5 * DEADLINE_S):
                await connection.close()
            # Only now the proxy learns of it.
            proxy.thaw()

    with Proxy((leveret_server.host, leveret_server.port)) as proxy:
        asyncio.run(main(proxy))
    assert not late(ledger), late(ledger)
