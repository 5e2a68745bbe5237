"""What the store has to wait for: descriptors, disk space, memory. Nothing is lost or confirmed meanwhile.

Counts, logs the start and the end of each shortage once, and passes every one on to whoever raises alarms."""

from __future__ import annotations

from collections.abc import Callable

from leveret.runtime.log import get_logger

log = get_logger(__name__)


class Shortages:
    def __init__(self) -> None:
        self.total = 0
        self.on_shortage: Callable[[str, OSError], None] = lambda _what, _error: None
        # What is short at present.
        self._lasting: set[str] = set()

    def note(self, what: str, error: OSError) -> None:
        """This could not be done now, and is tried again."""
        self.total += 1
        if what not in self._lasting:
            self._lasting.add(what)
            log.warning("the store lacks something and waits for it", what=what, error=error.strerror)
        self.on_shortage(what, error)

    def over(self, what: str) -> None:
        if what in self._lasting:
            self._lasting.discard(what)
            log.info("the store has what it lacked", what=what)
