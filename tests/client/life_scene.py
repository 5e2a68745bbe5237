"""What the tests of a connection's life share: a loop with a deadline that ends without leaks, and odd servers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

import pytest
import uvloop

from leveret.client import Connection
from leveret.client.events import Event
from leveret.testing import Broker
from tests.client.leaks import no_leaks
from tests.client.waiting import until

SCENE_DEADLINE_S = 240.0
WAIT_S = 60.0

Conversation = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
LoopFactory = Callable[[], asyncio.AbstractEventLoop]
BOTH_LOOPS = pytest.mark.parametrize(
    "loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)


def play(scene: Coroutine[Any, Any, None], loop_factory: LoopFactory | None = None) -> None:
    """Runs a scene in a loop of its own. It must leave nothing behind, and no error in a callback unseen."""
    problems: list[dict[str, Any]] = []

    async def bounded() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        async with asyncio.timeout(SCENE_DEADLINE_S), no_leaks():
            await scene

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(bounded())
    assert not problems, problems


async def off_loop(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls what blocks, such as starting or stopping a broker."""
    return await asyncio.to_thread(function, *arguments)


@contextlib.asynccontextmanager
async def served(conversation: Conversation) -> AsyncIterator[str]:
    """The URL of a server that is no broker: it talks to each client as it is told, and then hangs up."""
    tasks: set[asyncio.Task[None]] = set()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        # The client has had enough, or the test has.
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            await conversation(reader, writer)
        tasks.discard(task)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    try:
        yield f"amqp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await server.wait_closed()


def told(octets: bytes, linger: bool = False) -> Conversation:
    """The server waits for the client's first octets and says this; then it hangs up, or listens for ever."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(8)
        writer.write(octets)
        await writer.drain()
        while linger and await reader.read(65536):
            pass

    return talk


class Ear:
    """Hears the events of a connection in a task, so that a test can wait for one and look at their order."""

    def __init__(self, connection: Connection) -> None:
        self.heard: list[Event] = []
        self._task = asyncio.create_task(self._listen(connection.events()))

    async def _listen(self, told: AsyncIterator[Event]) -> None:
        async for event in told:
            self.heard.append(event)

    @property
    def names(self) -> list[str]:
        return [type(event).__name__ for event in self.heard]

    async def hears(self, kind: type[Any], count: int = 1) -> Any:
        """The newest event of that kind, as soon as there were so many."""
        await until(lambda: sum(isinstance(event, kind) for event in self.heard) >= count, f"{kind.__name__}")
        return [event for event in self.heard if isinstance(event, kind)][-1]

    async def ends(self) -> list[str]:
        """All names up to Closed."""
        async with asyncio.timeout(WAIT_S):
            await self._task
        return self.names


def connections_of(broker: Broker) -> int:
    return broker.call(lambda node: len(node.broker.connections))
