"""Stand-in over aio-pika until leveret.client has its producer and consumer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aio_pika
import aiormq.exceptions
from pamqp.commands import Basic

from leveret.client.errors import ChannelClosed, ConnectionLost, DeadlineExceeded, Refused, Unroutable


class PikaProducer:
    def __init__(self, url: str) -> None:
        self.url = url
        self.connection: Any = None
        self.channel: Any = None
        self.lock = asyncio.Lock()

    async def publish(self, body, *, exchange="", routing_key="", mandatory=True, deadline_s=None, headers=None,
                      message_id=None, **properties):  # fmt: skip
        message = aio_pika.Message(body, headers=headers, message_id=message_id, **properties)
        try:
            async with asyncio.timeout(deadline_s):
                async with self.lock:
                    if self.connection is None or self.connection.is_closed:
                        self.connection = await aio_pika.connect(self.url)
                        self.channel = None
                    if self.channel is None or self.channel.is_closed:
                        self.channel = await self.connection.channel(on_return_raises=True)
                    channel = self.channel
                target = aio_pika.Exchange(channel, exchange) if exchange else channel.default_exchange
                await target.publish(message, routing_key, mandatory=mandatory)
        except TimeoutError:
            raise DeadlineExceeded("confirm") from None
        except aio_pika.exceptions.DeliveryError as error:
            if isinstance(error.frame, Basic.Nack):
                raise Refused(exchange, routing_key) from None
            raise Unroutable(exchange, routing_key, 312, "NO_ROUTE") from None
        except aiormq.exceptions.ChannelNotFoundEntity as error:
            raise ChannelClosed(404, str(error)) from None
        except (aiormq.exceptions.AMQPError, ConnectionError, RuntimeError) as error:
            self.connection = None
            raise ConnectionLost(str(error)) from None


@asynccontextmanager
async def open_producer(url: str) -> AsyncIterator[PikaProducer]:
    producer = PikaProducer(url)
    try:
        yield producer
    finally:
        if producer.connection is not None:
            await producer.connection.close()
