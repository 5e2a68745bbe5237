"""The log: events with their facts, through the standard library's logging under the name "leveret".

So a program that embeds the broker, such as a test, sees warnings where it sees its own, and `leveret serve` decides
how they look. Values are shown with repr, so that no peer can forge a line."""

from __future__ import annotations

import logging
from typing import Any

import structlog
from structlog.typing import EventDict, WrappedLogger


def get_logger(name: str) -> Any:
    """A structlog logger: log.info("what happened", fact=value, ...)."""
    return structlog.wrap_logger(
        logging.getLogger(name),
        processors=[structlog.stdlib.filter_by_level, _as_one_line],
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def _as_one_line(_logger: WrappedLogger, _method: str, event: EventDict) -> tuple[tuple[str], dict[str, Any]]:
    text = str(event.pop("event"))
    passed = {name: event.pop(name) for name in ("exc_info", "stack_info", "stacklevel") if name in event}
    facts = "".join(f" {name}={value!r}" for name, value in event.items())
    # For whoever writes the log in another form.
    return (text + facts,), {**passed, "extra": {"event": text, "facts": dict(event)}}
