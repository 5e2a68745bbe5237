"""A producer for a task's rows, on a connection that the tasks of one executor's process share one after another.

Spark keeps its Python processes and gives them task after task; a connection for each would cost more than most tasks
do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

from leveret.client.connection import Connection
from leveret.client.errors import AuthenticationFailed, BatchFailed, ChannelClosed, ClientError
from leveret.client.publishing.producer import Producer
from leveret.client.streams.stream_start import ask_producers, is_leveret
from leveret.core.client.outgoing import Outgoing
from leveret.core.client.runs import find_untried
from leveret.spark.broker_client import Broker
from leveret.spark.errors import SourceFailed, WriteFailed
from leveret.spark.row_messages import Made

__all__ = ["Publisher"]

log = logging.getLogger(__name__)

WINDOW, WINDOW_BYTES = 5_000, 16 * 1024 * 1024
FORBIDDEN = 403
# There is no such queue, or it is no stream.
NO_STREAM = (404, 406)
# So many exchanges with routing keys are tried one by one, by each task; it takes the time of a confirm each.
PLACES_MAX = 200
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
        # Exchanges with routing keys that this task has published to, as they stand on the wire.
        self._tried: set[bytes] = set()

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
        return self._broker.loop.run_until_complete(self._publish(made, 0, len(made.messages)))

    def publish_until(self, made: Made) -> list[tuple[int, str]]:
        """The same up to the first that cannot be published; what comes behind it is not, as far as that can be known.
        A stream that had got what comes behind would take the bad one for known when it is written again."""
        return self._broker.loop.run_until_complete(self._publish_until(made))

    async def _publish_until(self, made: Made) -> list[tuple[int, str]]:
        start = 0
        for end in self._parts(made.messages):
            failures = await self._publish(made, start, end)
            if failures:
                return failures
            start = end
        return []

    def _parts(self, messages: list[Outgoing | None]) -> Iterator[int]:
        """Where to stop and wait: behind the first message to an exchange with a routing key, before the next such one,
        and behind one that is none. So a place that does not exist is found before anything behind it is published."""
        known = self._tried
        place = -1
        while (place := find_untried(messages, place + 1, known if len(known) < PLACES_MAX else None)) < len(messages):
            message = messages[place]
            if message is not None:
                known.add(message.address)
                if place:
                    yield place
            yield place + 1
        yield len(messages)

    async def _publish(self, made: Made, start: int, end: int) -> list[tuple[int, str]]:
        """Those from `start` to `end`."""
        messages: list[Any] = made.messages if end - start == len(made.messages) else made.messages[start:end]
        places: Sequence[int] = range(start, end)
        failures = []
        if made.errors:
            failures = [(place, made.errors[place]) for place in places if place in made.errors]
            places = [place for place in places if place not in made.errors]
            messages = [made.messages[place] for place in places]
        try:
            producer = await self._ready()
            await producer.publish_made(messages, deadline_s=self._deadline_s)
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
