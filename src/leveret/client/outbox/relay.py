"""The relay: takes rows out of the outbox and publishes them, in order, with confirms.

A row is settled only after the broker has confirmed it, so a crash at any point repeats messages and loses none; a
repeat has the same message id. Of several relays on one outbox one is active, the others stand by."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol

import msgspec

from leveret.client.backoff import backoff_s, spread_s
from leveret.client.database.errors import DatabaseUnavailable
from leveret.client.errors import (
    ChannelClosed,
    ClientClosed,
    ConnectionFailed,
    ConnectionLost,
    DeadlineExceeded,
    Refused,
    Unroutable,
)
from leveret.client.outbox.rows import Failure, OutboxDatabase, OutboxRow, Settlement

__all__ = ["Publisher", "Relay", "RelayMetrics"]

logger = logging.getLogger("leveret.client.outbox")
BATCH_BYTES_MAX = 16 * 1024 * 1024
# How often pending rows are counted, and rows that were kept long enough are deleted.
MEASURE_S = 5.0
PURGE_BATCH = 1000


class Publisher(Protocol):
    """What the relay asks of a producer; leveret.client's Producer is one. `publish` takes the body, and by name
    exchange, routing_key, mandatory, deadline_s, headers, message_id and other properties. It returns when the broker
    has confirmed, and else raises as the Producer does."""

    @property
    def publish(self) -> Callable[..., Awaitable[None]]: ...


@dataclass(slots=True)
class RelayMetrics:
    """Counted since the relay was made; the last four as they were when the relay last looked."""

    # Rows that the broker confirmed and the database has settled.
    published: int = 0
    # Publishes that the broker refused: unroutable, nacked, no such exchange.
    failed: int = 0
    # Rows given up.
    parked: int = 0
    # Times that the broker or the database was not to be had.
    interruptions: int = 0
    is_active: bool = False
    pending: int = 0
    parked_rows: int = 0
    oldest_age_s: float = 0.0


class Relay:
    """`run` until `stop`, or `async with Relay(...)`.

    A row that the broker refuses is tried again after `retry_s`, then twice that and so on up to `retry_max_s`, and
    parked after `attempts_max`. Meanwhile later rows of its ordering key wait, rows of other keys do not. When it is
    the broker or the database that is not to be had, nothing is counted against a row."""

    def __init__(
        self,
        database: OutboxDatabase,
        producer: Publisher,
        *,
        batch: int = 100,
        poll_s: float = 1.0,
        publish_deadline_s: float = 30.0,
        attempts_max: int = 10,
        retry_s: float = 1.0,
        retry_max_s: float = 60.0,
        stop_deadline_s: float = 10.0,
    ) -> None:
        if batch < 1 or attempts_max < 1:
            raise ValueError("a batch has at least one row, and a row at least one attempt")
        if poll_s <= 0 or publish_deadline_s <= 0 or retry_s <= 0:
            raise ValueError("waits are longer than 0 s")
        self._database = database
        self._producer = producer
        self._batch = batch
        self._poll_s = poll_s
        self._publish_deadline_s = publish_deadline_s
        self._attempts_max = attempts_max
        self._retry_s = retry_s
        self._retry_max_s = retry_max_s
        self._stop_deadline_s = stop_deadline_s
        self._stopped = asyncio.Event()
        # Of the batch under way; none until somebody wants to stop.
        self._patience: asyncio.Timeout | None = None
        self._task: asyncio.Task[None] | None = None
        self._measured_at = -MEASURE_S
        self.metrics = RelayMetrics()

    # ---- running

    async def run(self) -> None:
        """Publishes until `stop`. Raises only what no waiting mends: a closed producer, or a mistake."""
        interruptions = 0
        try:
            while not self._stopped.is_set():
                try:
                    await self._turn()
                    interruptions = 0
                except (DatabaseUnavailable, ConnectionLost, ConnectionFailed, DeadlineExceeded) as error:
                    interruptions += 1
                    self.metrics.interruptions += 1
                    pause_s = backed_off(self._retry_s, interruptions, self._retry_max_s)
                    logger.warning("outbox interrupted", extra={"reason": str(error), "pause_s": round(pause_s, 3)})
                    await self._stop_within(pause_s)
        finally:
            self.metrics.is_active = False
            await self._database.release()

    def stop(self) -> None:
        """Lets `run` finish what is in hand: publishes under way are waited for and settled, no new ones begun. What a
        broker has not answered by `stop_deadline_s` is left for the next relay. To be called in the loop."""
        if not self._stopped.is_set():
            self._stopped.set()
            if self._patience is not None:
                self._patience.reschedule(asyncio.get_running_loop().time() + self._stop_deadline_s)

    async def __aenter__(self) -> Relay:
        assert self._task is None, "this relay was started before"
        self._task = asyncio.create_task(self.run(), name="leveret-outbox-relay")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
        assert self._task is not None
        await self._task

    async def _turn(self) -> None:
        if not await self._database.claim():
            self._set_active(False)
            await self._stop_within(self._poll_s)
            return
        self._set_active(True)
        rows = await self._database.fetch(self._batch, BATCH_BYTES_MAX)
        await self._measure_now_and_then()
        if rows:
            await self._publish(rows)
        else:
            await self._wait()

    def _set_active(self, is_active: bool) -> None:
        if is_active != self.metrics.is_active:
            self.metrics.is_active = is_active
            logger.info("outbox relay is active" if is_active else "outbox relay stands by")

    async def _measure_now_and_then(self) -> None:
        if time.monotonic() - self._measured_at < MEASURE_S:
            return
        self._measured_at = time.monotonic()
        status = await self._database.status()
        self.metrics.pending, self.metrics.parked_rows = status.pending, status.parked
        self.metrics.oldest_age_s = status.oldest_age_s
        await self._database.purge(PURGE_BATCH)

    async def _wait(self) -> None:
        """For new rows, the next poll, or the end."""
        news = asyncio.create_task(self._database.wait(self._poll_s))
        end = asyncio.create_task(self._stopped.wait())
        try:
            await asyncio.wait({news, end}, timeout=2 * self._poll_s, return_when=asyncio.FIRST_COMPLETED)
            if news.done():
                news.result()
        finally:
            for task in (news, end):
                task.cancel()
            await asyncio.gather(news, end, return_exceptions=True)

    async def _stop_within(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self._stopped.wait()
        except TimeoutError:
            pass

    # ---- one batch

    async def _publish(self, rows: Sequence[OutboxRow]) -> None:
        """Each ordering key is a lane: one after another within it, side by side with the others."""
        lanes: dict[str, list[OutboxRow]] = {}
        for row in rows:
            lanes.setdefault(row.ordering_key, []).append(row)
        batch = _Batch()
        try:
            async with asyncio.timeout(None) as self._patience:
                async with asyncio.TaskGroup() as group:
                    for lane in lanes.values():
                        group.create_task(self._publish_lane(lane, batch))
                for row in batch.suspects:
                    await self._publish_row(row, batch, is_alone=True)
        except TimeoutError:
            logger.warning("outbox relay stops before the broker has answered", extra={"rows": len(rows)})
        finally:
            self._patience = None
            # Also when it was cancelled: what the broker has confirmed need not be sent again.
            await self._settle(batch.settlement)
        if batch.interruption is not None:
            raise batch.interruption

    async def _settle(self, settlement: Settlement) -> None:
        if settlement.published or settlement.failures:
            await self._database.settle(settlement)
            self.metrics.published += len(settlement.published)
            self.metrics.failed += len(settlement.failures)
            self.metrics.parked += sum(failure.retry_after_s is None for failure in settlement.failures)

    async def _publish_lane(self, rows: Sequence[OutboxRow], batch: _Batch) -> None:
        for row in rows:
            if self._stopped.is_set() or not await self._publish_row(row, batch):
                return

    async def _publish_row(self, row: OutboxRow, batch: _Batch, *, is_alone: bool = False) -> bool:
        """Whether the broker has it, so that the next of its key may follow."""
        if batch.interruption is not None:
            return False
        try:
            await self._send(row)
        except ChannelClosed as error:
            # One bad publish ends the channel for all that share it. Who it was shows when each is sent alone.
            if is_alone:
                batch.settlement.failures.append(self._failure(row, error, is_hopeless=False))
            else:
                batch.suspects.append(row)
            return False
        except (Unroutable, Refused) as error:
            batch.settlement.failures.append(self._failure(row, error, is_hopeless=False))
            return False
        except (TypeError, ValueError, msgspec.MsgspecError) as error:
            batch.settlement.failures.append(self._failure(row, error, is_hopeless=True))
            return False
        except (ConnectionLost, ConnectionFailed, DeadlineExceeded, ClientClosed) as error:
            batch.interruption = error
            return False
        batch.settlement.published.append(row.id)
        return True

    async def _send(self, row: OutboxRow) -> None:
        await self._producer.publish(
            row.body,
            exchange=row.exchange,
            routing_key=row.routing_key,
            mandatory=bool(row.mandatory),
            deadline_s=self._publish_deadline_s,
            headers=msgspec.json.decode(row.headers, type=dict[str, Any]),
            message_id=row.message_id,
            **{"delivery_mode": 2, **msgspec.json.decode(row.properties, type=dict[str, Any])},
        )

    def _failure(self, row: OutboxRow, error: Exception, *, is_hopeless: bool) -> Failure:
        is_parked = is_hopeless or row.attempts + 1 >= self._attempts_max
        pause_s = None if is_parked else backed_off(self._retry_s, row.attempts + 1, self._retry_max_s)
        text = f"{type(error).__name__}: {error}"
        logger.warning(
            "outbox row parked" if is_parked else "outbox row refused",
            extra={"row": row.id, "message_id": row.message_id, "attempt": row.attempts + 1, "reason": text},
        )
        return Failure(row.id, text, pause_s)


@dataclass(slots=True)
class _Batch:
    settlement: Settlement = field(default_factory=Settlement)
    # Rows that were under way when the broker closed their channel.
    suspects: list[OutboxRow] = field(default_factory=list)
    # Why the lanes stopped early; what they did not get to is fetched again.
    interruption: Exception | None = None


def backed_off(first_s: float, attempt: int, max_s: float) -> float:
    """The pause after the attempt-th failure: doubling, with jitter so that many relays do not come back together."""
    return spread_s(backoff_s(first_s, max_s, attempt), random.random())
