"""What users of taskiq with taskiq-aio-pika do first. Worker and client are one program."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from standing import PATIENCE_S, SENT_AFTER, main, send_throughout, until
from taskiq import InMemoryBroker
from taskiq.api import run_receiver_task
from taskiq_aio_pika import AioPikaBroker, Exchange, Queue, QueueType


def made(url: str, name: str, *queues: Queue, **options: Any) -> AioPikaBroker:
    """A broker with classic queues: those of taskiq are quorum queues unless one says otherwise."""
    return AioPikaBroker(
        url,
        # The results stay in this process.
        result_backend=InMemoryBroker().result_backend,
        exchange=Exchange(name=name),
        task_queues=list(queues) or [Queue(name=name, type=QueueType.CLASSIC)],
        dead_letter_queue=Queue(name=f"{name}-dead", type=QueueType.CLASSIC),
        **options,
    )


@asynccontextmanager
async def working(broker: AioPikaBroker, **options: Any) -> AsyncIterator[None]:
    """The broker with a worker in this process."""
    broker.is_worker_process = True
    await broker.startup()
    worker = asyncio.create_task(run_receiver_task(broker, **options))
    try:
        yield
    finally:
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        await broker.shutdown()


async def hello(url: str, name: str) -> dict[str, Any]:
    broker = made(url, name)

    @broker.task
    async def add(one: int, other: int) -> int:
        return one + other

    async with working(broker):
        calls = [await add.kiq(number, 1) for number in range(50)]
        results = [(await call.wait_result(timeout=PATIENCE_S)).return_value for call in calls]
    return {"results": results == list(range(1, 51))}


async def failures(url: str, name: str) -> dict[str, Any]:
    broker = made(url, name)

    @broker.task
    async def fail() -> None:
        raise ValueError("on purpose")

    async with working(broker):
        result = await (await fail.kiq()).wait_result(timeout=PATIENCE_S)
    return {"failed": result.is_err, "error": str(result.error)}


async def defaults(url: str, name: str) -> dict[str, Any]:
    """Nothing but the address, as the first example of the documentation has it."""
    broker = AioPikaBroker(url, result_backend=InMemoryBroker().result_backend)

    @broker.task
    async def answer() -> int:
        return 42

    async with working(broker):
        result = await (await answer.kiq()).wait_result(timeout=PATIENCE_S)
    return {"result": result.return_value}


async def _delayed(broker: AioPikaBroker) -> dict[str, Any]:
    order: list[str] = []

    @broker.task
    async def note(text: str) -> None:
        order.append(text)

    async with working(broker):
        await note.kicker().with_labels(delay=2).kiq("delayed")
        await note.kiq("at once")
        await until(lambda: len(order) == 2)
    return {"order": order}


async def delays(url: str, name: str) -> dict[str, Any]:
    """A queue without a consumer, from which messages expire into the queue of the tasks."""
    delay_queue = Queue(name=f"{name}-delay", type=QueueType.CLASSIC)
    return await _delayed(made(url, name, delay_queue=delay_queue))


async def delayed_exchange(url: str, name: str) -> dict[str, Any]:
    return await _delayed(made(url, name, delayed_message_exchange_plugin=True))


async def priorities(url: str, name: str) -> dict[str, Any]:
    queue = Queue(name=name, type=QueueType.CLASSIC, max_priority=10)
    broker = made(url, name, queue, qos=1)
    order: list[str] = []

    @broker.task
    async def note(text: str) -> None:
        order.append(text)

    broker.is_worker_process = True
    await broker.startup()
    for text, priority in (("low", 1), ("middle", 5), ("high", 9)):
        await note.kicker().with_labels(priority=priority).kiq(text)
    worker = asyncio.create_task(run_receiver_task(broker, max_async_tasks=1))
    await until(lambda: len(order) == 3)
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)
    await broker.shutdown()
    return {"order": order}


async def queues(url: str, name: str) -> dict[str, Any]:
    """Two queues behind one exchange, chosen by a label."""
    one, two = (Queue(name=f"{name}-{key}", type=QueueType.CLASSIC, routing_key=key) for key in ("one", "two"))
    broker = made(url, name, one, two)
    seen: list[str] = []

    @broker.task
    async def note(text: str) -> None:
        seen.append(text)

    async with working(broker):
        for key in ("one", "two", "one"):
            await note.kicker().with_labels(queue_name=key).kiq(key)
        await until(lambda: len(seen) == 3)
    return {"seen": sorted(seen)}


async def recovery(url: str, name: str) -> dict[str, Any]:
    broker = made(f"{url}?heartbeat=2", name, reconnect_interval=0.3)
    done: set[str] = set()
    reconnected: list[object] = []

    @broker.task
    async def note(text: str) -> None:
        done.add(text)

    async with working(broker):
        assert broker.write_conn is not None
        broker.write_conn.reconnect_callbacks.add(lambda *_: reconnected.append(1))
        sent = await send_throughout(note.kiq)
        await until(lambda: done.issuperset(sent))
        missing = len(set(sent) - done)
    return {"recovered": bool(reconnected), "after": SENT_AFTER, "missing": missing}


if __name__ == "__main__":
    main(
        {
            "hello": hello,
            "failures": failures,
            "defaults": defaults,
            "delays": delays,
            "delayed_exchange": delayed_exchange,
            "priorities": priorities,
            "queues": queues,
            "recovery": recovery,
        }
    )
