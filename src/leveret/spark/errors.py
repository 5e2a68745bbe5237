"""What the connector raises. Every text says what was asked for, what there is, and what to do; none has a password."""

from __future__ import annotations

__all__ = [
    "AmbiguousRows",
    "DataLoss",
    "InvalidOption",
    "NoSuchStream",
    "SourceFailed",
    "SparkConnectorError",
    "WriteFailed",
    "WriteIdInUse",
]


class SparkConnectorError(Exception):
    """Anything that the connector raises on purpose."""


class InvalidOption(SparkConnectorError, ValueError):
    """An option that does not exist, or has a value that makes no sense."""


class SourceFailed(SparkConnectorError):
    """The broker cannot be reached, lets us not in, or has no such stream."""


class NoSuchStream(SourceFailed):
    """There is no stream of this name."""


class DataLoss(SparkConnectorError):
    """Messages that were to be read are gone: retention was faster, or their stream was deleted or made anew."""


class WriteFailed(SparkConnectorError):
    """A row could not be published."""


class WriteIdInUse(WriteFailed):
    """Another query has published rows with this writeId: what is new could not be told from what is known."""


class AmbiguousRows(WriteFailed):
    """Rows of several tasks come from one message of a stream, so they cannot be told apart by that."""
