"""The watch: raises the alarms for memory and disk before either runs out, and ends them when there is room again.

Owns the two alarms and the polls behind them. Never pages, closes or refuses anything itself: the broker holds
publishers up while there is an alarm, the store pages bodies out while there is pressure. Called by the node only."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Protocol

from leveret.node.trimmer import BUSY_INTERVAL_S, Trimmer
from leveret.runtime.clock import Clock
from leveret.runtime.collector import Collector
from leveret.runtime.free_space import FreeSpace
from leveret.runtime.log import get_logger
from leveret.runtime.memory import ResidentMemory

log = get_logger(__name__)

# Past this part of the watermark bodies are paged out; below the other one an alarm ends. The gap to the watermark
# keeps publishers from being blocked and unblocked at every message.
PRESSURE_FRACTION = 0.5
CLEAR_FRACTION = 0.95

# How fast resident memory can grow at worst: the next look comes before the watermark can be reached. The shortest
# interval lets a watermark of 100 MiB be passed by a tenth.
MEMORY_BYTES_A_SECOND = 2_000_000_000
MEMORY_INTERVAL_MIN_S = 0.005
MEMORY_INTERVAL_MAX_S = 0.2

# How fast a disk can fill at worst; the same idea.
DISK_BYTES_A_SECOND = 1_000_000_000
DISK_INTERVAL_MIN_S = 0.1
DISK_INTERVAL_MAX_S = 10.0
# When the question for free space could not be answered, and how long it may take before that is worth a word.
DISK_RETRY_S = 1.0
DISK_DEADLINE_S = 5.0

# How long an alarm is put off at most once: collecting and giving back may take a while, and need not help.
SAVED_INTERVAL_S = 1.0


class Alarms(Protocol):
    """What the watch needs of the broker."""

    def raise_alarm(self, source: str, reason: str, blocks: bool = True) -> None: ...

    def clear_alarm(self, source: str) -> None: ...


class Watch:
    """Figures and counters are for the management API: read them, leave the rest alone."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        alarms: Alarms,
        data_dir: str,
        *,
        memory_watermark_bytes: int,
        disk_free_bytes_min: int,
        on_pressure: Callable[[bool], None],
        kick: Callable[[], None],
        memory: ResidentMemory | None = None,
        free_space: FreeSpace | None = None,
        collector: Collector | None = None,
        monotonic: Callable[[], float] | None = None,
    ) -> None:
        """`on_pressure` is called with True at every look at memory that finds much of it in use, and with False once
        when that is over. `kick` sends what the calls have put into write buffers."""
        assert memory_watermark_bytes > 0 and disk_free_bytes_min >= 0
        self.memory_watermark_bytes = memory_watermark_bytes
        self.disk_free_bytes_min = disk_free_bytes_min
        self.resident_bytes = 0
        # None until it is known, and while the system cannot say.
        self.disk_free_bytes: int | None = None
        # Whether the watch has raised its alarm: it ends no alarm that somebody else raised.
        self.memory_alarm = False
        self.disk_alarm = False
        self.memory_alarms_total = 0
        self.disk_alarms_total = 0
        # Alarms that were not raised because collecting garbage and giving memory back was enough.
        self.memory_alarms_averted_total = 0
        self._loop = loop
        self._alarms = alarms
        self._data_dir = data_dir
        self._on_pressure = on_pressure
        self._kick = kick
        self._memory = memory or ResidentMemory()
        self._free_space = free_space or FreeSpace(loop, data_dir)
        self._running = False
        self._pressed = False
        # The loop's own time stands still within a turn.
        self._monotonic = Clock().monotonic if monotonic is None else monotonic
        self._trimmer = Trimmer(self._memory, self._monotonic)
        self._collector = collector or Collector()
        self._saved = -math.inf
        self._memory_timer: asyncio.TimerHandle | None = None
        # Until the next question for free space, or while one is under way, until its deadline.
        self._disk_timer: asyncio.TimerHandle | None = None
        self._disk_failed = False

    def start(self) -> None:
        """Looks at memory at once, so that an alarm is up before the first client is in; the disk answers soon."""
        assert not self._running
        self._running = True
        self._look_at_memory()
        self._ask_for_space()

    def stop(self) -> None:
        """Looks no more, for good. Alarms stay as they are."""
        if self._running:
            self._running = False
            for timer in (self._memory_timer, self._disk_timer):
                if timer is not None:
                    timer.cancel()
        self._free_space.close()
        self._memory.close()

    @property
    def trims_total(self) -> int:
        return self._trimmer.trims_total

    @property
    def returned_bytes_total(self) -> int:
        """Given back to the system."""
        return self._trimmer.returned_bytes_total

    @property
    def collections_total(self) -> int:
        """Of the garbage, because memory was short."""
        return self._collector.collections_total

    def set_limits(self, memory_watermark_bytes: int, disk_free_bytes_min: int) -> None:
        """New limits count at once, for what was last seen."""
        assert memory_watermark_bytes > 0 and disk_free_bytes_min >= 0
        self.memory_watermark_bytes = memory_watermark_bytes
        self.disk_free_bytes_min = disk_free_bytes_min
        if self._running:
            self._judge_memory()
            if self.disk_free_bytes is not None:
                self._judge_disk(self.disk_free_bytes)

    # ---- memory

    def _look_at_memory(self) -> None:
        try:
            self.resident_bytes = self._memory.resident_bytes()
            if not self.memory_alarm and self.resident_bytes > self.memory_watermark_bytes:
                self._save()
            self._judge_memory()
            self._relieve()
        finally:
            # Whatever went wrong is logged by the loop; an end of the watch would be worse.
            if self._running:
                room = self.memory_watermark_bytes - self.resident_bytes
                wait_s = min(memory_interval_s(room), BUSY_INTERVAL_S if self._trimmer.busy else math.inf)
                self._memory_timer = self._loop.call_later(wait_s, self._look_at_memory)

    def _save(self) -> None:
        """Before an alarm: what is only garbage, or free and not returned, is no reason to hold anybody up."""
        now = self._monotonic()
        if now < self._saved + SAVED_INTERVAL_S:
            return
        self._collector.collect(alarm=False)
        self._trimmer.trim()
        self.resident_bytes = self._memory.resident_bytes()
        if self.resident_bytes <= self.memory_watermark_bytes:
            self.memory_alarms_averted_total += 1
        self._saved = self._monotonic()

    def _judge_memory(self) -> None:
        resident, watermark = self.resident_bytes, self.memory_watermark_bytes
        if not self.memory_alarm and resident > watermark:
            self.memory_alarm = True
            self.memory_alarms_total += 1
            figures = f"{size_text(resident)} resident, watermark {size_text(watermark)}"
            log.warning(f"memory alarm: publishers are blocked: {figures}")
            self._alarms.raise_alarm("memory", f"low on memory: {figures}")
            self._kick()
        elif self.memory_alarm and resident < watermark * CLEAR_FRACTION:
            self.memory_alarm = False
            log.info(f"memory alarm over: {size_text(resident)} resident, watermark {size_text(watermark)}")
            self._alarms.clear_alarm("memory")
            self._kick()

    def _relieve(self) -> None:
        pressed = self.resident_bytes > self.memory_watermark_bytes * PRESSURE_FRACTION
        if pressed or self._pressed:
            self._pressed = pressed
            self._on_pressure(pressed)
            self._kick()
        if self.memory_alarm:
            self._collector.collect(alarm=True)
        self._trimmer.look(pressed, self.memory_alarm)

    # ---- disk

    def _ask_for_space(self) -> None:
        # The next question is asked after the answer, so that a disk that hangs gathers no threads.
        if self._free_space.ask(self._space_known):
            self._disk_timer = self._loop.call_later(DISK_DEADLINE_S, self._space_late)
        else:
            self._disk_timer = self._loop.call_later(DISK_RETRY_S, self._ask_for_space)

    def _space_late(self) -> None:
        log.warning(f"the disk does not answer how much is free for {DISK_DEADLINE_S:.0f} s", data_dir=self._data_dir)

    def _space_known(self, answer: int | OSError) -> None:
        if not self._running:
            return
        if self._disk_timer is not None:
            self._disk_timer.cancel()
        interval = DISK_RETRY_S
        try:
            if isinstance(answer, OSError):
                self._space_unknown(answer)
            else:
                self._disk_failed = False
                self.disk_free_bytes = answer
                interval = disk_interval_s(answer - self.disk_free_bytes_min)
                self._judge_disk(answer)
        finally:
            if self._running:
                self._disk_timer = self._loop.call_later(interval, self._ask_for_space)

    def _space_unknown(self, error: OSError) -> None:
        """An alarm stays as it is: not knowing is no reason to block anybody, nor to let anybody go on."""
        self.disk_free_bytes = None
        if not self._disk_failed:
            self._disk_failed = True
            log.warning("cannot ask how much disk is free", data_dir=self._data_dir, error=error.strerror or str(error))

    def _judge_disk(self, free: int) -> None:
        figures = f"{size_text(free)} free, at least {size_text(self.disk_free_bytes_min)} needed"
        if not self.disk_alarm and free < self.disk_free_bytes_min:
            self.disk_alarm = True
            self.disk_alarms_total += 1
            log.warning(f"disk alarm: publishers are blocked: {figures}", data_dir=self._data_dir)
            self._alarms.raise_alarm("disk", f"low on disk: {figures}")
            self._kick()
        elif self.disk_alarm and free > self.disk_free_bytes_min:
            self.disk_alarm = False
            log.info(f"disk alarm over: {figures}", data_dir=self._data_dir)
            self._alarms.clear_alarm("disk")
            self._kick()


# ---- arithmetic


def watermark_bytes(watermark: float, limit_bytes: int) -> int:
    """What the setting means: up to 1 a part of what the machine or cgroup gives, above that octets."""
    if watermark > 1:
        if watermark > limit_bytes:
            log.warning(
                f"alarms.memory_watermark is {size_text(int(watermark))}, but there are only "
                f"{size_text(limit_bytes)}: the system may end the broker before the alarm comes"
            )
        return int(watermark)
    return max(1, int(limit_bytes * watermark))


def memory_interval_s(room_bytes: float) -> float:
    """When to look again, with so much left up to the watermark."""
    return min(max(room_bytes / MEMORY_BYTES_A_SECOND, MEMORY_INTERVAL_MIN_S), MEMORY_INTERVAL_MAX_S)


def disk_interval_s(room_bytes: float) -> float:
    """When to ask again, with so much left down to the limit."""
    return min(max(room_bytes / DISK_BYTES_A_SECOND, DISK_INTERVAL_MIN_S), DISK_INTERVAL_MAX_S)


def size_text(count: int) -> str:
    """A size for people: 400 MiB, 1.5 GiB."""
    size, unit = count / 1048576, "MiB"
    if size >= 1024:
        size, unit = size / 1024, "GiB"
    return f"{size:.1f}".removesuffix(".0") + f" {unit}"
