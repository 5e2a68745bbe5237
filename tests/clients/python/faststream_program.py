"""What users of faststream with RabbitMQ do first."""

from __future__ import annotations

import asyncio
from typing import Any

from faststream import AckPolicy
from faststream.rabbit import ExchangeType, RabbitBroker, RabbitExchange, RabbitQueue
from standing import PATIENCE_S, SENT_AFTER, main, send_throughout, until


def made(url: str) -> RabbitBroker:
    """A broker that logs nothing: its log would be in the way of what is printed."""
    return RabbitBroker(url, logger=None)


def transient(name: str) -> RabbitQueue:
    return RabbitQueue(name, auto_delete=True)


async def hello(url: str, name: str) -> dict[str, Any]:
    broker = made(url)
    seen: list[Any] = []

    @broker.subscriber(transient(name))
    async def handle(body: Any) -> None:
        seen.append(body)

    async with broker:
        await broker.start()
        await broker.publish("Hello World!", queue=name)
        await broker.publish({"number": 1, "list": [1, 2]}, queue=name)
        await until(lambda: len(seen) == 2)
    return {"received": seen}


async def chain(url: str, name: str) -> dict[str, Any]:
    """One handler publishes what it returns, the next takes it."""
    broker = made(url)
    seen: list[int] = []

    @broker.subscriber(transient(f"{name}-in"))
    @broker.publisher(f"{name}-out")
    async def double(number: int) -> int:
        return 2 * number

    @broker.subscriber(transient(f"{name}-out"))
    async def keep(number: int) -> None:
        seen.append(number)

    async with broker:
        await broker.start()
        for number in range(20):
            await broker.publish(number, queue=f"{name}-in")
        await until(lambda: len(seen) == 20)
    return {"received": seen == [2 * number for number in range(20)]}


async def exchanges(url: str, name: str) -> dict[str, Any]:
    broker = made(url)
    fanout = RabbitExchange(f"{name}-fanout", type=ExchangeType.FANOUT, auto_delete=True)
    topic = RabbitExchange(f"{name}-topic", type=ExchangeType.TOPIC, auto_delete=True)
    seen: dict[str, list[str]] = {"one": [], "two": [], "kernel": []}

    @broker.subscriber(transient(f"{name}-one"), fanout)
    async def one(body: str) -> None:
        seen["one"].append(body)

    @broker.subscriber(transient(f"{name}-two"), fanout)
    async def two(body: str) -> None:
        seen["two"].append(body)

    @broker.subscriber(RabbitQueue(f"{name}-kernel", auto_delete=True, routing_key="kern.*"), topic)
    async def kernel(body: str) -> None:
        seen["kernel"].append(body)

    async with broker:
        await broker.start()
        await broker.publish("to all", exchange=fanout)
        for key in ("kern.info", "cron.info", "kern.critical"):
            await broker.publish(key, routing_key=key, exchange=topic)
        await until(lambda: [len(bodies) for bodies in seen.values()] == [1, 1, 2])
    return seen


async def rpc(url: str, name: str) -> dict[str, Any]:
    broker = made(url)

    @broker.subscriber(transient(name))
    async def square(number: int) -> int:
        return number * number

    async with broker:
        await broker.start()
        replies = [await broker.request(number, queue=name, timeout=PATIENCE_S) for number in range(6)]
        return {"answers": [await reply.decode() for reply in replies]}


async def acknowledgements(url: str, name: str) -> dict[str, Any]:
    """A handler that fails gets the message again, one that rejects does not."""
    broker = made(url)
    attempts: list[bool | None] = []
    rejected: list[str] = []

    @broker.subscriber(transient(f"{name}-again"), ack_policy=AckPolicy.NACK_ON_ERROR)
    async def again(body: str) -> None:
        attempts.append(len(attempts) > 0)
        if len(attempts) < 3:
            raise ValueError("on purpose")

    @broker.subscriber(transient(f"{name}-reject"), ack_policy=AckPolicy.REJECT_ON_ERROR)
    async def reject(body: str) -> None:
        rejected.append(body)
        if body == "bad":
            raise ValueError("on purpose")

    async with broker:
        await broker.start()
        await broker.publish("work", queue=f"{name}-again")
        await broker.publish("bad", queue=f"{name}-reject")
        await broker.publish("good", queue=f"{name}-reject")
        await until(lambda: len(attempts) == 3 and len(rejected) == 2)
    return {"attempts": len(attempts), "rejected": rejected}


async def heartbeats(url: str, name: str) -> dict[str, Any]:
    broker = made(f"{url}?heartbeat=2")
    seen: list[str] = []
    closed: list[object] = []

    @broker.subscriber(transient(name))
    async def handle(body: str) -> None:
        seen.append(body)

    async with broker:
        await broker.start()
        connection = await broker.connect()
        connection.close_callbacks.add(lambda *_: closed.append(1))
        await asyncio.sleep(9)
        undisturbed = not closed
        await broker.publish("still there", queue=name)
        await until(lambda: len(seen) == 1)
    return {"undisturbed": undisturbed, "received": seen}


async def recovery(url: str, name: str) -> dict[str, Any]:
    broker = made(f"{url}?heartbeat=2&reconnect_interval=0.3")
    seen: set[str] = set()
    reconnected: list[object] = []

    @broker.subscriber(RabbitQueue(name, durable=True))
    async def handle(body: str) -> None:
        seen.add(body)

    async with broker:
        await broker.start()
        connection = await broker.connect()
        connection.reconnect_callbacks.add(lambda *_: reconnected.append(1))

        async def send(body: str) -> None:
            await broker.publish(body, queue=name, persist=True, mandatory=True)

        sent = await send_throughout(send)
        await until(lambda: seen.issuperset(sent))
        missing = len(set(sent) - seen)
    return {"recovered": bool(reconnected), "after": SENT_AFTER, "missing": missing}


if __name__ == "__main__":
    main(
        {
            "hello": hello,
            "chain": chain,
            "exchanges": exchanges,
            "rpc": rpc,
            "acknowledgements": acknowledgements,
            "heartbeats": heartbeats,
            "recovery": recovery,
        }
    )
