"""A consumer's handler that does its work once per message: transaction, commit, then the ack.

Settles every delivery it is given, and never raises for one: what failed for now is given back to the broker, what
failed for good goes to the dead letters, and both are logged. Unless it is told to leave that to the consumer."""

from __future__ import annotations

import asyncio
import enum
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar, overload

from leveret.client.consuming.poison import Reject, Requeue
from leveret.client.database.errors import DatabaseUnavailable
from leveret.client.errors import ClientError, StaleDelivery
from leveret.client.idempotent.store import IdempotentStore, Work, checked_id

__all__ = ["Handled", "MissingMessageId", "Outcome", "SettledDelivery", "idempotent"]

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
    # The work raised Reject or another permanent error; nothing of it was kept, and it is rejected as well.
    REJECTED = "rejected"


class Handled(NamedTuple):
    """What became of a delivery, and what its handler gave: the first time, and for every duplicate the same as stored.
    None if the handler failed."""

    outcome: Outcome
    result: Any


class SettledDelivery(Protocol):
    """What is needed of a delivery; leveret.client's own has it."""

    @property
    def message_id(self) -> str | None: ...

    def ack(self) -> Any: ...

    def nack(self, requeue: bool = True) -> Any: ...

    def reject(self, requeue: bool = False) -> Any: ...


D = TypeVar("D", bound=SettledDelivery)


@overload
def idempotent(
    store: IdempotentStore[C],
    *,
    consumer: str,
    key: Callable[[Any], str] | None = None,
    requeue: bool = True,
    retry_pause_s: float = 1.0,
    deadline_s: float | None = None,
    settle: bool = True,
    permanent: tuple[type[Exception], ...] = (),
    results: Literal[False] = False,
) -> Callable[[Callable[[D, Work[C]], Any]], Callable[[D], Awaitable[Outcome]]]: ...


@overload
def idempotent(
    store: IdempotentStore[C],
    *,
    consumer: str,
    key: Callable[[Any], str] | None = None,
    requeue: bool = True,
    retry_pause_s: float = 1.0,
    deadline_s: float | None = None,
    settle: bool = True,
    permanent: tuple[type[Exception], ...] = (),
    results: Literal[True],
) -> Callable[[Callable[[D, Work[C]], Any]], Callable[[D], Awaitable[Handled]]]: ...


def idempotent(
    store: IdempotentStore[C],
    *,
    consumer: str,
    key: Callable[[Any], str] | None = None,
    requeue: bool = True,
    retry_pause_s: float = 1.0,
    deadline_s: float | None = None,
    settle: bool = True,
    permanent: tuple[type[Exception], ...] = (),
    results: bool = False,
) -> Callable[[Callable[[D, Work[C]], Any]], Callable[[D], Awaitable[Any]]]:
    """Makes a handler(delivery, work) into one that takes the delivery alone and settles it.

    An `async def` is awaited; with SQLite a plain `def` is called in the store's thread. `key(delivery)` gives the id
    of messages that carry it elsewhere. What fails is requeued after `retry_pause_s`, so that a database that is down
    does not make deliveries go in circles; with requeue=False it is dead-lettered, for queues with a retry queue. What
    raises `Reject`, or one of the `permanent` errors, is dead-lettered at once whatever `requeue` says; `Requeue` goes
    back to the queue.

    With results=True what the handler gives, anything that JSON has words for, is stored with the message id, and a
    duplicate is answered with it: the handler made returns `Handled`, the outcome and the result.

    With settle=False nothing is settled and every error is raised: for `Consumer.run`, which acknowledges what returns
    and has rules of its own for what raises."""
    checked_id(consumer, "name of a consumer")

    def wrapped(handler: Callable[[D, Work[C]], Any]) -> Callable[[D], Awaitable[Any]]:
        once = _Once(store, handler, consumer, key, deadline_s, permanent, results)

        async def handled(delivery: D) -> Handled:
            return await (once.settle(delivery, requeue, retry_pause_s) if settle else once.raising(delivery))

        async def outcome(delivery: D) -> Outcome:
            return (await handled(delivery)).outcome

        return handled if results else outcome

    return wrapped


class _Once(Generic[C, D]):
    """A handler with all it takes to call it once per message."""

    def __init__(
        self,
        store: IdempotentStore[C],
        handler: Callable[[D, Work[C]], Any],
        consumer: str,
        key: Callable[[Any], str] | None,
        deadline_s: float | None,
        permanent: tuple[type[Exception], ...],
        results: bool,
    ) -> None:
        self._is_async = inspect.iscoroutinefunction(handler)
        if not self._is_async and not store.runs_plain_functions:
            raise TypeError("a handler on PostgreSQL is an `async def`, because its connection is psycopg's async one")
        self._store = store
        self._handler = handler
        self._consumer = consumer
        self._key = key
        self._deadline_s = deadline_s
        self._permanent = permanent
        self._for_good: tuple[type[Exception], ...] = (Reject, *permanent)
        self._results = results

    async def handle(self, delivery: D) -> Handled:
        message_id = id_of(delivery, self._key)
        fields = {"consumer": self._consumer, "message_id": message_id}
        if getattr(delivery, "redelivered", False):
            logger.warning("message is redelivered", extra=fields)
        async with self._store.once(message_id, consumer=self._consumer, deadline_s=self._deadline_s) as work:
            if not work.is_new:
                logger.info("message was handled before", extra=fields)
                return Handled(Outcome.DUPLICATE, work.result if self._results else None)
            if self._is_async:
                result = await self._handler(delivery, work)
            else:
                result = await work.run(lambda _: self._handler(delivery, work))
            if self._results:
                work.result = result
                # As a duplicate will find it, so that nobody depends on what JSON does not keep.
                result = work.result
            return Handled(Outcome.HANDLED, result)

    async def raising(self, delivery: D) -> Handled:
        """In the words of Consumer.run: what fails for good raises Reject."""
        try:
            return await self.handle(delivery)
        except self._permanent as error:
            raise Reject(str(error)) from error

    async def settle(self, delivery: D, requeue: bool, retry_pause_s: float) -> Handled:
        try:
            done = await self.handle(delivery)
        except MissingMessageId as error:
            logger.error("message refused", extra={"consumer": self._consumer, "reason": str(error)})
            told(delivery.reject, requeue=False)
            return Handled(Outcome.REFUSED, None)
        except self._for_good as error:
            log_rejection(error, self._consumer, delivery.message_id)
            told(delivery.reject, requeue=False)
            return Handled(Outcome.REJECTED, None)
        except asyncio.CancelledError:
            told(delivery.nack, requeue=True)
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the message goes back and the consumer goes on
            log_failure(error, self._consumer, delivery.message_id)
            returns = requeue or isinstance(error, Requeue)
            try:
                await asyncio.sleep(retry_pause_s if returns else 0)
            finally:
                told(delivery.nack, requeue=returns)
            return Handled(Outcome.FAILED, None)
        told(delivery.ack)
        return done


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


def log_rejection(error: Exception, consumer: str, message_id: str | None) -> None:
    """Reject is the handler's own word and needs no traceback; another error may."""
    fields = {"consumer": consumer, "message_id": message_id, "reason": str(error)}
    traced = None if isinstance(error, Reject) else error
    logger.error("message rejected, it will never work", extra=fields, exc_info=traced)


def log_failure(error: Exception, consumer: str, message_id: str | None) -> None:
    fields = {"consumer": consumer, "message_id": message_id, "reason": str(error)}
    if isinstance(error, DatabaseUnavailable):
        logger.warning("message given back, the database is not to be had", extra=fields)
    else:
        logger.error("message given back, its handler failed", extra=fields, exc_info=error)
