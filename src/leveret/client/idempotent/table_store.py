"""What the stores of handled messages share, whichever database their table is in: what is counted, when old ids are
purged, and how a duplicate is told from a new message. Transactions and SQL are the database's own."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from types import TracebackType
from typing import Any, ClassVar, Generic, Self, TypeVar

from leveret.client.database.errors import DatabaseBusy, DatabaseUnavailable
from leveret.client.database.table_name import TableName
from leveret.client.idempotent.store import StoreMetrics, Work, checked_id, checked_limits

__all__ = ["TableStore"]

W = TypeVar("W", bound=Work[Any])

logger = logging.getLogger("leveret.client.idempotent")


class TableStore(ABC, Generic[W]):
    # What a purge may fail with and leave for the next time.
    purge_errors: ClassVar[tuple[type[Exception], ...]] = (DatabaseUnavailable,)

    def __init__(self, table: TableName, ttl_s: float, deadline_s: float, purge_every: int, purge_batch: int) -> None:
        checked_limits(ttl_s, purge_every, purge_batch)
        self._table = table
        self._ttl_s = ttl_s
        self._deadline_s = deadline_s
        self._purge_every = purge_every
        self._purge_batch = purge_batch
        self.metrics = StoreMetrics()

    # ---- of the database

    @abstractmethod
    async def create(self) -> None:
        """Makes the table unless it is there."""

    @abstractmethod
    async def close(self) -> None:
        """Closes what the store opened itself."""

    @abstractmethod
    def _transaction(self, message_id: str, consumer: str, deadline_s: float) -> AbstractAsyncContextManager[W]:
        """A transaction with the id written into it, that is committed when the block ends; `_committed` is called
        then. If the id was there already, work that is not new."""

    @abstractmethod
    async def _purge_some(self) -> int:
        """Forgets up to `purge_batch` old ids, in a transaction of their own."""

    # ---- the same for all

    @asynccontextmanager
    async def once(self, message_id: str, *, consumer: str, deadline_s: float | None = None) -> AsyncIterator[W]:
        checked_id(message_id)
        checked_id(consumer, "name of a consumer")
        with self._counting_busy():
            async with self._transaction(
                message_id, consumer, self._deadline_s if deadline_s is None else deadline_s
            ) as work:
                if work.is_new:
                    try:
                        yield work
                    except BaseException:
                        self.metrics.rolled_back += 1
                        raise
                    finally:
                        work.end()
        if not work.is_new:
            # Outside the transaction: what a duplicate's block does is no reason for others to wait.
            self.metrics.duplicates += 1
            yield work

    async def purge(self) -> int:
        purged = 0
        while True:
            with self._counting_busy():
                batch = await self._purge_some()
            purged += batch
            self.metrics.purged += batch
            if batch < self._purge_batch:
                return purged

    async def __aenter__(self) -> Self:
        await self.create()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def _committed(self, purge: Callable[[], Awaitable[int]]) -> None:
        """A new message is; now and then old ids are purged, over the connection that did it."""
        self.metrics.new += 1
        if self.metrics.new % self._purge_every:
            return
        try:
            self.metrics.purged += await purge()
        except self.purge_errors as error:
            # The message is committed; the ids can wait for the next time.
            logger.warning("old message ids were not purged", extra={"table": self._table.plain, "reason": str(error)})

    @contextmanager
    def _counting_busy(self) -> Iterator[None]:
        try:
            yield
        except DatabaseBusy:
            self.metrics.busy += 1
            raise
