"""Which streams are read, and which offsets they have.

Asks Leveret, which answers in one round trip; with RabbitMQ, which cannot be asked over AMQP, it looks at the two ends
of the stream, which takes up to a second each."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Container, Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from leveret.client.bulk import Timestamp
from leveret.client.connection import Connection
from leveret.client.errors import ChannelClosed, NoPartitions
from leveret.client.streams.partitions import find_partitions
from leveret.client.streams.stream_start import (
    IDENTITY,
    OFFSET,
    NotAStream,
    ask,
    first_offset_from,
    is_leveret,
    offset_of,
    resolve,
)
from leveret.spark import management
from leveret.spark.broker_client import Broker, is_vanished
from leveret.spark.errors import InvalidOption, NoSuchStream, SourceFailed
from leveret.spark.offset_spec import EARLIEST, LATEST, STORED, OffsetSpec, Place
from leveret.spark.positions import Position

__all__ = ["Ends", "Streams"]

NAME = "x-stream-consumer-name"


class Ends(NamedTuple):
    """The oldest message there is, and the place behind the newest one; and which stream it is, if the broker tells."""

    first: int
    end: int
    identity: str | None = None


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

    def check_named(self, there: Container[str], known: Container[str]) -> None:
        """One that the user has named must be there, unless the checkpoint knows it: then it was deleted."""
        for name in self._names or ():
            if name not in there and name not in known:
                raise self._no_such(name)

    def _no_such(self, name: str) -> NoSuchStream:
        return NoSuchStream(f"there is no stream {name!r} in the virtual host {self._broker.vhost!r}")

    def find(self) -> dict[str, int]:
        """By name. Of a super stream, or of streams with a pattern, those that there are now."""
        if self._names is not None:
            return dict.fromkeys(self._names, 0)
        if self._super is not None:
            return self._partitions(self._super)
        assert self._pattern is not None
        streams = management.list_streams(self._broker)
        return {name: 0 for name in streams if re.fullmatch(self._pattern, name)}

    def _partitions(self, name: str) -> dict[str, int]:
        """Asked for, never guessed: a partition may have any name, and one that was deleted leaves a hole behind."""

        async def ask_for_them(connection: Connection) -> dict[str, int] | None:
            link = await connection.ready()
            try:
                return await find_partitions(link, name) if is_leveret(link) else None
            except NoPartitions as error:
                where = f"in the virtual host {self._broker.vhost!r}"
                raise SourceFailed(f"{error}, {where}; streams without one are read with the option stream") from None

        found = self._broker.run(ask_for_them, f"looking for the partitions of {name!r}")
        if found is None:
            found = management.find_partitions(self._broker, name)
        if not found:
            raise SourceFailed(
                f"the super stream {name!r} has no partitions: no stream is bound to an exchange of this name"
            )
        return found

    # ---- offsets

    def ends(self, names: Iterable[str], may_be_missing: bool = False) -> dict[str, Ends]:
        """Of all of them, or of those that there are. Raises NoSuchStream."""
        names = list(names)

        async def all_ends(connection: Connection) -> dict[str, Ends]:
            found = {}
            for name in names:
                try:
                    found[name] = await self._ends(connection, name)
                except NoSuchStream:
                    if not may_be_missing:
                        raise
            return found

        return self._broker.run(all_ends, f"asking for the offsets of {', '.join(names)}")

    async def _ends(self, connection: Connection, name: str) -> Ends:
        link = await connection.ready()
        with self._named(name):
            if is_leveret(link):
                answer = await ask(link, name, {})
                first, end = answer["x-stream-first-offset"], answer["x-stream-committed-offset"]
                return Ends(first, end, answer.get(IDENTITY))
            channel = await connection.channel()
            try:
                end = await resolve(channel, name, "next")
                assert end is not None
                first = await first_offset_from(channel, name, "first")
                return Ends(end if first is None else first, end)
            finally:
                await channel.close()

    def locate(self, names: Mapping[str, int], places: OffsetSpec, group: str | None) -> dict[str, int]:
        """The offset that each place means, between the two ends of its stream for everything but a given offset and
        a stored one."""
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
            # Perhaps before the first one there is: then what was between is lost, which whoever asks must tell.
            return int(answer["x-stream-stored-offset"]) + 1
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
            found = await first_offset_from(channel, name, Timestamp(int(place.timestamp())))
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
                raise self._no_such(name) from None
            raise
        except NotAStream:
            raise SourceFailed(f"{name!r} is a queue and no stream: read it with the option queue") from None

    def store(self, group: str, positions: Mapping[str, Position]) -> None:
        """The group is done with everything before these positions. Nothing is stored for a stream of which nothing was
        read, nor for one that is deleted or made anew since. RabbitMQ stores no offsets over AMQP: there it does
        nothing."""

        async def store_all(connection: Connection) -> None:
            link = await connection.ready()
            if not is_leveret(link):
                return
            for name, one in positions.items():
                if one.offset > 0 and not one.is_missing:
                    known = {} if one.identity is None else {IDENTITY: one.identity}
                    try:
                        await ask(link, name, {NAME: group, "x-stream-store-offset": one.offset - 1, **known})
                    except ChannelClosed as error:
                        if not is_vanished(error):
                            raise

        self._broker.run(store_all, f"storing how far {group!r} is")
