"""The producers of the load: one message at a time, futures, batches; each writes down what it was promised."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final

from leveret.client import BatchFailed, ClientError, Connection, DeadlineExceeded, Producer
from tests.client.adversity.ledger import Attempt, Ledger, MessageId, body_of

# Between two bursts: the machine has other work. Where nobody consumes before the end the pause is longer.
PAUSE_S: Final = 0.004
LONG_PAUSE_S: Final = 0.03
# How many confirmed messages may wait for their consumer.
AHEAD_MAX: Final = 500
BURST: Final = 5
# Far more than a frame's worth now and then, so that faults find half a body, too.
LARGE_EVERY: Final = 50
LARGE_BYTES: Final = 200_000

# The longest that one waits who gives up.
IMPATIENCE_S: Final = 0.02

Say = Callable[[Producer, bytes], Awaitable[None]]


async def say(producer: Producer, body: bytes) -> None:
    await producer.publish(body)


class Publisher:
    """Publishes numbered messages to one queue until it is told to stop."""

    def __init__(self, name: str, queue: str, ledger: Ledger, stopping: asyncio.Event, deadline_s: float) -> None:
        self.name = name
        self.queue = queue
        self.ledger = ledger
        self.stopping = stopping
        self.deadline_s = deadline_s
        self.count = 0
        self.confirmed_count = 0
        # Whether what it was promised is a promise that the message will be consumed, and whether that happens soon.
        self.counts = True
        self.is_consumed = True

    def attempt(self) -> tuple[MessageId, bytes]:
        message = MessageId(self.name, self.count)
        self.count += 1
        self.ledger.attempts[message] = Attempt(self.queue)
        return message, body_of(message, LARGE_BYTES if message.sequence % LARGE_EVERY == LARGE_EVERY - 1 else 10)

    def confirmed(self, message: MessageId) -> None:
        self.ledger.attempts[message].is_confirmed = self.counts
        self.confirmed_count += 1

    async def pause(self) -> None:
        if not self.is_consumed:
            await asyncio.sleep(LONG_PAUSE_S)
            return
        await asyncio.sleep(PAUSE_S)
        while self._is_ahead and not self.stopping.is_set():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(PAUSE_S)

    @property
    def _is_ahead(self) -> bool:
        return self.confirmed_count - self.ledger.processed_count[self.name] > AHEAD_MAX

    def failed(self, message: MessageId, error: BaseException) -> None:
        """Only that it took too long is an excuse."""
        self.ledger.attempts[message].error = str(error)
        if not isinstance(error, DeadlineExceeded):
            self.ledger.surprises.append(f"{self.name}: {error!r}")

    # ---- the three ways

    async def one_by_one(self, producer: Producer, say: Say = say) -> None:
        async def one() -> None:
            message, body = self.attempt()
            try:
                with self.ledger.bounded(f"publish by {self.name}", self.deadline_s):
                    await say(producer, body)
                    self.confirmed(message)
            except ClientError as error:
                self.failed(message, error)

        while not self.stopping.is_set():
            await asyncio.gather(*(one() for _ in range(BURST)))
            await self.pause()

    async def impatiently(self, producer: Producer, dice: random.Random) -> None:
        """Gives up most messages at some moment between the publish and the answer."""

        async def one() -> None:
            message, body = self.attempt()
            try:
                with self.ledger.bounded(f"publish by {self.name}", self.deadline_s):
                    async with asyncio.timeout(dice.random() * IMPATIENCE_S):
                        await producer.publish(body)
                    self.confirmed(message)
            except TimeoutError as error:
                self.ledger.attempts[message].error = repr(error)
            except ClientError as error:
                self.failed(message, error)

        while not self.stopping.is_set():
            await asyncio.gather(*(one() for _ in range(BURST)))
            await self.pause()

    async def by_futures(self, producer: Producer) -> None:
        async def answer(message: MessageId, confirmation: Any, outgoing: Any) -> None:
            try:
                with self.ledger.bounded(f"confirm for {self.name}", self.deadline_s):
                    await confirmation
                    self.confirmed(message)
            except ClientError as error:
                self.failed(message, error)
            self.ledger.attempts[message].sent_count = outgoing.sent_count

        async with asyncio.TaskGroup() as answers:
            while not self.stopping.is_set():
                for _ in range(BURST):
                    message, body = self.attempt()
                    try:
                        with self.ledger.bounded(f"submit by {self.name}", self.deadline_s):
                            confirmation = await producer.submit(body)
                            answers.create_task(answer(message, confirmation, confirmation.message))
                    except ClientError as error:
                        self.failed(message, error)
                await self.pause()

    async def by_batches(self, producer: Producer) -> None:
        while not self.stopping.is_set():
            batch = [self.attempt() for _ in range(3 * BURST)]
            failures: dict[int, BaseException] = {}
            unsent_from = len(batch)
            try:
                with self.ledger.bounded(f"publish_batch by {self.name}", self.deadline_s):
                    await producer.publish_batch(body for _, body in batch)
            except BatchFailed as error:
                failures = dict(error.failures)
                unsent_from = len(batch) if error.unsent_from is None else error.unsent_from
            except ClientError as error:
                failures = dict.fromkeys(range(len(batch)), error)
            for index, (message, _) in enumerate(batch):
                if index in failures:
                    self.failed(message, failures[index])
                elif index < unsent_from:
                    self.confirmed(message)
            await self.pause()


async def ask_on(
    connection: Connection, queue: str, ledger: Ledger, stopping: asyncio.Event, deadline_s: float
) -> None:
    """Questions with answers that can be checked."""
    number = 0
    async with connection.rpc() as rpc:
        while not stopping.is_set():
            number += 1
            try:
                with ledger.bounded("a question", deadline_s):
                    reply = await rpc.call(b"%d" % number, routing_key=queue, retry=True, deadline_s=deadline_s)
                    ledger.answers_total += 1
                    if reply.body != b"%d" % (2 * number):
                        ledger.wrong_answers.append(f"{reply.body!r} to {number}")
            except DeadlineExceeded:
                pass
            except ClientError as error:
                ledger.surprises.append(f"a question: {error!r}")
            await asyncio.sleep(PAUSE_S)
