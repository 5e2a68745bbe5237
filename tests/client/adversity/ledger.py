"""What the load of one test promised, saw and waited for: the only evidence on which the checkers judge the client.

Written by the coroutines of one loop, read when they have ended."""

from __future__ import annotations

import asyncio
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple

# How long after its deadline a wait is hung, and is torn off so that the test goes on.
HANG_S: Final = 15.0


class MessageId(NamedTuple):
    producer: str
    sequence: int


def body_of(message: MessageId, padding: int = 0) -> bytes:
    """Says which message it is, and whether it is whole."""
    text = f"{message.producer}/{message.sequence}/".encode() + b"." * padding
    return b"%08x" % zlib.crc32(text) + text


def id_of(body: bytes) -> MessageId | None:
    """None if nobody made this body."""
    text = body[8:]
    parts = text.split(b"/")
    if len(parts) != 3 or b"%08x" % zlib.crc32(text) != body[:8]:
        return None
    return MessageId(parts[0].decode(), int(parts[1]))


@dataclass
class Attempt:
    """One message that was handed to a producer."""

    queue: str
    # The client said that the broker has it.
    is_confirmed: bool = False
    # What the client said instead; nobody knows then whether it arrived.
    error: str = ""
    # How often it was sent, if that is known: 0 if not.
    sent_count: int = 0


class Sighting(NamedTuple):
    """A delivery as a consumer got it."""

    queue: str
    consumer: str
    message: MessageId
    redelivered: bool = False
    # It came back from a retry queue, and so has no place in the order.
    was_retried: bool = False


class Wait(NamedTuple):
    what: str
    deadline_s: float
    took_s: float
    # Torn off by the ledger, because it did not end by itself.
    hung: bool = False


@dataclass
class Ledger:
    attempts: dict[MessageId, Attempt] = field(default_factory=dict)
    sightings: list[Sighting] = field(default_factory=list)
    # Worked on to the end; and how many of each producer.
    processed: set[MessageId] = field(default_factory=set)
    processed_count: Counter[str] = field(default_factory=Counter)
    # In the parking lot at the end: not lost, but nothing that the load wants.
    parked: set[MessageId] = field(default_factory=set)
    damaged: list[str] = field(default_factory=list)
    # Waits that took longer than they may, and how many there were.
    waits: list[Wait] = field(default_factory=list)
    waits_total: int = 0
    # Errors that are none of the client's.
    surprises: list[str] = field(default_factory=list)
    # Answers that were not those to the question.
    wrong_answers: list[str] = field(default_factory=list)
    answers_total: int = 0
    # The longest time for which the loop of the test itself stood still.
    lag_s: float = 0.0

    @property
    def confirmed(self) -> list[MessageId]:
        return [message for message, attempt in self.attempts.items() if attempt.is_confirmed]

    def see(self, sighting: Sighting) -> None:
        self.sightings.append(sighting)

    def finish(self, message: MessageId) -> None:
        if message not in self.processed:
            self.processed.add(message)
            self.processed_count[message.producer] += 1

    @contextmanager
    def bounded(self, what: str, deadline_s: float) -> Iterator[None]:
        """Whatever is awaited within must have ended by its deadline, well or not."""
        task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        assert task is not None
        begun = loop.time()
        hung = False

        def tear_off() -> None:
            nonlocal hung
            hung = True
            task.cancel()

        timer = loop.call_at(begun + deadline_s + HANG_S, tear_off)
        self.waits_total += 1
        try:
            yield
        except asyncio.CancelledError:
            if not hung:
                raise
            task.uncancel()
        finally:
            timer.cancel()
            took_s = loop.time() - begun
            if hung or took_s > deadline_s:
                self.waits.append(Wait(what, deadline_s, took_s, hung))

    async def watch_lag(self, every_s: float = 0.05) -> None:
        """Until it is cancelled: a machine that is busy makes everybody late, and that is nobody's fault."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + every_s
            await asyncio.sleep(every_s)
            self.lag_s = max(self.lag_s, loop.time() - due)
