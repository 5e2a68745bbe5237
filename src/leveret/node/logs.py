"""The node's log: one line an event on standard error, for people when it is a terminal, else as logfmt."""

from __future__ import annotations

import logging
import sys

import structlog


def configure_logs(level: str) -> None:
    terminal = sys.stderr.isatty()
    renderer: structlog.typing.Processor
    if terminal:
        renderer = structlog.dev.ConsoleRenderer()
    else:
        renderer = structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"], drop_missing=True)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([] if terminal else [structlog.processors.format_exc_info]),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
