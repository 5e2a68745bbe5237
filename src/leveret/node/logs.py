"""How the node's log looks: one line an event on standard error, with the time in UTC; for people, or as JSON."""

from __future__ import annotations

import logging
import sys
import time
from typing import Any

import msgspec

from leveret.runtime.secret import Secret

DATE_FORMAT = "%Y-%m-%dT%H:%M:%S"


def configure_logs(level: str, form: str = "text") -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else text_lines())
    logger = logging.getLogger("leveret")
    logger.handlers = [handler]
    logger.propagate = False
    set_log_level(level)


def set_log_level(level: str) -> None:
    logging.getLogger("leveret").setLevel(level.upper())


def text_lines() -> logging.Formatter:
    formatter = logging.Formatter("%(asctime)s.%(msecs)03dZ %(levelname)-7s %(message)s", DATE_FORMAT)
    formatter.converter = time.gmtime
    return formatter


class JsonLines(logging.Formatter):
    """time, level, logger and event; then the event's facts, each under its name, as what they are where JSON has it
    and else as text."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime(DATE_FORMAT, time.gmtime(record.created))
        line: dict[str, Any] = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": getattr(record, "event", None) or record.getMessage(),
        }
        for name, value in getattr(record, "facts", {}).items():
            line[f"{name}_" if name in line else name] = value
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=_as_text).decode("utf-8", "replace")


def _as_text(value: Any) -> str:
    return str(value) if isinstance(value, Secret) else repr(value)
