"""A consumer's handler that does its work once per message: transaction, commit, then the ack.

Settles every delivery it is given, and never raises for one: what failed is given back to the broker and logged. Unless
it is told to leave that to the consumer."""

from __future__ import annotations

import asyncio
import enum
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from leveret.client.database.errors import DatabaseUnavailable
from leveret.client.errors import ClientError, StaleDelivery
from leveret.client.idempotent.store import IdempotentStore, Work, checked_id

__all__ = ["MissingMessageId", "Outcome", "SettledDelivery", "idempotent"]

logger = logging.getLogger("leveret.client.idempotent")
C = TypeVar("C")


class MissingMessageId(ClientError):
    """A message that cannot be told from another one: it has no message_id, and no key function helped."""


class Outcome(enum.Enum):
    """What became of a delivery."""

    # The work was done and committed; acknowledged.
    HANDLED = "handled"
    # It had been done before; acknowledged.
    DUPLICATE = "duplicate"
    # The work raised, or the database was not to be had; nothing of it was kept, and the broker has the message again.
    FAILED = "failed"
    # It has no usable id, and never will have; rejected, which dead-letters it where that is set up.
    REFUSED = "refused"


class SettledDelivery(Protocol):
    """What is needed of a delivery; leveret.client's own has it."""

    @property
    def message_id(self) -> str | None: ...

    def ack(self) -> Any: ...

    def nack(self, requeue: bool = True) -> Any: ...

    def reject(self, requeue: bool = False) -> Any: ...


D = TypeVar("D", bound=SettledDelivery)


def idempotent(
    store: IdempotentStore[C],
    *,
    consumer: str,
    key: Callable[[Any], str] | None = None,
    requeue: bool = True,
    retry_pause_s: float = 1.0,
    deadline_s: float | None = None,
    settle: bool = True,
) -> Callable[[Callable[[D, Work[C]], Any]], Callable[[D], Awaitable[Outcome]]]:
    """Makes a handler(delivery, work) into one that takes the delivery alone and settles it.

    An `async def` is awaited; with SQLite a plain `def` is called in the store's thread. `key(delivery)` gives the id
    of messages that carry it elsewhere. What fails is requeued after `retry_pause_s`, so that a database that is down
    does not make deliveries go in circles; with requeue=False it is dead-lettered, for queues with a retry queue.

    With settle=False nothing is settled and every error is raised: for `Consumer.run`, which acknowledges what returns
    and has rules of its own for what raises."""
    checked_id(consumer, "name of a consumer")

    def wrapped(handler: Callable[[D, Work[C]], Any]) -> Callable[[D], Awaitable[Outcome]]:
        is_async = inspect.iscoroutinefunction(handler)
        if not is_async and not store.runs_plain_functions:
            raise TypeError("a handler on PostgreSQL is an `async def`, because its connection is psycopg's async one")

        async def handle(delivery: D) -> bool:
            message_id = id_of(delivery, key)
            async with store.once(message_id, consumer=consumer, deadline_s=deadline_s) as work:
                if not work.is_new:
                    return False
                if is_async:
                    await handler(delivery, work)
                else:
                    await work.run(lambda _: handler(delivery, work))
                return True

        async def outcome(delivery: D) -> Outcome:
            return Outcome.HANDLED if await handle(delivery) else Outcome.DUPLICATE

        async def settled(delivery: D) -> Outcome:
            try:
                done = await outcome(delivery)
            except MissingMessageId as error:
                logger.error("message refused", extra={"consumer": consumer, "reason": str(error)})
                told(delivery.reject, requeue=False)
                return Outcome.REFUSED
            except asyncio.CancelledError:
                told(delivery.nack, requeue=True)
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, the message goes back and the consumer goes on
                log_failure(error, consumer, delivery.message_id)
                try:
                    await asyncio.sleep(retry_pause_s if requeue else 0)
                finally:
                    told(delivery.nack, requeue=requeue)
                return Outcome.FAILED
            told(delivery.ack)
            return done

        return settled if settle else outcome

    return wrapped


def id_of(delivery: SettledDelivery, key: Callable[[Any], str] | None) -> str:
    try:
        found = delivery.message_id if key is None else key(delivery)
        if found:
            return checked_id(found)
    except (LookupError, AttributeError, TypeError, ValueError) as error:
        raise MissingMessageId(f"the message has no usable id: {error}") from error
    raise MissingMessageId(
        "the message has no message_id; let its publisher set one, or give idempotent() a key= function that finds "
        "something unique in the message"
    )


def told(verdict: Callable[..., Any], **arguments: Any) -> None:
    """Settles, unless the channel is gone: the broker then delivers the message again, and it is known."""
    try:
        verdict(**arguments)
    except StaleDelivery as error:
        logger.info("message comes again, its channel is gone", extra={"reason": str(error)})


def log_failure(error: Exception, consumer: str, message_id: str | None) -> None:
    fields = {"consumer": consumer, "message_id": message_id, "reason": str(error)}
    if isinstance(error, DatabaseUnavailable):
        logger.warning("message given back, the database is not to be had", extra=fields)
    else:
        logger.error("message given back, its handler failed", extra=fields, exc_info=error)
