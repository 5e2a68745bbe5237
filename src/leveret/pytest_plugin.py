"""The pytest plugin: a broker, and clients connected to it, for every test that asks for them.

Imports the broker only when a test uses it, so that having Leveret installed costs other tests nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from leveret.client import Connection
    from leveret.client.blocking import Connection as BlockingConnection
    from leveret.testing import Broker


@pytest.fixture
def leveret_broker() -> Iterator[Broker]:
    """A real Leveret broker on a free port, for this test alone: `leveret_broker.url` is its address, and
    `leveret_broker.queue("orders").expect(count=3)` looks into a queue."""
    from leveret.testing import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture
def leveret_connection(leveret_broker: Broker) -> Iterator[BlockingConnection]:
    """A client without asyncio, connected to `leveret_broker`, closed after the test."""
    from leveret.client.blocking import connect

    with connect(leveret_broker.url, name="leveret_connection") as connection:
        yield connection


@pytest.fixture
def leveret_connect(leveret_broker: Broker) -> Callable[..., AbstractAsyncContextManager[Connection]]:
    """For asynchronous tests, whichever plugin runs them: `async with leveret_connect() as connection`. Takes the
    options of leveret.client.connect."""
    from leveret.client import connect

    def connect_to_broker(**options: Any) -> AbstractAsyncContextManager[Connection]:
        return connect(leveret_broker.url, **options)

    return connect_to_broker
