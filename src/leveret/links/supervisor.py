"""One link under supervision: connected, moving, reconnected after pauses that grow, and stopped in good order.

Owns the link's state and its counters. What is moved, from where and how, is its work's business (`LinkWork`)."""

from __future__ import annotations

import asyncio
import contextlib
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from leveret.broker.link_status import BLOCKED, PAUSED, RUNNING, STARTING, TERMINATED, LinkCounters
from leveret.catalog.parameters import masked
from leveret.client.errors import ClientError
from leveret.errors import AmqpError
from leveret.links.dialing import Dialed, Dialer
from leveret.links.transfer import Transfer
from leveret.runtime.log import get_logger

__all__ = ["LinkWork", "Supervised"]

log = get_logger(__name__)

# The longest pause, in first pauses.
PAUSES_MAX = 6
# A run that lasted so long was a good one: the next pause is the first again.
GOOD_RUN_S = 30.0
CLOSE_DEADLINE_S = 2.0
STOP_DEADLINE_S = 6.0


class LinkWork(ABC):
    """What a link does while it is connected. The supervisor calls everything here, one run at a time."""

    # What the log and the connections' names say.
    title: str
    vhost: str
    source_uris: Sequence[str]
    target_uris: Sequence[str]
    # Seconds before the first reconnect; 0 for never.
    reconnect_delay_s: float

    @abstractmethod
    async def begin(self, source: Dialed, target: Dialed) -> Transfer:
        """Declares what the link needs and starts to consume. Raises ClientError."""

    @abstractmethod
    def end(self, transfer: Transfer) -> None:
        """The run is over: what the next one has to know is in the transfer."""


class Supervised:
    """`finished` is called when the work has ended for good by itself."""

    def __init__(
        self, work: LinkWork, dialer: Dialer, wall: Callable[[], float], finished: Callable[[], None] | None = None
    ) -> None:
        self.work = work
        self._dialer = dialer
        self._wall = wall
        self._finished = finished
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._state = STARTING
        self._reason = ""
        self._since = wall()
        self._transfer: Transfer | None = None
        self._uri_numbers = [0, 0]
        # Of runs that are over.
        self._totals = LinkCounters()
        self.source_shown = ""
        self.target_shown = ""

    # ---- what operators see

    @property
    def state(self) -> str:
        return BLOCKED if self._state == RUNNING and self._blocked() else self._state

    @property
    def reason(self) -> str:
        return self._blocked() or self._reason

    @property
    def since(self) -> float:
        return self._since

    def _blocked(self) -> str:
        return "" if self._transfer is None else self._transfer.blocked_reason

    @property
    def in_flight(self) -> int:
        return 0 if self._transfer is None else self._transfer.relay.in_flight

    @property
    def counters(self) -> LinkCounters:
        total, transfer = self._totals, self._transfer
        if transfer is None:
            return total
        relay = transfer.relay
        return LinkCounters(
            total.forwarded + relay.forwarded_total,
            total.forwarded_bytes + relay.forwarded_bytes,
            total.confirmed + relay.confirmed_total,
            total.dropped + relay.dropped_total,
            total.refused + relay.refused_total,
            total.reconnects,
        )

    def _enter(self, state: str, reason: str = "") -> None:
        self._state, self._reason, self._since = state, reason, self._wall()

    # ---- life

    @property
    def is_started(self) -> bool:
        """Whether it is to run: it may be finished by now, or wait for its next attempt."""
        return self._task is not None

    def start(self) -> None:
        assert self._task is None
        self._stop = asyncio.Event()
        self._enter(STARTING)
        self._task = asyncio.get_running_loop().create_task(self._supervise(), name=f"leveret {self.work.title}")

    async def stop(self, paused: bool = False) -> None:
        """Waits for what is under way, but not for ever; it goes back to the source if it is not confirmed by then."""
        task, self._task = self._task, None
        if task is not None:
            self._stop.set()
            if self._transfer is None:
                # It connects or rests: nothing is under way.
                task.cancel()
            _, late = await asyncio.wait({task}, timeout=STOP_DEADLINE_S)
            if late:
                task.cancel()
                await asyncio.wait({task}, timeout=CLOSE_DEADLINE_S)
        self._enter(PAUSED if paused else TERMINATED, "paused by an operator" if paused else "stopped")

    async def _supervise(self) -> None:
        pause_s = self.work.reconnect_delay_s
        while not self._stop.is_set():
            began = asyncio.get_running_loop().time()
            try:
                if await self._run():
                    return
                reason = "stopped"
            except (ClientError, AmqpError, OSError, ValueError) as error:
                reason = str(masked(str(error)))
            except Exception:
                # A mistake of ours must not end the supervision: the link would be gone without a word.
                log.exception("a link failed", link=self.work.title, vhost=self.work.vhost)
                reason = "an error of the broker's; its log says more"
            if self._stop.is_set():
                return
            self._enter(TERMINATED, reason)
            log.warning("a link ended", link=self.work.title, vhost=self.work.vhost, reason=reason)
            if not self.work.reconnect_delay_s:
                return
            if asyncio.get_running_loop().time() - began > GOOD_RUN_S:
                pause_s = self.work.reconnect_delay_s
            await self._rest(pause_s)
            pause_s = min(PAUSES_MAX * self.work.reconnect_delay_s, pause_s * 2)
            self._totals.reconnects += 1

    async def _rest(self, pause_s: float) -> None:
        """A random part of it, so that many links do not come back at once."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), pause_s * (0.5 + random.random() / 2))

    async def _run(self) -> bool:
        """One connection of both sides; whether the work is done for good."""
        self._enter(STARTING, self._reason)
        async with contextlib.AsyncExitStack() as opened:
            target = await self._dial(1, opened)
            source = await self._dial(0, opened)
            transfer = await self.work.begin(source, target)
            self._transfer = transfer
            self.source_shown, self.target_shown = source.shown, target.shown
            self._enter(RUNNING)
            log.info("a link runs", link=self.work.title, vhost=self.work.vhost)
            try:
                return await self._moved(transfer)
            finally:
                self._settle_up(transfer)

    async def _moved(self, transfer: Transfer) -> bool:
        stopping = asyncio.ensure_future(self._stop.wait())
        try:
            either: set[asyncio.Future[Any]] = {transfer.ended, stopping}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
        if not transfer.ended.done():
            await transfer.drain()
            return False
        transfer.ended.result()
        self._enter(TERMINATED, "finished")
        if self._finished is not None:
            self._finished()
        return True

    def _settle_up(self, transfer: Transfer) -> None:
        self._totals = self.counters
        self._transfer = None
        transfer.close()
        self.work.end(transfer)

    async def _dial(self, side: int, opened: contextlib.AsyncExitStack) -> Dialed:
        uris = (self.work.source_uris, self.work.target_uris)[side]
        dialed, number = await self._dialer.dial(uris, self._uri_numbers[side], self.work.vhost, self.work.title)
        opened.push_async_callback(dialed.link.close, CLOSE_DEADLINE_S)
        # The next attempt begins with another one: this one may be reachable and of no use.
        self._uri_numbers[side] = (number + 1) % len(uris)
        return dialed
