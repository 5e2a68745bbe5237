"""Which streams are read, and which offsets they have.

Asks Leveret, which answers in one round trip; with RabbitMQ, which cannot be asked over AMQP, it looks at the two ends
of the stream, which takes up to a second each."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from leveret.client.channel import Channel
from leveret.client.connection import Connection
from leveret.client.errors import ChannelClosed
from leveret.client.stream_start import OFFSET, NotAStream, ask, is_leveret, offset_of, resolve
from leveret.core.client.lane import Sink
from leveret.core.field_types import Timestamp
from leveret.spark.broker import Broker
from leveret.spark.errors import InvalidOption, SourceFailed
from leveret.spark.management import list_streams
from leveret.spark.places import EARLIEST, LATEST, STORED, Place, Places
from leveret.wire.queue_methods import QueueDeclare

__all__ = ["Ends", "Streams"]

PARTITIONS_MAX = 1000
LOOK_S = 1.0
NAME = "x-stream-consumer-name"


class Ends(NamedTuple):
    """The oldest message there is, and the place behind the newest one."""

    first: int
    end: int


class Streams:
    """The streams that the options name, each with its number among the partitions."""

    def __init__(self, broker: Broker, options: Mapping[str, Any]) -> None:
        ways = [name for name in ("stream", "superStream", "streamPattern") if options[name] is not None]
        if len(ways) != 1:
            given = " and ".join(ways) or "none of them"
            raise InvalidOption(
                f"one of the options stream, superStream, streamPattern and queue says what is read; {given} is given"
            )
        self._broker = broker
        self._names: tuple[str, ...] | None = options["stream"]
        self._super: str | None = options["superStream"]
        self._pattern: str | None = options["streamPattern"]
        self._known: dict[str, int] = {}

    def find(self) -> dict[str, int]:
        """By name. Partitions that are new since the last time come behind the others; of streams with a pattern those
        that there are now."""
        if self._names is not None:
            self._known = dict.fromkeys(self._names, 0)
        elif self._super is not None:
            self._known = self._broker.run(self._partitions, f"looking for the partitions of {self._super!r}")
        else:
            assert self._pattern is not None
            self._known = {name: 0 for name in list_streams(self._broker) if re.fullmatch(self._pattern, name)}
        return dict(self._known)

    async def _partitions(self, connection: Connection) -> dict[str, int]:
        found: dict[str, int] = dict(self._known)
        for number in range(len(found), PARTITIONS_MAX):
            name = f"{self._super}-{number}"
            try:
                channel = await connection.channel()
                await channel.call(QueueDeclare(name, passive=True))
                await channel.close()
            except ChannelClosed as error:
                if error.code != 404:
                    raise
                break
            found[name] = number
        if not found:
            raise SourceFailed(
                f"there is no super stream {self._super!r} in the virtual host {self._broker.vhost!r}: its first "
                f"partition would be {self._super}-0"
            )
        return found

    # ---- offsets

    def ends(self, names: Mapping[str, int]) -> dict[str, Ends]:
        async def all_ends(connection: Connection) -> dict[str, Ends]:
            return {name: await self._ends(connection, name) for name in names}

        return self._broker.run(all_ends, f"asking for the offsets of {', '.join(names)}")

    async def _ends(self, connection: Connection, name: str) -> Ends:
        link = await connection.ready()
        with self._named(name):
            if is_leveret(link):
                answer = await ask(link, name, {})
                return Ends(answer["x-stream-first-offset"], answer["x-stream-committed-offset"])
            channel = await connection.channel()
            try:
                end = await resolve(channel, name, "next")
                assert end is not None
                first = await _first_at(channel, name, "first")
                return Ends(end if first is None else first, end)
            finally:
                await channel.close()

    def locate(self, names: Mapping[str, int], places: Places, group: str | None) -> dict[str, int]:
        """The offset that each place means, between the two ends of its stream for everything but a given offset."""
        places.check_streams(names)

        async def all_places(connection: Connection) -> dict[str, int]:
            return {name: await self._locate(connection, name, places.of(name), group) for name in names}

        return self._broker.run(all_places, f"looking for places in {', '.join(names)}")

    async def _locate(self, connection: Connection, name: str, place: Place, group: str | None) -> int:
        if isinstance(place, int):
            return place
        if place == STORED and group is None:
            raise InvalidOption('the place "stored" takes the option groupName, under which it is stored')
        link = await connection.ready()
        if not is_leveret(link):
            return await self._locate_by_looking(connection, name, place)
        with self._named(name):
            if isinstance(place, datetime):
                answer = await ask(link, name, {OFFSET: Timestamp(int(place.timestamp()))})
                return min(offset_of(answer), int(answer["x-stream-committed-offset"]))
            answer = await ask(link, name, {NAME: group} if group is not None else {})
        if place == LATEST:
            return int(answer["x-stream-committed-offset"])
        first = int(answer["x-stream-first-offset"])
        if place == STORED and "x-stream-stored-offset" in answer:
            return max(first, int(answer["x-stream-stored-offset"]) + 1)
        return first

    async def _locate_by_looking(self, connection: Connection, name: str, place: Place) -> int:
        if place == STORED:
            raise InvalidOption(
                'only Leveret stores offsets of AMQP consumers: "stored" cannot be used with this broker'
            )
        ends = await self._ends(connection, name)
        if place == EARLIEST:
            return ends.first
        if place == LATEST:
            return ends.end
        assert isinstance(place, datetime)
        channel = await connection.channel()
        try:
            found = await _first_at(channel, name, Timestamp(int(place.timestamp())))
        finally:
            await channel.close()
        return ends.end if found is None else found

    @contextlib.contextmanager
    def _named(self, name: str) -> Any:
        """The broker's words about a queue become ours about a stream."""
        try:
            yield
        except ChannelClosed as error:
            if error.code == 404:
                raise SourceFailed(f"there is no stream {name!r} in the virtual host {self._broker.vhost!r}") from None
            raise
        except NotAStream:
            raise SourceFailed(f"{name!r} is a queue and no stream: read it with the option queue") from None

    def store(self, group: str, offsets: Mapping[str, int]) -> None:
        """The group is done with everything before these offsets. Nothing is stored for a stream of which nothing was
        read. RabbitMQ stores no offsets over AMQP: there it does nothing."""

        async def store_all(connection: Connection) -> None:
            link = await connection.ready()
            if is_leveret(link):
                for name, offset in offsets.items():
                    if offset > 0:
                        await ask(link, name, {NAME: group, "x-stream-store-offset": offset - 1})

        self._broker.run(store_all, f"storing how far {group!r} is")


async def _first_at(channel: Channel, name: str, start: Any) -> int | None:
    """The offset of the first message from a place on; None if none comes."""
    await channel.prefetch(1)
    sink, come = Sink(b"leveret-first"), asyncio.Event()
    sink.wake = come.set
    channel.on_end(lambda reason: come.set())
    await channel.consume(name, sink, arguments={OFFSET: start})
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LOOK_S):
            while not sink.items:
                channel.check()
                come.clear()
                await come.wait()
    return offset_of(sink.items[0].headers) if sink.items else None
