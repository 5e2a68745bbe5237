"""What can go wrong between a pattern and its database.

    ClientError
    ├── DatabaseUnavailable    the database cannot be reached, or went away
    │   └── DatabaseBusy       it is there, but somebody else held what was needed until the deadline
    ├── TransactionMisused     a transaction was ended, missing or open where it must not be
    └── AlreadyHandled         the connection of a duplicate's work was asked for

All but the last two are worth another try later."""

from __future__ import annotations

from leveret.client.errors import ClientError

__all__ = ["AlreadyHandled", "DatabaseBusy", "DatabaseUnavailable", "TransactionMisused"]


class DatabaseUnavailable(ClientError):
    """The database cannot be reached, or went away; the text says which and why."""


class DatabaseBusy(DatabaseUnavailable):
    """Another worker held the lock, or all connections, until the deadline. It may well be done soon."""


class TransactionMisused(ClientError):
    """A transaction was ended, missing or open where it must not be: a mistake in the program."""


class AlreadyHandled(ClientError):
    """This message was handled before, so there is no transaction to work in: look at `work.is_new` first."""
