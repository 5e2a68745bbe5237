"""Where readers of streams keep how far they are: in a SQLite file, or in a queue of the broker.

Both keep the offset of the last message that is done with, by the names of stream and consumer. Anything with the two
methods of OffsetStore will do. Leveret keeps offsets itself, see stream.py."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import threading
from pathlib import Path
from typing import Any, Protocol

from leveret.client.deadline import within
from leveret.client.errors import ClientError, ConnectionLost, Refused, again
from leveret.client.owner import Owner
from leveret.client.transport.channel import Channel
from leveret.core.client.channel_codec import ChannelCodec
from leveret.core.client.outgoing import Outgoing, make_address
from leveret.core.codec.field_types import Table
from leveret.core.codec.properties import encode_properties
from leveret.wire.queue_methods import QueueDeclare, QueueDelete

__all__ = ["OffsetStore", "QueueOffsetStore", "SqliteOffsetStore"]

TABLE = "leveret_stream_offsets"
_TABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
BUSY_S = 10.0


class OffsetStore(Protocol):
    async def load(self, stream: str, consumer: str) -> int | None:
        """The last offset that was saved, None if there is none."""

    async def save(self, stream: str, consumer: str, offset: int) -> None:
        """Returns when it is safe."""


class SqliteOffsetStore:
    """In a table of a SQLite file, which may be one of your own: `write` saves within a transaction of yours, together
    with what you made of the messages, so that each counts once."""

    def __init__(self, path: str | Path, *, table: str = TABLE) -> None:
        if _TABLE_NAME.fullmatch(table) is None:
            raise ValueError(f"{table!r} is no name for a table: letters, digits and _ only")
        self._path = str(path)
        self._table = table
        # One after the other: the driver runs in threads.
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    async def load(self, stream: str, consumer: str) -> int | None:
        return await asyncio.to_thread(self._load, stream, consumer)

    async def save(self, stream: str, consumer: str, offset: int) -> None:
        await asyncio.to_thread(self._save, stream, consumer, offset)

    async def delete(self, stream: str, consumer: str) -> None:
        """The consumer begins anew the next time."""
        await asyncio.to_thread(self._delete, stream, consumer)

    def write(self, connection: sqlite3.Connection, stream: str, consumer: str, offset: int) -> None:
        """Saves on a connection of your own to the same file, as part of its transaction."""
        connection.execute(
            f"INSERT INTO {self._table} (stream, consumer, last_offset) VALUES (?, ?, ?) "
            "ON CONFLICT (stream, consumer) DO UPDATE SET last_offset = excluded.last_offset",
            (stream, consumer, offset),
        )

    def create(self, connection: sqlite3.Connection) -> None:
        """Makes the table if it is missing; load and save do so by themselves."""
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {self._table} (stream TEXT NOT NULL, consumer TEXT NOT NULL, "
            "last_offset INTEGER NOT NULL, PRIMARY KEY (stream, consumer)) WITHOUT ROWID"
        )

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            made = sqlite3.connect(self._path, timeout=BUSY_S, check_same_thread=False)
            try:
                made.execute("PRAGMA journal_mode = WAL")
                with made:
                    self.create(made)
            except BaseException:
                made.close()
                raise
            self._connection = made
        return self._connection

    def _load(self, stream: str, consumer: str) -> int | None:
        with self._lock:
            row = (
                self._open()
                .execute(
                    f"SELECT last_offset FROM {self._table} WHERE stream = ? AND consumer = ?",
                    (stream, consumer),
                )
                .fetchone()
            )
        return None if row is None else int(row[0])

    def _save(self, stream: str, consumer: str, offset: int) -> None:
        with self._lock, self._open() as connection:
            self.write(connection, stream, consumer, offset)

    def _delete(self, stream: str, consumer: str) -> None:
        with self._lock, self._open() as connection:
            connection.execute(f"DELETE FROM {self._table} WHERE stream = ? AND consumer = ?", (stream, consumer))

    def _close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


class QueueOffsetStore:
    """In the broker itself, whichever it is: each consumer has a durable queue that keeps one message, the last. For
    those who have no database; readers on several machines can take over from each other."""

    def __init__(self, connection: Owner, *, prefix: str = "stream-offsets", deadline_s: float = 30.0) -> None:
        self._connection = connection
        self._prefix = prefix
        self._deadline_s = deadline_s
        self._lock = asyncio.Lock()
        self._channel: Channel | None = None
        self._declared: set[str] = set()

    async def load(self, stream: str, consumer: str) -> int | None:
        return await self._persistently("loading an offset", self._load, stream, consumer, 0)

    async def save(self, stream: str, consumer: str, offset: int) -> None:
        # Saving it twice is as good as once, so a lost connection is no trouble.
        await self._persistently("saving an offset", self._save, stream, consumer, offset)

    async def delete(self, stream: str, consumer: str) -> None:
        """The consumer begins anew the next time."""
        await self._persistently("deleting an offset", self._delete, stream, consumer, 0)

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()

    async def _persistently(self, what: str, step: _Step, stream: str, consumer: str, offset: int) -> int | None:
        name = f"{self._prefix}.{stream}.{consumer}"

        async def until_done() -> int | None:
            async with self._lock:
                while True:
                    try:
                        return await step(await self._ready(name), name, offset)
                    except ConnectionLost:
                        self._connection.check()

        return await within(self._deadline_s, what, until_done())

    async def _ready(self, name: str) -> Channel:
        if self._channel is None or not self._channel.is_open:
            channel = await self._connection.channel(self._deadline_s)
            await channel.confirm()
            channel.codec.owner = _settle
            channel.on_end(lambda reason: _fail(channel.codec, reason))
            self._channel = channel
            self._declared.clear()
        if name not in self._declared:
            arguments: Table = {"x-max-length": 1, "x-overflow": "drop-head"}
            await self._channel.call(QueueDeclare(name, durable=True, arguments=arguments))
            self._declared.add(name)
        return self._channel

    @staticmethod
    async def _load(channel: Channel, name: str, _: int) -> int | None:
        found: Any = await channel.get(name)
        if found is None:
            return None
        # It goes back to its place.
        found.nack(requeue=True)
        return int(found.body)

    @staticmethod
    async def _save(channel: Channel, name: str, offset: int) -> int | None:
        taken: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        raw = encode_properties(delivery_mode=2, content_type="text/plain")
        channel.codec.publish(Outgoing(make_address("", name), raw, str(offset).encode(), b"", 0, taken))
        if not await taken:
            raise Refused("", name)
        return None

    async def _delete(self, channel: Channel, name: str, _: int) -> int | None:
        await channel.call(QueueDelete(name))
        self._declared.discard(name)
        return None


class _Step(Protocol):
    async def __call__(self, channel: Channel, name: str, offset: int, /) -> int | None: ...


def _settle(codec: ChannelCodec) -> None:
    for message in codec.take_settled():
        if not message.owner.done():
            message.owner.set_result(message.is_confirmed)


def _fail(codec: ChannelCodec, reason: ClientError) -> None:
    for message in codec.abandon():
        if not message.owner.done():
            message.owner.set_exception(again(reason))
