"""The garbage collector, kept from stopping the loop for long.

What a broker deletes is freed at once, without cycles (tests/conformance/test_leveret_churn.py), so that the collector
has little to do; but a full collection looks at every object there is: 0.4 s with 50,000 queues and consumers. Only
what is young is looked at as a matter of course. What has survived that is put aside, and looked at again when memory
is short: that is the watch's decision (node/watch.py)."""

from __future__ import annotations

import gc
from typing import Any

from leveret.runtime.clock import Clock

# Objects made, less those freed, before the youngest are looked at, and how often that happens before those are that
# have survived once: never more than some 6,000 objects at a time, which takes 3 ms.
YOUNG_OBJECTS = 2_000
YOUNG_COLLECTIONS = 2
# Never by itself.
NEVER = 1 << 30
# What looking at one object costs at most, and how long a full collection may take at any time.
OBJECT_S = 0.000002
PAUSE_S_MAX = 0.02
# A longer one only while publishers are held up anyway, and not for more than a hundredth of the time.
REST_FACTOR = 100
REST_S_MIN = 10.0


class Collector:
    """`managed` is true for a process that is a broker and nothing else: then it sets how the collector works."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._monotonic = (Clock() if clock is None else clock).monotonic
        self.managed = False
        # Full collections because memory was short, and what they found.
        self.collections_total = 0
        self.collected_total = 0
        self._rest_until = 0.0
        # How long the last one took; None before the first.
        self._took_s: float | None = None

    def manage(self) -> None:
        """To be called once everything is there that lives as long as the process."""
        self.managed = True
        gc.set_threshold(YOUNG_OBJECTS, YOUNG_COLLECTIONS, NEVER)
        gc.freeze()
        gc.callbacks.append(self._collected)

    def release(self) -> None:
        """As it was, for a process that goes on without the broker."""
        if self.managed:
            self.managed = False
            gc.callbacks.remove(self._collected)
            gc.unfreeze()

    @staticmethod
    def _collected(phase: str, info: dict[str, Any]) -> None:
        # What has survived two collections is put aside; this moves a list, however long.
        if phase == "stop" and info["generation"] >= 1:
            gc.freeze()

    def collect(self, alarm: bool) -> bool:
        """Memory is short: looks at everything, if that is quick; with an alarm up also if it is not, but seldom."""
        began = self._monotonic()
        if began < self._rest_until or (not alarm and self._expected_s() > PAUSE_S_MAX):
            return False
        gc.unfreeze()
        self.collected_total += gc.collect()
        if self.managed:
            gc.freeze()
        self.collections_total += 1
        ended = self._monotonic()
        self._took_s = ended - began
        self._rest_until = ended + max(REST_S_MIN, self._took_s * REST_FACTOR)
        return True

    def _expected_s(self) -> float:
        if self._took_s is not None:
            return self._took_s
        # At most; to count them would take as long as to look at them.
        made: int = gc.get_stats()[0]["collections"] * gc.get_threshold()[0]
        return made * OBJECT_S
