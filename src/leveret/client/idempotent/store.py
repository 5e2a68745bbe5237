"""What a store of handled messages is: a contract that SQLite, PostgreSQL and stores of your own fulfil.

A store remembers which messages were handled, in the same database as the business data and in the same transaction:
both are there afterwards, or neither."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from leveret.client.database.errors import AlreadyHandled, TransactionMisused

__all__ = [
    "ID_LENGTH_MAX",
    "RESULT_LENGTH_MAX",
    "TTL_S",
    "IdempotentStore",
    "StoreMetrics",
    "Work",
    "checked_id",
    "checked_limits",
]

C = TypeVar("C")

# A message that comes back later than this is taken for a new one.
TTL_S = 24 * 3600.0
# What a property of AMQP can hold; a key function may give more, but an index has to hold it.
ID_LENGTH_MAX = 1000
# Of a result as JSON: it is kept beside the id, and read for each duplicate.
RESULT_LENGTH_MAX = 1024 * 1024


@dataclass(slots=True)
class StoreMetrics:
    """Counted since this store object was made."""

    # Messages handled for the first time and committed.
    new: int = 0
    # Messages that had been handled before.
    duplicates: int = 0
    # Blocks that raised; nothing of them was kept.
    rolled_back: int = 0
    # Waits for another worker, or for a free connection, that ended at the deadline.
    busy: int = 0
    # Ids forgotten because they had become older than the time to live.
    purged: int = 0


class Work(ABC, Generic[C]):
    """One message's transaction. Valid only inside its `async with store.once(...)`."""

    def __init__(self, connection: C | None, stored: str | None = None) -> None:
        self._connection = connection
        self._is_over = False
        self.is_new = connection is not None
        # The result as JSON: of a duplicate as it was stored, of new work as it will be; None if there is none.
        self.stored = stored

    @property
    def connection(self) -> C:
        """The database connection, in the transaction that also holds the message id. Commit is not yours: the block's
        end does it."""
        if self._is_over:
            raise TransactionMisused("the block of this message has ended, and its transaction with it")
        if self._connection is None:
            raise AlreadyHandled("this message was handled before; look at work.is_new first")
        return self._connection

    @property
    def result(self) -> Any:
        """What came of the work. Set it inside the block, to anything that JSON has words for: it is committed with the
        message id, and a duplicate finds it here."""
        return None if self.stored is None else json.loads(self.stored)

    @result.setter
    def result(self, value: Any) -> None:
        if not self.is_new:
            raise AlreadyHandled("this message was handled before, and its result is stored; look at work.is_new first")
        if self._is_over:
            raise TransactionMisused("the block of this message has ended, and its transaction with it")
        # In ASCII: every database can hold it, whatever the texts in it are.
        text = json.dumps(value, allow_nan=False, separators=(",", ":"))
        if len(text) > RESULT_LENGTH_MAX:
            raise ValueError(
                f"a result of {len(text)} characters of JSON is not stored: {RESULT_LENGTH_MAX} are the most"
            )
        self.stored = text

    @abstractmethod
    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Gives function(connection, *arguments), called in the way that the driver wants it."""

    def end(self) -> None:
        self._is_over = True


class IdempotentStore(Protocol[C]):
    """Keep a store open as long as the consumer lives; several consumers may share one."""

    # Whether `work.run` calls plain functions, in a thread; else it awaits coroutine functions.
    runs_plain_functions: bool

    @property
    def metrics(self) -> StoreMetrics: ...

    async def create(self) -> None:
        """Makes the table unless it is there."""

    def once(
        self, message_id: str, *, consumer: str, deadline_s: float | None = None
    ) -> AbstractAsyncContextManager[Work[C]]:
        """Opens a transaction and writes the message id into it. Commits when the block ends, rolls back if it raises.

        Whoever comes with the same id meanwhile waits for the outcome, at most until the deadline, and is then told
        with DatabaseBusy to try again later. `consumer` is whose memory this is: each handles each message once."""

    async def purge(self) -> int:
        """Forgets every id older than the time to live, and says how many; in small transactions."""

    async def close(self) -> None: ...


def checked_id(text: str, what: str = "message id") -> str:
    """Refuses what no database could keep as a key, before it gets there."""
    if not isinstance(text, str):
        raise TypeError(f"a {what} is a str, not {type(text).__name__}")
    if not text or len(text) > ID_LENGTH_MAX or "\0" in text:
        raise ValueError(f"{text[:80]!r} cannot be a {what}: it has 1 to {ID_LENGTH_MAX} characters, none of them NUL")
    return text


def checked_limits(ttl_s: float, purge_every: int, purge_batch: int) -> None:
    if ttl_s <= 0:
        raise ValueError(f"the time to live is more than 0 s, not {ttl_s}")
    if purge_batch < purge_every or purge_every < 1:
        raise ValueError(
            f"a purge of {purge_batch} after every {purge_every} messages would not keep up; make the batch the larger"
        )
