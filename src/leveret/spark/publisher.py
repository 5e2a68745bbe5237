"""A producer for a task's rows, on a connection that the tasks of one executor's process share one after another.

Spark keeps its Python processes and gives them task after task; a connection for each would cost more than most tasks
do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any

from leveret.client.bulk import Outgoing
from leveret.client.bulk.run_publisher import RunPublisher
from leveret.client.connection import Connection
from leveret.client.errors import AuthenticationFailed, BatchFailed, ChannelClosed, ClientError
from leveret.client.publishing.producer import Producer
from leveret.client.streams.stream_start import ask_producers, is_leveret
from leveret.spark.broker_client import Broker
from leveret.spark.errors import SourceFailed, WriteFailed
from leveret.spark.row_messages import Made

__all__ = ["Publisher"]

log = logging.getLogger(__name__)

WINDOW, WINDOW_BYTES = 5_000, 16 * 1024 * 1024
FORBIDDEN = 403
# There is no such queue, or it is no stream.
NO_STREAM = (404, 406)
# One for each place and login that this process has published to.
_BROKERS: dict[tuple[Any, ...], Broker] = {}
Publish = Callable[[Producer, list[Outgoing | None], Mapping[int, str]], Awaitable[list[tuple[int, str]]]]


class Publisher:
    @classmethod
    def of(cls, broker: Broker, options: Mapping[str, Any]) -> Publisher:
        return cls(_BROKERS.setdefault(broker.identity, broker), options)

    def __init__(self, broker: Broker, options: Mapping[str, Any]) -> None:
        self._broker = broker
        self._deadline_s: float = options["confirmTimeout"]
        self._producer: Producer | None = None
        self._runs = RunPublisher(self._deadline_s)

    def producers(self, queue: str, prefix: str) -> dict[str, int]:
        """The last ids of producers whose names begin so, if it is a stream of Leveret's; others know none."""

        async def ask(connection: Connection) -> dict[str, int]:
            link = connection.link
            if link is None or link.ended.done():
                raise ClientError("the connection is being made again")
            if not is_leveret(link):
                return {}
            try:
                return await ask_producers(link, queue, prefix)
            except ChannelClosed as error:
                if error.code == FORBIDDEN:
                    log.warning(
                        "the user %s may not read the stream %s, and so cannot see what it has of these rows: if a "
                        "batch is run again with other tasks, rows may be there twice",
                        self._broker.user,
                        queue,
                    )
                elif error.code not in NO_STREAM:
                    raise
                return {}

        try:
            return self._broker.run(ask, f"asking {queue!r} which rows it has")
        except SourceFailed as error:
            raise WriteFailed(str(error)) from None

    def publish(self, made: Made) -> list[tuple[int, str]]:
        """Publishes all that are messages and waits for their confirms. The others, and those that the broker did not
        take, as (place, why)."""
        return self._broker.loop.run_until_complete(self._publish(self._runs.publish, made))

    def publish_until(self, made: Made) -> list[tuple[int, str]]:
        """The same up to the first that cannot be published; what comes behind it is not, as far as that can be known.
        A stream that had got what comes behind would take the bad one for known when it is written again."""
        return self._broker.loop.run_until_complete(self._publish(self._runs.publish_until, made))

    async def _publish(self, publish: Publish, made: Made) -> list[tuple[int, str]]:
        try:
            return await publish(await self._ready(), made.messages, made.errors)
        except BatchFailed as error:
            raise WriteFailed(f"publishing at {self._broker.address} came to an end: {error}") from None
        except ClientError as error:
            raise WriteFailed(f"publishing at {self._broker.address} failed: {error}") from None

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
