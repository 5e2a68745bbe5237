"""What the tests of consumers share: a loop that must be left clean, queues with messages in them, cut connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import uvloop

from leveret.client import Connection, connect, events
from leveret.core.client.outgoing import MANDATORY, Outgoing, make_address
from leveret.core.codec.properties import encode_properties
from leveret.wire.queue_methods import QueueDeclare, QueueDelete
from tests.client.amqp_server import AmqpServer
from tests.conformance.topology import unique_name

T = TypeVar("T")
WAIT_S = 60.0


def in_loop(work: Coroutine[Any, Any, T], *, fast: bool = False) -> T:
    """Runs it, and expects that no task is left behind."""

    async def main() -> T:
        async with asyncio.timeout(240):
            result = await work
        await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, left
        return result

    with asyncio.Runner(loop_factory=uvloop.new_event_loop if fast else None) as runner:
        return runner.run(main())


class Place:
    """A connection, and a queue that goes with the test."""

    def __init__(self, connection: Connection, queue: str) -> None:
        self.connection = connection
        self.queue = queue

    async def declare(self, name: str, **arguments: Any) -> None:
        channel = await self.connection.channel()
        await channel.call(QueueDeclare(name, durable=True, arguments=arguments))
        await channel.close()

    async def delete(self, name: str) -> None:
        channel = await self.connection.channel()
        await channel.call(QueueDelete(name))
        await channel.close()

    async def publish(self, *bodies: bytes, queue: str | None = None, ids: bool = False, **properties: Any) -> None:
        """Each of them confirmed."""
        channel = await self.connection.channel()
        await channel.confirm()
        confirmed = asyncio.Event()
        answered = 0

        def on_answer(codec: Any) -> None:
            nonlocal answered
            settled = codec.take_settled()
            assert all(outgoing.is_confirmed for outgoing in settled)
            answered += len(settled)
            if answered == len(bodies):
                confirmed.set()

        channel.codec.owner = on_answer
        address = make_address("", queue or self.queue)
        for number, body in enumerate(bodies):
            if ids:
                properties["message_id"] = f"{queue or self.queue}-{number}"
            channel.codec.publish(Outgoing(address, encode_properties(**properties), body, b"", MANDATORY))
            if number % 1000 == 999:
                await channel.link.room()
                await asyncio.sleep(0)
        if bodies:
            async with asyncio.timeout(WAIT_S):
                await confirmed.wait()
        await channel.close()

    async def depth(self, queue: str | None = None) -> int:
        """Ready messages."""
        channel = await self.connection.channel()
        answer = await channel.call(QueueDeclare(queue or self.queue, passive=True))
        await channel.close()
        return int(answer.message_count)

    async def expect_depth(self, count: int, queue: str | None = None) -> None:
        await eventually(lambda: self.depth(queue), count)

    async def cut(self) -> None:
        """The connection breaks; returns when everything is as it was."""
        heard = self.connection.events()
        self.break_off()
        async with asyncio.timeout(WAIT_S):
            async for event in heard:
                if isinstance(event, events.Restored):
                    return

    def break_off(self) -> None:
        link = self.connection._link
        if link is not None and link._transport is not None:
            link._transport.abort()


async def eventually(look: Callable[[], Coroutine[Any, Any, T]], wanted: T) -> None:
    found = None
    for _ in range(int(WAIT_S / 0.02)):
        found = await look()
        if found == wanted:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{found!r} instead of {wanted!r}")


@asynccontextmanager
async def placed(server: AmqpServer, *bodies: bytes, publish: dict[str, Any] | None = None, **arguments: Any):  # type: ignore[no-untyped-def]
    """A connection with a queue that has these messages. `arguments` are the queue's, with _ for -."""
    async with connect(server.url, backoff_min_s=0.02) as connection:
        place = Place(connection, unique_name("consumed"))
        await place.declare(place.queue, **{name.replace("_", "-"): value for name, value in arguments.items()})
        try:
            await place.publish(*bodies, **(publish or {}))
            yield place
        finally:
            await place.delete(place.queue)


@asynccontextmanager
async def placed_with_dead_letters(
    server: AmqpServer, *bodies: bytes, publish: dict[str, Any] | None = None
) -> AsyncIterator[tuple[Place, Place]]:
    """Such a queue, and the one that its dead letters go to."""
    async with placed(server) as dead:
        arguments = {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": dead.queue}
        async with placed(server, *bodies, publish=publish, **arguments) as place:
            yield place, dead


def numbered(count: int) -> list[bytes]:
    return [str(number).encode() for number in range(count)]


async def taken(messages: AsyncIterator[T], count: int, ack: bool = False) -> list[T]:
    found: list[T] = []
    async with asyncio.timeout(WAIT_S):
        async for message in messages:
            found.append(message)
            if ack:
                message.ack()  # type: ignore[attr-defined]
            if len(found) == count:
                break
    return found


def bodies(deliveries: Iterable[Any]) -> list[bytes]:
    return [delivery.body for delivery in deliveries]
