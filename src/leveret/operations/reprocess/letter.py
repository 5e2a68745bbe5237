"""A message of a dead-letter queue as reprocessing sees it: where it came from, how old it is, and with which
properties it goes back.

Pure: reads headers and makes new ones. What dead-lettering itself writes is queues.death's business."""

from __future__ import annotations

from typing import Any

from leveret.core.codec.field_types import Timestamp
from leveret.core.codec.properties import Properties
from leveret.queues.death import DEATH_HEADERS, Origin, origin

REPLAY_HEADER = "x-replay-count"
# Seconds. Replaying takes the deaths away; this stays, so that the age of what keeps failing is known.
FIRST_DEATH_HEADER = "x-first-death-time"
# Counted by retry policies: a message that was replayed begins anew.
RETRY_HEADER = "x-retry-count"

_UNKNOWN = object()


class Letter:
    def __init__(self, message: Any) -> None:
        # A core.codec.message.Message, whose fields mypy cannot see.
        self.message = message
        self.properties: Properties = message.properties
        self._origin: Any = _UNKNOWN

    @property
    def origin(self) -> Origin | None:
        """Its first death; None if it never died, or its headers do not tell."""
        if self._origin is _UNKNOWN:
            self._origin = origin(self.properties)
        found: Origin | None = self._origin
        return found

    @property
    def replay_count(self) -> int:
        return max(0, _number(self.properties.headers().get(REPLAY_HEADER)))

    @property
    def first_death_s(self) -> int | None:
        noted = _number(self.properties.headers().get(FIRST_DEATH_HEADER))
        if noted <= 0 and self.origin is not None:
            noted = _number(self.origin.time_s)
        return noted if noted > 0 else None

    def age_s(self, now_ms: int) -> float:
        """Since its first death; since it came into its queue if it never died."""
        died_s = self.first_death_s
        return float(now_ms - (self.message.stamp if died_s is None else died_s * 1000)) / 1000

    def replayed(self) -> Properties:
        """What it goes back with: no word of death, one replay more."""
        headers = self.properties.headers()
        left = {name: value for name, value in headers.items() if name not in DEATH_HEADERS and name != RETRY_HEADER}
        died_s = self.first_death_s
        if died_s is not None:
            left[FIRST_DEATH_HEADER] = Timestamp(died_s)
        left[REPLAY_HEADER] = self.replay_count + 1
        return self.properties.replace({"headers": left})


def _number(value: object) -> int:
    """A header's number, 0 if it is none that could be meant."""
    return int(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 53 else 0
