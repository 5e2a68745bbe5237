"""What the connector raises. Every text says what was asked for, what there is, and what to do; none has a password."""

from __future__ import annotations

__all__ = ["DataLoss", "InvalidOption", "SourceFailed", "SparkConnectorError", "WriteFailed"]


class SparkConnectorError(Exception):
    """Anything that the connector raises on purpose."""


class InvalidOption(SparkConnectorError, ValueError):
    """An option that does not exist, or has a value that makes no sense."""


class SourceFailed(SparkConnectorError):
    """The broker cannot be reached, lets us not in, or has no such stream."""


class DataLoss(SparkConnectorError):
    """Messages that were to be read are gone: retention was faster."""


class WriteFailed(SparkConnectorError):
    """A row could not be published."""
