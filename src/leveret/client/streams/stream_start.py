"""Where a reader of a stream starts, in the words of its user, of AMQP, and as a number.

"next" and "last" mean another place each time they are asked for. A reader that loses its connection before the first
message would leave out what was published meanwhile; so they are made a number at the start, as well as the broker
lets us: Leveret answers the question, with RabbitMQ we look at the end of the stream."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from datetime import datetime
from typing import Any

from leveret.client.deadline import within
from leveret.client.errors import ClientError
from leveret.client.transport.channel import Channel
from leveret.client.transport.link import Link
from leveret.core.client.channel_codec import DeliveryBuffer
from leveret.core.client.delivery import Delivery

__all__ = [
    "IDENTITY",
    "OFFSET",
    "NotAStream",
    "Start",
    "answered",
    "ask",
    "ask_producers",
    "check_start",
    "first_offset_from",
    "is_leveret",
    "resolve",
]

OFFSET = "x-stream-offset"
# The argument by which a consumer asks for a stream that it knows.
IDENTITY = "x-stream-id"
Start = str | int | datetime
STORED = "stored"
MOVING = ("next", "last")
_AGO = re.compile(r"[0-9]+[YMDhms]")
PROBE_PREFETCH = 1000
ANSWER_S = 10.0
# A stream from which nothing comes for so long is empty; its end is where the next message takes longer than that, and
# is looked for at most so long.
EMPTY_S, QUIET_S, LOOK_S = 1.0, 0.25, 1.0


class NotAStream(ClientError):
    """The queue is of another type."""


def check_start(start: Start) -> Start:
    """Raises ValueError or TypeError if it is no place in a stream."""
    if isinstance(start, bool) or not isinstance(start, str | int | datetime):
        raise TypeError(f"offset is {start!r}, and must be a word, a number or a datetime")
    if isinstance(start, int) and start < 0:
        raise ValueError(f"offset is {start}, and must not be below 0")
    if isinstance(start, str) and start not in ("first", *MOVING, STORED) and _AGO.fullmatch(start) is None:
        raise ValueError(f'offset is {start!r}, not "first", "last", "next", "stored" or a time ago such as "1h"')
    if isinstance(start, datetime) and start.tzinfo is None:
        raise ValueError("offset is a datetime without a time zone: say which, such as timezone.utc")
    return start


def is_leveret(link: Link) -> bool:
    # The product may be announced as RabbitMQ, this property is Leveret's alone.
    return "leveret_version" in link.server_properties


async def resolve(channel: Channel, stream: str, start: Start) -> int | None:
    """The number for "next" or "last" as of now; None for all that means the same place later as well."""
    if start not in MOVING:
        return None
    if is_leveret(channel.link):
        return await _ask(channel.link, stream, start)
    return await _look(channel.link, stream, start)


async def ask(link: Link, stream: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """What Leveret says to `x-stream-query` with these arguments, see docs/streams.md."""
    return (await _answer(link, stream, arguments)).headers


async def ask_producers(link: Link, stream: str, prefix: str) -> dict[str, int]:
    """The last publishing ids of producers whose names begin so; of Leveret only. ChannelClosed with 404 or 406 if
    there is no such stream."""
    answer = await _answer(link, stream, {OFFSET: "first", "x-stream-producers": prefix})
    found: dict[str, int] = json.loads(answer.body)
    return found


async def _answer(link: Link, stream: str, arguments: dict[str, Any]) -> Delivery:
    asking = {**arguments, "x-stream-query": True}
    answer = await answered(link, stream, asking, f"asking for the offsets of {stream!r}")
    offset_of(answer.headers)
    return answer


async def answered(link: Link, queue: str, arguments: dict[str, Any], doing: str) -> Delivery:
    """The one message that Leveret sends to a consumer that asks something."""
    channel = await Channel.open(link, ANSWER_S)
    try:
        # A queue that is no stream would deliver instead of answering: then one message, and it goes back.
        await channel.prefetch(1)
        delivery_buffer, come = _delivery_buffer(b"leveret-question")
        await channel.consume(queue, delivery_buffer, arguments=arguments)
        await within(ANSWER_S, doing, _some(channel, delivery_buffer, come))
        answer: Delivery = delivery_buffer.items[0]
        return answer
    finally:
        await channel.close()


async def _ask(link: Link, stream: str, start: Start) -> int:
    return offset_of(await ask(link, stream, {OFFSET: start}))


async def _look(link: Link, stream: str, start: Start) -> int:
    """Reads the last bunch of messages, which is all that "last" means there."""
    channel = await Channel.open(link, ANSWER_S)
    try:
        await channel.prefetch(PROBE_PREFETCH)
        delivery_buffer, come = _delivery_buffer(b"leveret-look")
        await channel.consume(stream, delivery_buffer, arguments={OFFSET: "last"})
        try:
            async with asyncio.timeout(EMPTY_S):
                await _some(channel, delivery_buffer, come)
        except TimeoutError:
            # Its message count cannot be asked instead: that may still be 0 when messages are confirmed.
            return 0
        first = int(delivery_buffer.items[0].headers[OFFSET])
        last = await _end_of(channel, delivery_buffer, come)
        return first if start == "last" else last + 1
    finally:
        await channel.close()


async def first_offset_from(channel: Channel, stream: str, start: Any) -> int | None:
    """The offset of the first message from a place on; None if none comes within a second. For brokers that do not
    answer questions."""
    await channel.prefetch(1)
    delivery_buffer, come = _delivery_buffer(b"leveret-first")
    await channel.consume(stream, delivery_buffer, arguments={OFFSET: start})
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LOOK_S):
            await _some(channel, delivery_buffer, come)
    return offset_of(delivery_buffer.items[0].headers) if delivery_buffer.items else None


async def _end_of(channel: Channel, delivery_buffer: DeliveryBuffer, come: asyncio.Event) -> int:
    """Where the stream ends at present. Somebody may be publishing all the time: then any moment is as good."""
    loop = asyncio.get_running_loop()
    until = loop.time() + LOOK_S
    last = 0
    while loop.time() < until:
        if delivery_buffer.items:
            newest = delivery_buffer.items[-1]
            last = int(newest.headers[OFFSET])
            newest.ack(multiple=True)
            delivery_buffer.items.clear()
        come.clear()
        try:
            async with asyncio.timeout(QUIET_S):
                await _some(channel, delivery_buffer, come)
        except TimeoutError:
            break
    return last


def _delivery_buffer(tag: bytes) -> tuple[DeliveryBuffer, asyncio.Event]:
    delivery_buffer, come = DeliveryBuffer(tag), asyncio.Event()
    delivery_buffer.wake = come.set
    return delivery_buffer, come


async def _some(channel: Channel, delivery_buffer: DeliveryBuffer, come: asyncio.Event) -> None:
    channel.on_end(lambda reason: come.set())
    while not delivery_buffer.items:
        channel.check()
        come.clear()
        await come.wait()


def offset_of(headers: dict[str, Any] | None) -> int:
    """Of a delivery from a stream, which always has one."""
    offset = None if headers is None else headers.get(OFFSET)
    if not isinstance(offset, int):
        raise NotAStream("a delivery has no x-stream-offset: is this queue a stream?")
    return offset
