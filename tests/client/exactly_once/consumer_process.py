"""The idempotent consumer as a process that may be killed at any moment: writes an effect for each message.

`python -m tests.client.exactly_once.consumer_process KIND PLACE BROKER`; the body of a message is "key number"."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from leveret.client import Delivery, connect
from leveret.client.idempotent import idempotent
from tests.client.exactly_once.scene import Database, write_effect


async def consume(database: Database, broker: str) -> None:
    async with database.store() as store, connect(broker) as connection:

        @idempotent(store, consumer="billing", retry_pause_s=0.05)
        async def bill(delivery: Delivery, work: Any) -> None:
            key, number = delivery.body.decode().split()
            await write_effect(work, key, int(number))

        # One at a time: what is given back must not be overtaken by what was prefetched.
        async with connection.consumer("orders", prefetch=1) as consumer:
            async for delivery in consumer:
                await bill(delivery)


if __name__ == "__main__":
    asyncio.run(consume(Database(sys.argv[1], sys.argv[2]), sys.argv[3]))
