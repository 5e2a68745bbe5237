"""Logs as lines of JSON, for those who have no formatter of their own: time, level, logger, event, and every field."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

import msgspec

__all__ = ["JsonFormatter", "fields_of"]

# What every record has; the rest came with `extra`.
_USUAL = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime"}


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """What was logged as `extra`."""
    return {name: value for name, value in record.__dict__.items() if name not in _USUAL}


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **fields_of(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=repr).decode()
