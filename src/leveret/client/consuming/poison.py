"""What becomes of deliveries that could not be worked on: again at once, again later, aside, or away.

Owns the decision and carries it out. Nothing is acknowledged here before a copy of it is confirmed elsewhere; if that
cannot be had, the message goes back into its queue."""

from __future__ import annotations

import asyncio
import enum
import logging
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final, Protocol

from leveret.client.consuming.resend import Resender
from leveret.client.errors import ClientError, StaleDelivery
from leveret.core.client.delivery import Delivery

__all__ = ["Failures", "OnError", "Reject", "Requeue", "RetryLater", "RetryPlan", "delivery_count"]

log = logging.getLogger(__name__)

DEATHS_HEADER: Final = "x-death"
COUNT_HEADER: Final = "x-delivery-count"
# Why a message is in the parking lot.
REASON_HEADER: Final = "x-parking-reason"
REASON_CHARACTERS_MAX: Final = 500
# Deaths in a queue that mean that a consumer had the message and did not want it.
REFUSALS: Final = ("rejected", "delivery_limit")
# Messages whose returns are counted here, for brokers that do not count them.
REMEMBERED_MAX: Final = 10_000
RESEND_DEADLINE_S: Final = 30.0


class OnError(enum.Enum):
    """What becomes of a delivery when its handler raises."""

    # Back into the queue, after a short pause.
    REQUEUE = "requeue"
    # To the queue's dead-letter exchange; without one it is gone.
    REJECT = "reject"
    # By the plan of a Retry: again after its delay, and into the parking lot after too many.
    RETRY = "retry"


class Requeue(Exception):
    """Raised by a handler: not now, put it back into the queue."""


class Reject(Exception):
    """Raised by a handler: this will never work. Into the parking lot if there is a Retry, else to the dead letters."""


class RetryLater(Exception):
    """Raised by a handler: again after the delay of the consumer's Retry; without one it is as Requeue."""


class NextStep(Protocol):
    @property
    def action(self) -> str: ...
    @property
    def count(self) -> int: ...
    @property
    def by_nack(self) -> bool: ...
    @property
    def exchange(self) -> str: ...
    @property
    def routing_key(self) -> str: ...
    @property
    def headers(self) -> dict[str, Any]: ...


class RetryPlan(Protocol):
    """What of topology.Retry is needed here."""

    @property
    def exchange_name(self) -> str: ...
    @property
    def parking_lot_name(self) -> str | None: ...
    @property
    def parking_lot_routing_key(self) -> str: ...
    def next_step(self, headers: Mapping[str, Any] | None) -> NextStep: ...


def delivery_count(headers: Mapping[str, Any] | None, queue: str) -> int:
    """How often consumers of this queue had the message before and did not keep it, as far as the broker says: returns
    are counted in x-delivery-count by quorum queues, and by all of Leveret's that have a delivery limit; rejections
    that came back in x-death."""
    if not headers:
        return 0
    count = _whole(headers.get(COUNT_HEADER))
    deaths = headers.get(DEATHS_HEADER)
    # Anybody may have written the header: what is not as brokers write it does not count.
    for death in deaths if isinstance(deaths, list) else ():
        if isinstance(death, dict) and death.get("queue") == queue and death.get("reason") in REFUSALS:
            count += _whole(death.get("count", 1))
    return count


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


class Returns:
    """How often this consumer returned a message, by its id: not every broker counts that. Bounded."""

    def __init__(self) -> None:
        self._counts: OrderedDict[str, int] = OrderedDict()

    def add(self, delivery: Delivery) -> None:
        message_id = delivery.message_id
        if message_id is None:
            return
        self._counts[message_id] = self._counts.pop(message_id, 0) + 1
        if len(self._counts) > REMEMBERED_MAX:
            self._counts.popitem(last=False)

    def count(self, delivery: Delivery) -> int:
        message_id = delivery.message_id if self._counts else None
        return 0 if message_id is None else self._counts.get(message_id, 0)

    def forget(self, delivery: Delivery) -> None:
        message_id = delivery.message_id if self._counts else None
        if message_id is not None:
            self._counts.pop(message_id, None)


class Failures:
    def __init__(
        self,
        resender: Resender,
        on_error: OnError,
        retry: RetryPlan | None,
        max_deliveries: int | None,
        requeue_pause_s: float,
    ) -> None:
        self._resender = resender
        self._on_error = on_error
        self._retry = retry
        self._max_deliveries = max_deliveries
        self.requeue_pause_s = requeue_pause_s
        self.returns = Returns()
        # Handlers that raised, and bodies that did not decode.
        self.failed = 0
        # Of these, and of what came too often: put aside for good, into the parking lot or to the dead letters.
        self.parked = 0
        self.rejected = 0
        # What could not be settled because its channel was gone. It came again.
        self.stale = 0

    # ---- settling

    def ack(self, delivery: Delivery) -> None:
        """Of what a handler may have settled itself, and whose channel may be gone."""
        if delivery.is_settled:
            return
        try:
            delivery.ack()
        except StaleDelivery:
            self.stale += 1
        else:
            self.returns.forget(delivery)

    def requeue(self, delivery: Delivery) -> None:
        self._give_away(delivery, requeue=True)

    def _give_away(self, delivery: Delivery, requeue: bool) -> None:
        if delivery.is_settled:
            return
        if requeue and self._max_deliveries is not None:
            self.returns.add(delivery)
        try:
            delivery.nack(requeue=requeue)
        except StaleDelivery:
            self.stale += 1

    # ---- what to do

    def too_many(self, delivery: Delivery, queue: str) -> str | None:
        """Why the delivery is not to be worked on any more, or None."""
        limit = self._max_deliveries
        # Most messages come for the first time, and have no headers to look into.
        if limit is None:
            return None
        before = max(delivery_count(delivery.headers, queue), self.returns.count(delivery))
        return None if before < limit else f"it was delivered {before} times before, of {limit} that are allowed"

    def pauses(self, error: Exception) -> bool:
        """Whether it goes back into the queue: then not in a loop without a pause."""
        match error:
            case Reject():
                return False
            case Requeue():
                return True
            case RetryLater():
                return self._retry is None
            case _:
                return self._on_error is OnError.REQUEUE

    def log_failure(self, delivery: Delivery, error: Exception) -> None:
        """Of a handler, for nobody else sees what it raised into our hands. What it says on purpose is no failure."""
        if not isinstance(error, Reject | Requeue | RetryLater):
            extra = {"message_id": delivery.message_id, "reason": _words(error)}
            log.warning("a handler failed", extra=extra, exc_info=error)

    async def fail(self, delivery: Delivery, error: Exception, pause: bool = True) -> None:
        """Settles what could not be worked on, according to what was raised."""
        self.failed += 1
        if pause and self.pauses(error) and not delivery.is_settled:
            await asyncio.sleep(self.requeue_pause_s)
        if delivery.is_settled:
            return
        if delivery.is_stale:
            self.stale += 1
            return
        if self.pauses(error):
            self.requeue(delivery)
        elif isinstance(error, Reject):
            await self.put_aside(delivery, _words(error))
        elif self._retry is not None and (self._on_error is OnError.RETRY or isinstance(error, RetryLater)):
            await self._again_later(delivery, self._retry, error)
        else:
            await self.put_aside(delivery, _words(error))

    async def put_aside(self, delivery: Delivery, reason: str) -> None:
        """For good: into the parking lot if there is one, else to the dead letters of the queue. With a Retry but no
        parking lot it is acknowledged, because its dead letters come back."""
        log.warning("put aside", extra={"message_id": delivery.message_id, "reason": reason})
        retry = self._retry
        if retry is None:
            self.rejected += 1
            self.returns.forget(delivery)
            self._give_away(delivery, requeue=False)
        elif retry.parking_lot_name is None:
            self.rejected += 1
            self.ack(delivery)
        else:
            await self._park(delivery, retry.exchange_name, retry.parking_lot_routing_key, delivery.headers, reason)

    async def _again_later(self, delivery: Delivery, retry: RetryPlan, error: Exception) -> None:
        step = retry.next_step(delivery.headers)
        if step.by_nack:
            self._give_away(delivery, requeue=False)
        elif step.action == "discard":
            self.rejected += 1
            log.warning("discarded", extra={"message_id": delivery.message_id, "reason": _words(error)})
            self.ack(delivery)
        elif step.action == "park":
            reason = f"retried {step.count} times; {_words(error)}"
            await self._park(delivery, step.exchange, step.routing_key, step.headers, reason)
        else:
            await self._move(delivery, step.exchange, step.routing_key, step.headers)

    async def _park(
        self, delivery: Delivery, exchange: str, routing_key: str, headers: Mapping[str, Any] | None, reason: str
    ) -> None:
        told = {**(headers or {}), REASON_HEADER: reason[:REASON_CHARACTERS_MAX]}
        if await self._move(delivery, exchange, routing_key, told):
            self.parked += 1
            log.warning("parked", extra={"message_id": delivery.message_id, "reason": reason})

    async def _move(self, delivery: Delivery, exchange: str, routing_key: str, headers: Mapping[str, Any]) -> bool:
        """Acknowledged only when its copy is confirmed; else back into the queue."""
        try:
            await self._resender.resend(delivery, exchange, routing_key, headers, RESEND_DEADLINE_S)
        except (ClientError, ValueError, TypeError) as error:
            extra = {"exchange": exchange, "routing_key": routing_key, "reason": str(error)}
            log.error("a message could not be moved, and goes back into its queue", extra=extra)
            await asyncio.sleep(self.requeue_pause_s)
            self.requeue(delivery)
            return False
        except BaseException:
            self.requeue(delivery)
            raise
        self.ack(delivery)
        return True


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
