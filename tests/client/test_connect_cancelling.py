"""Whoever connects may be cancelled, or run out of time, at any moment: no socket, task or session is left."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leveret.client import Connection, ConnectionFailed, State, connect
from leveret.testing import Broker
from tests.client.leaks import no_leaks
from tests.client.life_scene import BOTH_LOOPS, LoopFactory, connections_of, play
from tests.client.proxy import HALF_OPEN, Proxy, Step
from tests.client.waiting import until
from tests.conformance.server_process import free_port
from tests.conformance.tls_scenes import TlsScene, tls_scene


@pytest.fixture(scope="module")
def scene_of_tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsScene]:
    directory: Path = tmp_path_factory.mktemp("tls")
    with tls_scene(directory) as made:
        yield made


async def opened(url: str, **options: Any) -> Connection:
    return await connect(url, **options)


async def give_up(task: asyncio.Task[Connection]) -> bool:
    """Cancels it; true if it was under way."""
    task.cancel()
    await asyncio.wait([task])
    if task.cancelled():
        return True
    assert task.exception() is None
    await task.result().close()
    return False


@BOTH_LOOPS
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_in_any_turn_of_the_loop(broker: Broker, host: str, loop_factory: LoopFactory) -> None:
    async def scene() -> None:
        url = f"amqp://{host}:{broker.port}"
        under_way = 0
        for turns in [*range(25), *range(25, 400, 25)]:
            task = asyncio.create_task(opened(url))
            for _ in range(turns):
                await asyncio.sleep(0)
            under_way += await give_up(task)
        assert under_way > 20
        await until(lambda: connections_of(broker) == 0, "the broker has no connections")

    play(scene(), loop_factory)


@BOTH_LOOPS
def test_in_any_turn_of_a_tls_handshake(scene_of_tls: TlsScene, loop_factory: LoopFactory) -> None:
    async def scene() -> None:
        url = f"amqps://localhost:{scene_of_tls.broker.tls_port}"
        under_way = 0
        for turns in [*range(0, 30, 2), *range(30, 600, 30)]:
            # The context is made once: that takes longer than all the rest.
            task = asyncio.create_task(opened(url, ssl=scene_of_tls.authority.context()))
            for _ in range(turns):
                await asyncio.sleep(0)
            under_way += await give_up(task)
        assert under_way > 10
        await until(lambda: connections_of(scene_of_tls.broker) == 0, "the broker has no connections")

    play(scene(), loop_factory)


@BOTH_LOOPS
@pytest.mark.parametrize("name", ["connection.start", "connection.tune", "connection.open-ok"])
@pytest.mark.parametrize("when", ["before", "middle"])
def test_at_any_step_of_the_protocol(proxy: Proxy, name: str, when: Any, loop_factory: LoopFactory) -> None:
    async def scene() -> None:
        step = Step("server", name, when=when)
        async with no_leaks():
            struck = proxy.at(step, HALF_OPEN)
            task = asyncio.create_task(opened(proxy.url))
            await until(struck.is_set, "nothing comes any more")
            await asyncio.sleep(0.02)
            assert await give_up(task)
            # Now the proxy notices, too.
            proxy.thaw()
        async with no_leaks():
            proxy.at(step, HALF_OPEN)
            with pytest.raises(ConnectionFailed, match=r"did not answer within 0\.2 s"):
                await connect(proxy.url, connect_deadline_s=0.2)
            proxy.thaw()
        async with no_leaks():
            proxy.at(step, HALF_OPEN)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2), connect(proxy.url):
                    raise AssertionError("it cannot be open")
            proxy.thaw()

    play(scene(), loop_factory)


@BOTH_LOOPS
def test_a_deadline_of_any_length(broker: Broker, loop_factory: LoopFactory) -> None:
    async def scene() -> None:
        failed = 0
        for at in range(40):
            try:
                connection = await connect(broker.url, connect_deadline_s=0.00005 * 1.17**at)
            except ConnectionFailed:
                failed += 1
            else:
                await connection.close()
        assert failed > 0
        await until(lambda: connections_of(broker) == 0, "the broker has no connections")

    play(scene(), loop_factory)


def test_in_a_pause_between_attempts() -> None:
    async def scene() -> None:
        task = asyncio.create_task(opened(f"amqp://127.0.0.1:{free_port()}", wait_s=60, backoff_min_s=30))
        await asyncio.sleep(0.1)
        assert await give_up(task)

    play(scene())


def test_a_connection_that_was_never_opened_is_closed(broker: Broker) -> None:
    async def scene() -> None:
        connecting = connect(f"amqp://127.0.0.1:{free_port()}")
        with pytest.raises(ConnectionFailed):
            await connecting
        connection = connecting._connection
        assert connection is not None
        assert connection.state is State.CLOSED
        await connection.close()
        with contextlib.suppress(ConnectionFailed):
            async with connecting:
                raise AssertionError("nobody is there")

    play(scene())
