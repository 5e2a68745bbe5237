"""Super streams: several streams, called partitions, that are written and read as one.

An exchange leads to the partitions; which one a message goes to is decided by a key, so that everything with one key
stays in order. A SuperStream reads all partitions, or those that the broker gives it, and keeps an offset for each."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from types import TracebackType
from typing import Any

from leveret.client.errors import ClientClosed
from leveret.client.owner import Owner
from leveret.client.streams.partitions import find_partitions
from leveret.client.streams.stream import Stream, StreamMessage
from leveret.core.codec.field_types import Table
from leveret.core.codec.murmur3 import murmur3_32
from leveret.wire.exchange_methods import ExchangeDeclare
from leveret.wire.queue_methods import QueueBind, QueueDeclare

__all__ = ["SuperStream", "declare_super_stream", "partition_key"]

PARTITIONS_MAX = 1000
# That of the stream clients of Java, .NET and Go, and of Leveret's exchange type x-super-stream.
SEED = 104729


def partition_key(key: str | bytes, partitions: int) -> str:
    """The routing key of the partition that everything with this key belongs to:

        await producer.publish(body, exchange="orders", routing_key=partition_key("customer-17", 3))

    The same sum as in RabbitMQ's stream clients, so all publishers agree."""
    if partitions < 1:
        raise ValueError(f"partitions is {partitions}, and must be at least 1")
    octets = key.encode() if isinstance(key, str) else key
    return str(murmur3_32(octets, SEED) % partitions)


async def declare_super_stream(
    connection: Owner, name: str, partitions: int, *, arguments: dict[str, Any] | None = None
) -> list[str]:
    """Makes the exchange, the partitions `name-0`, `name-1` ... and their bindings, if they are not there, and gives
    the partitions' names. `arguments` are those of each stream, such as {"x-max-age": "7D"}."""
    if not 1 <= partitions <= PARTITIONS_MAX:
        raise ValueError(f"partitions is {partitions}, not from 1 to {PARTITIONS_MAX}")
    names = [f"{name}-{number}" for number in range(partitions)]
    channel = await connection.channel()
    try:
        await channel.call(ExchangeDeclare(name, "direct", durable=True, arguments={"x-super-stream": True}))
        for number, partition in enumerate(names):
            of_stream = {**(arguments or {}), "x-queue-type": "stream"}
            await channel.call(QueueDeclare(partition, durable=True, arguments=of_stream))
            order: Table = {"x-stream-partition-order": number}
            await channel.call(QueueBind(partition, name, str(number), arguments=order))
    finally:
        await channel.close()
    return names


class SuperStream:
    """Made by `connection.super_stream(name)`: enter it, or `await` it. Its partitions take turns."""

    def __init__(
        self,
        connection: Owner,
        name: str,
        *,
        partitions: int | Sequence[str] | None = None,
        **options: Any,
    ) -> None:
        """`partitions` are their names, or how many of `name-0`, `name-1` ... there are; by default Leveret is asked
        for them, and with other brokers they must be given. The options are those of a stream; with `single_active`
        the readers with the consumer's name share the partitions out (Leveret)."""
        self.name = name
        self._connection = connection
        self._partitions = partitions
        self._options = options
        self._streams: list[Stream] = []
        # Whose turn it is, and whose message the user has.
        self._turn = 0
        self._holder: Stream | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._is_closed = False

    @property
    def streams(self) -> list[Stream]:
        """One for each partition, with its offset and counters."""
        return list(self._streams)

    @property
    def offsets(self) -> dict[str, int]:
        """Of the message that was handed out last, by partition."""
        return {stream.name: stream.offset for stream in self._streams if stream.offset is not None}

    async def start(self, deadline_s: float | None = None) -> SuperStream:
        try:
            for name in await self._find():
                stream = Stream(self._connection, name, wake=self._wake, **self._options)
                await stream.start(deadline_s)
                self._streams.append(stream)
        except BaseException:
            await self.close(store=False)
            raise
        return self

    async def _find(self) -> list[str]:
        given = self._partitions
        if isinstance(given, int):
            if not 1 <= given <= PARTITIONS_MAX:
                raise ValueError(f"partitions is {given}, not from 1 to {PARTITIONS_MAX}")
            return [f"{self.name}-{number}" for number in range(given)]
        if given is not None:
            if isinstance(given, str) or not given:
                raise ValueError("partitions must be a number or a list of names")
            return list(given)
        return list(await find_partitions(await self._connection.ready(), self.name))

    def __aiter__(self) -> SuperStream:
        return self

    async def __anext__(self) -> StreamMessage:
        if self._holder is not None:
            self._holder.finish()
            self._holder = None
        while True:
            message = self._take()
            if message is not None:
                return message
            if self._is_closed:
                raise StopAsyncIteration
            if not self._streams:
                raise ClientClosed(f"the super stream {self.name!r} was not started")
            for stream in self._streams:
                stream.check()
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def _take(self) -> StreamMessage | None:
        count = len(self._streams)
        for step in range(count):
            stream = self._streams[(self._turn + step) % count]
            message = stream.take()
            if message is not None:
                self._turn = (self._turn + step + 1) % count
                self._holder = stream
                return message
        return None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def store_offset(self) -> None:
        """Of every partition: everything that was handed out is done with."""
        for stream in self._streams:
            await stream.store_offset()
        self._holder = None

    async def close(self, *, store: bool = True) -> None:
        self._is_closed = True
        for stream in self._streams:
            await stream.close(store=store)
        self._wake()

    def __await__(self) -> Generator[Any, None, SuperStream]:
        return self.start().__await__()

    async def __aenter__(self) -> SuperStream:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for stream in self._streams:
            await stream.__aexit__(kind, error, traceback)
        await self.close()
