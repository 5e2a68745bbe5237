"""A producer for a task's rows, on a connection that the tasks of one executor's process share one after another.

Spark keeps its Python processes and gives them task after task; a connection for each would cost more than most tasks
do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

from leveret.client.errors import AuthenticationFailed, BatchFailed, ClientError
from leveret.client.message import Message
from leveret.client.producer import Producer
from leveret.spark.broker import Broker
from leveret.spark.errors import WriteFailed

__all__ = ["Publisher"]

WINDOW, WINDOW_BYTES = 5_000, 16 * 1024 * 1024
# One for each place and login that this process has published to.
_BROKERS: dict[tuple[Any, ...], Broker] = {}


class Publisher:
    @classmethod
    def of(cls, broker: Broker, options: Mapping[str, Any]) -> Publisher:
        return cls(_BROKERS.setdefault(broker.identity, broker), options)

    def __init__(self, broker: Broker, options: Mapping[str, Any]) -> None:
        self._broker = broker
        self._deadline_s: float = options["confirmTimeout"]
        self._producer: Producer | None = None

    def publish(self, messages: Iterable[Message | ValueError]) -> list[tuple[int, str]]:
        """Publishes all that are messages and waits for their confirms. The others, and those that the broker did not
        take, as (place, why)."""
        return self._broker.loop.run_until_complete(self._publish(list(messages)))

    async def _publish(self, given: list[Message | ValueError]) -> list[tuple[int, str]]:
        failures = [(place, str(one)) for place, one in enumerate(given) if isinstance(one, ValueError)]
        places = [place for place, one in enumerate(given) if not isinstance(one, ValueError)]
        try:
            producer = await self._ready()
            await producer.publish_batch([given[place] for place in places], deadline_s=self._deadline_s)
        except BatchFailed as error:
            if error.unsent_from is not None:
                raise WriteFailed(f"publishing at {self._broker.address} came to an end: {error}") from None
            failures += [(places[place], str(why)) for place, why in error.failures]
        except ClientError as error:
            raise WriteFailed(f"publishing at {self._broker.address} failed: {error}") from None
        return sorted(failures)

    async def _ready(self) -> Producer:
        if self._producer is None:
            connection = await self._connect()
            self._producer = connection.producer(window=WINDOW, window_bytes=WINDOW_BYTES, deadline_s=self._deadline_s)
        return self._producer

    async def _connect(self) -> Any:
        until = asyncio.get_running_loop().time() + self._broker.retry_s
        while True:
            try:
                return await self._broker.connection()
            except AuthenticationFailed:
                raise
            except ClientError:
                if asyncio.get_running_loop().time() >= until:
                    raise
                await asyncio.sleep(0.5)

    def __enter__(self) -> Publisher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        producer, self._producer = self._producer, None
        if producer is not None and error is None:
            self._broker.loop.run_until_complete(producer.close())
        elif error is not None:
            # Nobody knows what is on its way: the next task begins with a connection of its own.
            _BROKERS.pop(self._broker.identity, None)
            self._broker.close()
