"""A process that handles 100 messages, in an order of its own, as another does at the same time.

`python -m tests.client.exactly_once.duplicate_worker sqlite PATH` prints how many were new and how many were not."""

from __future__ import annotations

import asyncio
import random
import sys

from tests.client.exactly_once.scene import Database, write_effect


async def work_off(database: Database) -> None:
    async with database.store(deadline_s=30) as store:

        async def handle(number: int) -> None:
            async with store.once(f"m{number}", consumer="billing") as work:
                if work.is_new:
                    await write_effect(work, "billing", number)
                    # Long enough for the other process to meet it under way.
                    await asyncio.sleep(random.uniform(0, 0.01))

        numbers = list(range(100))
        random.shuffle(numbers)
        for first in range(0, len(numbers), 5):
            await asyncio.gather(*(handle(number) for number in numbers[first : first + 5]))
        sys.stdout.write(f"{store.metrics.new} {store.metrics.duplicates}\n")


if __name__ == "__main__":
    asyncio.run(work_off(Database(sys.argv[1], sys.argv[2])))
