"""Publishers that the broker does not read for a while, because of an alarm or a slow disk: who, and for how long."""

from __future__ import annotations

from collections.abc import Callable


class BlockedConnections:
    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        # Since when, by the connection's id.
        self._since: dict[int, float] = {}
        self._ended_s = 0.0
        self.begun_total = 0

    def note(self, connection_id: int, held_up: bool) -> None:
        """To be called whenever it may have changed."""
        if held_up and connection_id not in self._since:
            self._since[connection_id] = self._monotonic()
            self.begun_total += 1
        elif not held_up and connection_id in self._since:
            self._ended_s += self._monotonic() - self._since.pop(connection_id)

    @property
    def count(self) -> int:
        """Connections that are held up now."""
        return len(self._since)

    @property
    def seconds_total(self) -> float:
        """All of them together, up to now."""
        now = self._monotonic()
        return self._ended_s + sum(now - since for since in self._since.values())
