"""What stands in a row of the outbox, and what a relay asks of the database that holds the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

__all__ = ["Failure", "OutboxDatabase", "OutboxRow", "OutboxStatus", "Settlement"]

# Kept of an error's text.
ERROR_LENGTH_MAX = 1000
# The columns of an OutboxRow, in its order.
COLUMNS = "id, message_id, ordering_key, exchange, routing_key, body, headers, properties, mandatory, attempts"


@dataclass(frozen=True, slots=True)
class OutboxRow:
    id: int
    message_id: str
    ordering_key: str
    exchange: str
    routing_key: str
    body: bytes
    # As JSON. Anybody may have written it, so it is read where a mistake in it can be told of.
    headers: str
    properties: str
    mandatory: bool
    # Publishes of this row that the broker refused.
    attempts: int


@dataclass(frozen=True, slots=True)
class Failure:
    """The broker did not take a row. It is tried again after `retry_after_s`; parked, if that is None."""

    row_id: int
    error: str
    retry_after_s: float | None


@dataclass(slots=True)
class Settlement:
    """What became of a batch; written in one transaction."""

    published: list[int] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class OutboxStatus:
    # Rows that wait to be published.
    pending: int
    # Rows that were given up, with their error.
    parked: int
    # How long the oldest pending row has waited; 0 if there is none.
    oldest_age_s: float


class OutboxDatabase(Protocol):
    """One table of rows, and the claim on it: whoever holds the claim publishes, the others stand by.

    Every method raises DatabaseUnavailable when the database is not to be had; the claim is then lost. A relay has its
    object for itself: whoever wants to look or to unpark meanwhile makes another one."""

    async def create(self) -> None:
        """Makes the table unless it is there."""

    async def claim(self) -> bool:
        """Whether this relay is now the one. The claim ends with `release` or with the process, whichever is first."""

    async def fetch(self, count_max: int, bytes_max: int) -> list[OutboxRow]:
        """The oldest rows, without those of a key that waits for another try."""

    async def settle(self, settlement: Settlement) -> None: ...

    async def wait(self, timeout_s: float) -> None:
        """Returns when there may be new rows, at the latest after the timeout."""

    async def status(self) -> OutboxStatus: ...

    async def purge(self, count_max: int) -> int:
        """Deletes rows that were published longer ago than they are to be kept."""

    async def unpark(self, ids: Sequence[int] | None = None) -> int:
        """Gives parked rows, or all of them, another round of tries; says how many."""

    async def release(self) -> None:
        """Lets go of the claim and of the connection; the next call makes a new one."""
