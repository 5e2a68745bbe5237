"""Messages of a producer that are under way: taken, and not answered for.

Each is in one of three places: written on the channel codec, waiting to be written, or resting because the broker has
refused it. When a channel ends, what was written waits again, in its order. There is one timer, for the earliest
deadline."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain

import msgspec

from leveret.client.backoff import backoff_s
from leveret.client.errors import ChannelClosed, ClientClosed, ClientError, DeadlineExceeded, fresh
from leveret.client.publishing.confirmation import BatchWait, Confirmation, failure_of, is_named_in
from leveret.client.publishing.producer_options import ProducerOptions
from leveret.client.publishing.window import Window
from leveret.core.client.channel_codec import ChannelCodec
from leveret.core.client.outgoing import Outgoing
from leveret.core.client.runs import publish_run, tally

__all__ = ["Counters", "InFlight"]

log = logging.getLogger(__name__)

NEVER = float("inf")


class Counters(msgspec.Struct):
    """What a producer has done since it was made."""

    # Handed over for the first time.
    published: int = 0
    # Answered for: taken, came back because no queue wanted it, or not taken.
    confirmed: int = 0
    returned: int = 0
    refused: int = 0
    # Sent once more, after a lost channel or a refusal.
    retransmitted: int = 0
    # Not answered for in time.
    expired: int = 0


class InFlight:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        options: ProducerOptions,
        want_channel: Callable[[], None],
        trouble: Callable[[], str],
    ) -> None:
        self._loop = loop
        self._options = options
        # Called when something waits and there is no channel; and to be told why there is none.
        self._want_channel = want_channel
        self._trouble = trouble
        self.counters = Counters()
        self.window = Window(options.window, options.window_bytes)
        # Where to write; None while there is no channel.
        self.codec: ChannelCodec | None = None
        self._waiting: deque[Outgoing] = deque()
        # The first so many of those that wait go one by one: one of them is what the broker closed the channel for.
        self._suspects = 0
        # How often the broker has refused a message that is tried again; those that rest until then, with the timers.
        self._refusals: dict[Outgoing, int] = {}
        self._resting: dict[Outgoing, None] = {}
        self._timers: set[asyncio.TimerHandle] = set()
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = NEVER
        # Messages that were given up or not taken, whatever the reason, since somebody asked whether there are any.
        self._failed = 0
        self.is_stopped = False

    # ---- out

    def numbers(self) -> dict[str, float]:
        """For metrics."""
        counters, window = self.counters, self.window
        return {
            **{f"{name}_total": getattr(counters, name) for name in counters.__struct_fields__},
            "in_flight": window.count,
            "in_flight_bytes": window.bytes,
            "waiting": window.waiting,
        }

    def accept(self, message: Outgoing, due: float, owner: Confirmation | BatchWait) -> None:
        """Takes a message over, for which there is room in the window."""
        message.owner = owner
        message.due = due
        if due < self._alarm_at:
            self.arm(due)
        self.counters.published += 1
        if self.codec is not None and not self._waiting and not self.codec.write_buffer.congested:
            try:
                self.codec.publish(message)
            except ValueError as error:
                self._fail(message, error)
        else:
            self._waiting.append(message)
            if self.codec is None:
                self._want_channel()

    def accept_run(self, messages: list[Outgoing], start: int, due: float, owner: BatchWait) -> int:
        """Takes over as many as there is room for in the window and in the socket, and writes them. How many those are:
        0 if something waits already, or the first has to go by itself."""
        codec = self.codec
        if codec is None or self._waiting:
            return 0
        count, size = self.window.room()
        if due < self._alarm_at:
            self.arm(due)
        before = codec.unconfirmed_bytes
        end: int = publish_run(codec, messages, start, min(len(messages), start + count), size, due, owner)
        owner.left += end - start
        self.window.take_run(end - start, codec.unconfirmed_bytes - before)
        self.counters.published += end - start
        return end - start

    def use(self, codec: ChannelCodec) -> None:
        """There is a channel: everything that waits is written."""
        assert self.codec is None
        self.codec = codec
        codec.owner = self.answered
        self._transport()

    def _transport(self) -> None:
        """Writes what waits, as long as the socket takes it: what is written cannot be taken back when its time is
        over, and would be kept in memory without being counted."""
        while self._waiting and self.codec is not None and not self.codec.write_buffer.congested:
            if self._suspects:
                if self.codec.unconfirmed:
                    return
                self._suspects -= 1
            message = self._waiting.popleft()
            if message.sent_count:
                message.send_again()
                self.counters.retransmitted += 1
            try:
                self.codec.publish(message)
            except ValueError as error:
                # Larger than what was agreed on for this connection.
                self._fail(message, error)

    # ---- answers

    def answered(self, codec: ChannelCodec) -> None:
        """The broker has answered for some, or the socket takes more. Called once for each chunk that it sends."""
        refused: list[Outgoing] = []
        settled = codec.take_settled()
        if self._refusals:
            for message in settled:
                if message.is_confirmed:
                    self._refusals.pop(message, None)
        confirmed, size, runs, others = tally(settled)
        for owner, count in runs:
            if owner.__class__ is BatchWait:
                owner.left -= count
                if not owner.left:
                    owner.finish()
            elif not owner.done():
                owner.message = None
                owner.set_result(None)
        for message in others:
            self._not_taken(message, refused)
        self.counters.confirmed += confirmed
        if refused:
            self._rest(refused)
        if confirmed:
            self.window.release(confirmed, size)
        for _, _, stray in codec.take_strays():
            log.debug("a message came back that nobody waits for", extra={"message_id": stray.message_id})
        if self._waiting:
            self._transport()

    def _not_taken(self, message: Outgoing, refused: list[Outgoing]) -> None:
        if message.is_returned:
            self.counters.returned += 1
        else:
            self.counters.refused += 1
            if self._refusals.get(message, 0) < self._options.retry_refused:
                refused.append(message)
                return
        self._fail(message, failure_of(message))

    def _rest(self, messages: list[Outgoing]) -> None:
        """Tried again after a pause, all together: the more often one was refused, the longer."""
        times = 0
        for message in messages:
            self._refusals[message] = self._refusals.get(message, 0) + 1
            self._resting[message] = None
            times = max(times, self._refusals[message])
        pause = backoff_s(self._options.retry_pause_min_s, self._options.retry_pause_max_s, times)

        def awake() -> None:
            self._timers.discard(timer)
            for message in messages:
                if message in self._resting:
                    del self._resting[message]
                    self._waiting.append(message)
            self._transport()

        timer = self._loop.call_later(pause * (0.5 + random.random() / 2), awake)
        self._timers.add(timer)

    def _fail(self, message: Outgoing, error: Exception | None) -> None:
        """The message is in no place any more: whoever waits for it is told, and there is room for another."""
        self._failed += 1
        owner: Confirmation | BatchWait | None = message.owner
        message.owner = None
        self._refusals.pop(message, None)
        if isinstance(owner, BatchWait):
            owner.left -= 1
            if error is not None:
                owner.fail(message.index, error)
            owner.finish()
        elif owner is not None:
            owner.settle(error)
        self.window.release(1, len(message.body))

    # ---- without an answer

    def drop(self, message: Outgoing) -> None:
        """Nobody waits for it any more. If it is written, nobody listens to the answer; else it is not sent."""
        if message.owner is not None:
            self._take_out(message)
            self._fail(message, None)

    def _take_out(self, message: Outgoing) -> None:
        if message in self._resting:
            del self._resting[message]
        elif self.codec is not None and self.codec.unconfirmed.get(message.tag) is message:
            self.codec.forget(message)
        else:
            self._waiting.remove(message)

    def drop_batch(self, batch: BatchWait) -> None:
        for message in [message for message in self.unanswered() if message.owner is batch]:
            self.drop(message)

    def unanswered(self) -> Iterator[Outgoing]:
        written = () if self.codec is None else self.codec.unconfirmed.values()
        return (message for message in chain(written, self._waiting, self._resting) if message is not None)

    async def flush(self, seconds: float) -> set[asyncio.Future[None]]:
        """Waits until everything that was taken before is answered for; the futures of those who wait for it. Raises
        DeadlineExceeded."""
        due = self._loop.time() + seconds
        if self.window.waiting:
            self.arm(due)
            await self.window.wait_for_much(due, self._loop)
        owners = {message.owner for message in self.unanswered()}
        futures = {owner.done if isinstance(owner, BatchWait) else owner for owner in owners}
        if futures:
            _, late = await asyncio.wait(futures, timeout=max(0.0, due - self._loop.time()))
            if late:
                raise DeadlineExceeded(f"{self.window.count} messages were not confirmed within {seconds:g} s")
        return futures

    async def all_confirmed(self, seconds: float) -> bool:
        """Whether everything is confirmed that was taken since this was asked last; False too if it takes too long."""
        try:
            futures = await self.flush(seconds)
        except DeadlineExceeded:
            return False
        for future in futures:
            if not future.cancelled():
                # Told by what is returned here: asyncio need not complain that nobody has asked the future.
                future.exception()
        failed, self._failed = self._failed, 0
        return failed == 0

    def arm(self, due: float) -> None:
        """Somebody's time will be over at this moment."""
        if due < self._alarm_at:
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm_at = due
            self._alarm = self._loop.call_at(due, self._ring)

    def _ring(self) -> None:
        """Most of those whose time it was are answered for long since: only those that are left are looked at."""
        self._alarm, self._alarm_at = None, NEVER
        now = self._loop.time()
        # Those in line first: else they are let in by those that go.
        earliest = self.window.expire(now)
        late = []
        for message in self.unanswered():
            if message.due <= now:
                late.append(message)
            elif message.due < earliest:
                earliest = message.due
        for message in late:
            self.counters.expired += 1
            self._take_out(message)
            self._fail(message, self._lateness(message))
        if earliest < NEVER:
            self.arm(earliest)

    def _lateness(self, message: Outgoing) -> DeadlineExceeded:
        exchange = message.exchange()
        where = f"exchange {exchange!r}" if exchange else "the default exchange"
        sent = "it was never sent" if not message.sent_count else "it was sent, and may have arrived"
        why = self._trouble()
        return DeadlineExceeded(
            f"a message to {where} with the routing key {message.routing_key()!r} was not confirmed within its "
            f"deadline: {sent}{'; ' if why else ''}{why}"
        )

    # ---- the end of a channel

    def ended(self, reason: ClientError) -> None:
        """The channel is gone. What was answered before that counts; what was not is sent again, except what the broker
        closed the channel for."""
        codec = self.codec
        if codec is None:
            return
        self.answered(codec)
        self.codec = None
        left = codec.abandon()
        self._waiting.extendleft(reversed(left))
        if isinstance(reason, ChannelClosed):
            self._blame(reason, left)
            if self._waiting:
                self._want_channel()

    def _blame(self, reason: ChannelClosed, left: list[Outgoing]) -> None:
        """The broker does not say which message it was. Those that go where its words say, or the only one that there
        was; else they are sent one by one until it is clear."""
        guilty = [message for message in left if is_named_in(reason, message)]
        if not guilty and len(left) == 1:
            guilty = left
        log.warning(
            "the broker closed the channel of a producer",
            extra={"reason": str(reason), "unanswered": len(left), "failed": len(guilty)},
        )
        if not guilty:
            self._suspects = len(left)
        for message in guilty:
            self._waiting.remove(message)
            self._fail(message, fresh(reason))

    def stop(self, reason: str) -> None:
        """Whatever is not answered for never will be."""
        self.is_stopped = True
        if self._alarm is not None:
            self._alarm.cancel()
        for timer in self._timers:
            timer.cancel()
        if self.codec is not None:
            self.codec.owner = None
        # First: whoever stands in line is not to be let in by those that go.
        self.window.end(reason)
        for message in list(self.unanswered()):
            self._take_out(message)
            self._fail(message, ClientClosed(f"{reason} before the message was confirmed"))
        self.codec = None
