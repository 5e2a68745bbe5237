"""The watch: alarms go up in time and end by themselves, bodies are paged out before, nothing hangs with the disk."""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from leveret.node.watch import Watch, disk_interval_s, memory_interval_s, size_text, watermark_bytes

MIB = 1 << 20
GB = 1_000_000_000


class Timer:
    def __init__(self, when: float, call: Callable[..., Any]) -> None:
        self.when = when
        self.call = call
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True

    def __lt__(self, other: Timer) -> bool:
        return self.when < other.when


class Loop:
    """Time that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, call: Callable[..., Any]) -> Timer:
        timer = Timer(self.now + delay, call)
        heapq.heappush(self.timers, timer)
        return timer

    def pending(self) -> list[Timer]:
        return [timer for timer in self.timers if not timer.cancelled]

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while self.timers and self.timers[0].when <= end:
            timer = heapq.heappop(self.timers)
            if not timer.cancelled:
                self.now = max(self.now, timer.when)
                timer.call()
        self.now = end


class Memory:
    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.resident = 10 * MIB
        self.looks: list[float] = []
        self.trims: list[float] = []
        self.trim_s = 0.0
        self.free = 0
        self.on_look: Callable[[], None] = lambda: None
        self.closed = False

    def resident_bytes(self) -> int:
        self.looks.append(self.loop.now)
        self.on_look()
        return self.resident

    def free_bytes(self) -> int:
        return self.free

    def give_back(self) -> bool:
        self.trims.append(self.loop.now)
        self.loop.now += self.trim_s
        return True

    def close(self) -> None:
        self.closed = True


class Space:
    """A disk that answers at once, or not until told to."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.free: int | OSError = 1000 * GB
        self.hung = False
        self.asks: list[float] = []
        self.waiting: Callable[[int | OSError], None] | None = None
        self.closed = False

    def ask(self, answered: Callable[[int | OSError], None]) -> bool:
        assert self.waiting is None
        self.asks.append(self.loop.now)
        self.waiting = answered
        if not self.hung:
            self.loop.call_later(0, self.answer)
        return True

    def answer(self) -> None:
        waiting, self.waiting = self.waiting, None
        assert waiting is not None
        waiting(self.free)

    def close(self) -> None:
        self.closed = True


class Scene:
    """A watch over 100 MiB of memory and 64 MiB of free disk, with everything around it played."""

    def __init__(self, watermark: int = 100 * MIB) -> None:
        self.loop = Loop()
        self.memory = Memory(self.loop)
        self.space = Space(self.loop)
        # What the watch did, in its order.
        self.events: list[Any] = []
        self.alarms: dict[str, str] = {}
        self.pressures: list[bool] = []
        # Collections of garbage: whether an alarm was up.
        self.collections: list[bool] = []
        self.on_collect: Callable[[], None] = lambda: None
        self.watch = Watch(
            self.loop,  # type: ignore[arg-type]
            self,
            "/data",
            memory_watermark_bytes=watermark,
            disk_free_bytes_min=64 * MIB,
            on_pressure=self.pressed,
            kick=lambda: self.events.append("kick"),
            memory=self.memory,  # type: ignore[arg-type]
            free_space=self.space,  # type: ignore[arg-type]
            collector=self,  # type: ignore[arg-type]
            monotonic=self.loop.time,
        )

    def collect(self, alarm: bool) -> bool:
        self.collections.append(alarm)
        self.on_collect()
        return True

    def raise_alarm(self, source: str, reason: str) -> None:
        assert source not in self.alarms
        self.alarms[source] = reason
        self.events.append(f"raise {source}")

    def clear_alarm(self, source: str) -> None:
        del self.alarms[source]
        self.events.append(f"clear {source}")

    def pressed(self, on: bool) -> None:
        self.pressures.append(on)
        self.events.append(f"pressure {on}")

    def use(self, mib: float, seconds: float = 0.3) -> None:
        """So much memory is resident, for longer than the longest interval."""
        self.memory.resident = int(mib * MIB)
        self.loop.advance(seconds)

    def leave(self, free: int | OSError, seconds: float = 10.1) -> None:
        """So much disk is free, for longer than the longest interval."""
        self.space.free = free
        self.loop.advance(seconds)


def gaps(moments: list[float]) -> list[float]:
    """Between different moments: giving back looks before and after, too."""
    return [later - earlier for earlier, later in pairwise(moments) if later > earlier]


@pytest.fixture
def scene() -> Scene:
    scene = Scene()
    scene.watch.start()
    return scene


# ---- memory


def test_with_room_nothing_happens(scene: Scene) -> None:
    scene.use(50, 60)
    assert scene.events == []
    assert scene.watch.resident_bytes == 50 * MIB
    assert scene.watch.disk_free_bytes == 1000 * GB


def test_the_memory_alarm_goes_up_past_the_watermark_and_says_the_figures(scene: Scene) -> None:
    scene.use(100)
    assert scene.alarms == {}
    # raise_alarm here refuses to be called twice.
    scene.use(112.5, 60)
    assert scene.alarms == {"memory": "low on memory: 112.5 MiB resident, watermark 100 MiB"}
    assert scene.watch.memory_alarm and scene.watch.memory_alarms_total == 1


def test_the_memory_alarm_ends_below_19_twentieths(scene: Scene) -> None:
    scene.use(101)
    scene.use(95)
    assert "memory" in scene.alarms
    scene.use(94.9)
    assert scene.alarms == {} and not scene.watch.memory_alarm
    # And does not come again before the watermark.
    scene.use(99.9)
    assert scene.watch.memory_alarms_total == 1
    scene.use(100.1)
    assert scene.watch.memory_alarms_total == 2


def test_an_alarm_is_up_before_start_returns() -> None:
    scene = Scene()
    scene.memory.resident = 101 * MIB
    scene.watch.start()
    assert "memory" in scene.alarms


def test_outboxes_are_sent_after_every_call(scene: Scene) -> None:
    scene.use(101)
    scene.use(10)
    calls = [event for event in scene.events if event != "kick"]
    assert {"raise memory", "clear memory", "pressure True", "pressure False"} <= set(calls)
    # The alarm comes before the paging, which takes time.
    assert calls[:2] == ["raise memory", "pressure True"]
    assert scene.events == [event for call in calls for event in (call, "kick")]


def test_pressure_is_told_at_every_look_and_its_end_once(scene: Scene) -> None:
    scene.use(50)
    assert scene.pressures == []
    looks = len(set(scene.memory.looks))
    scene.use(51, 1)
    assert scene.pressures == [True] * (len(set(scene.memory.looks)) - looks)
    assert len(scene.pressures) >= 20
    scene.pressures.clear()
    scene.use(50, 5)
    assert scene.pressures == [False]


@pytest.mark.parametrize(
    ("room", "seconds"),
    [(-GB, 0.005), (0, 0.005), (5_000_000, 0.005), (40_000_000, 0.02), (400_000_000, 0.2), (100 * GB, 0.2)],
)
def test_the_nearer_the_watermark_the_sooner_is_the_next_look(room: int, seconds: float) -> None:
    assert memory_interval_s(room) == pytest.approx(seconds)


def test_the_interval_follows_the_memory(scene: Scene) -> None:
    scene.use(10)
    assert gaps(scene.memory.looks)[-1] == pytest.approx(90 * MIB / 2e9)
    scene.use(99)
    assert gaps(scene.memory.looks)[-1] == pytest.approx(0.005)


@pytest.mark.parametrize("watermark", [100 * MIB, 400 * MIB, 10_000 * MIB])
@pytest.mark.parametrize("started_at", [0.1, 0.33, 0.77, 0.9999])
def test_memory_that_grows_by_2_gb_a_second_stays_within_15_percent(watermark: int, started_at: float) -> None:
    scene = Scene(watermark)
    born = scene.loop.now

    def grow() -> None:
        scene.memory.resident = int(watermark * started_at + (scene.loop.now - born) * 2 * GB)

    scene.memory.on_look = grow
    scene.watch.start()
    while not scene.alarms:
        scene.loop.advance(0.001)
        grow()
    assert scene.memory.resident <= watermark * 1.15


def test_freed_memory_that_the_c_library_keeps_does_not_keep_the_alarm_up(scene: Scene) -> None:
    def give_back() -> bool:
        scene.memory.resident = 20 * MIB
        return True

    scene.use(101)
    scene.memory.give_back = give_back  # type: ignore[method-assign]
    scene.use(97, 1)
    assert scene.alarms == {}
    assert scene.pressures[-1] is False


def test_a_mistake_in_the_paging_does_not_end_the_watch(scene: Scene) -> None:
    def fail(on: bool) -> None:
        raise ZeroDivisionError

    scene.watch._on_pressure = fail
    scene.memory.resident = 60 * MIB
    with pytest.raises(ZeroDivisionError):
        scene.loop.advance(0.3)
    scene.watch._on_pressure = scene.pressed
    scene.use(101)
    assert "memory" in scene.alarms


# ---- disk


def test_the_disk_alarm_goes_up_below_the_limit_and_says_the_figures(scene: Scene) -> None:
    scene.leave(64 * MIB)
    assert scene.alarms == {}
    scene.leave(63 * MIB)
    assert scene.alarms == {"disk": "low on disk: 63 MiB free, at least 64 MiB needed"}
    assert scene.watch.disk_alarm and scene.watch.disk_alarms_total == 1
    assert scene.watch.disk_free_bytes == 63 * MIB
    assert scene.events == ["raise disk", "kick"]


def test_the_disk_alarm_ends_with_the_first_answer_above_the_limit(scene: Scene) -> None:
    scene.leave(63 * MIB)
    scene.leave(64 * MIB)
    assert "disk" in scene.alarms
    scene.leave(64 * MIB + 1, 0.11)
    assert scene.alarms == {} and not scene.watch.disk_alarm
    assert scene.events == ["raise disk", "kick", "clear disk", "kick"]
    scene.leave(0)
    assert scene.watch.disk_alarms_total == 2


@pytest.mark.parametrize(
    ("room", "seconds"), [(-GB, 0.1), (0, 0.1), (GB // 20, 0.1), (GB // 2, 0.5), (10 * GB, 10), (1000 * GB, 10)]
)
def test_the_nearer_the_limit_the_sooner_is_the_next_question(room: int, seconds: float) -> None:
    assert disk_interval_s(room) == pytest.approx(seconds)


def test_the_question_is_asked_again_after_the_answer(scene: Scene) -> None:
    scene.leave(64 * MIB + 2 * GB, 30)
    assert gaps(scene.space.asks) == [pytest.approx(2)] * 15


def test_a_disk_that_hangs_is_asked_once_and_named_in_the_log(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.space.hung = True
    scene.loop.advance(600)
    assert len(scene.space.asks) == 2
    assert scene.space.waiting is not None
    assert [record.getMessage() for record in caplog.records] == [
        "the disk does not answer how much is free for 5 s data_dir='/data'"
    ]
    # Memory is watched all the while, and the disk again as soon as it answers.
    assert scene.memory.looks[-1] > scene.loop.now - 0.2
    scene.space.hung = False
    scene.space.free = 0
    scene.space.answer()
    assert "disk" in scene.alarms
    scene.loop.advance(1)
    assert len(scene.space.asks) >= 10


def test_a_disk_that_cannot_be_asked_leaves_the_alarm_and_is_asked_again(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.leave(0)
    caplog.clear()
    scene.leave(FileNotFoundError(2, "No such file or directory"))
    assert "disk" in scene.alarms and scene.watch.disk_free_bytes is None
    assert [record.getMessage() for record in caplog.records] == [
        "cannot ask how much disk is free data_dir='/data' error='No such file or directory'"
    ]
    scene.leave(GB, 1.1)
    assert scene.alarms == {} and scene.watch.disk_free_bytes == GB
    # A new failure is news again.
    scene.leave(OSError("odd"))
    assert caplog.records[-1].getMessage().endswith("error='odd'")


def test_a_question_still_under_way_is_waited_for(scene: Scene) -> None:
    asked = len(scene.space.asks)
    ask, scene.space.ask = scene.space.ask, lambda answered: False  # type: ignore[method-assign]
    scene.loop.advance(20)
    scene.space.ask = ask  # type: ignore[method-assign]
    scene.loop.advance(1.1)
    assert len(scene.space.asks) == asked + 1


# ---- the log, the end, the real thing


def test_the_log_tells_an_operator_what_and_why(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "leveret"):
        scene.use(112)
        scene.use(90)
        scene.leave(MIB)
        scene.leave(2048 * MIB)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "memory alarm: publishers are blocked: 112 MiB resident, watermark 100 MiB"),
        ("INFO", "memory alarm over: 90 MiB resident, watermark 100 MiB"),
        ("WARNING", "disk alarm: publishers are blocked: 1 MiB free, at least 64 MiB needed data_dir='/data'"),
        ("INFO", "disk alarm over: 2 GiB free, at least 64 MiB needed data_dir='/data'"),
    ]


def test_a_stopped_watch_leaves_nothing_behind(scene: Scene) -> None:
    scene.loop.advance(1)
    assert len(scene.loop.pending()) == 2
    scene.watch.stop()
    assert scene.loop.pending() == []
    assert scene.memory.closed and scene.space.closed
    scene.watch.stop()


def test_an_answer_after_the_end_changes_nothing(scene: Scene) -> None:
    scene.watch.stop()
    scene.space.free = 0
    scene.space.answer()
    assert scene.alarms == {} and scene.watch.disk_free_bytes is None
    assert all(timer.call == scene.space.answer for timer in scene.loop.pending())


def test_a_watch_stopped_by_what_it_calls_stays_stopped(scene: Scene) -> None:
    scene.watch._on_pressure = lambda on: scene.watch.stop()
    scene.use(60)
    looks = len(scene.memory.looks)
    scene.use(60, 5)
    assert len(scene.memory.looks) == looks


@pytest.mark.parametrize(
    ("setting", "meaning"),
    [(0.4, 400), (1, 1000), (1.0, 1000), (0.000001, 1), (2, 2), (300.0, 300), (5000, 5000)],
)
def test_the_setting_is_a_part_up_to_one_and_octets_above(setting: float, meaning: int) -> None:
    assert watermark_bytes(setting, 1000) == meaning


def test_a_watermark_above_what_there_is_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    watermark_bytes(3 << 30, 2 << 30)
    assert [record.getMessage() for record in caplog.records] == [
        "alarms.memory_watermark is 3 GiB, but there are only 2 GiB: "
        "the system may end the broker before the alarm comes"
    ]


@pytest.mark.parametrize(("count", "text"), [(0, "0 MiB"), (400 * MIB, "400 MiB"), (1536 * MIB, "1.5 GiB")])
def test_sizes_are_for_people(count: int, text: str) -> None:
    assert size_text(count) == text


def test_a_real_watch_raises_both_alarms_and_stops(tmp_path: Path) -> None:
    async def live() -> None:
        alarms: dict[str, str] = {}
        both = asyncio.Event()

        class Broker:
            def raise_alarm(self, source: str, reason: str) -> None:
                alarms[source] = reason
                if len(alarms) == 2:
                    both.set()

            def clear_alarm(self, source: str) -> None:
                raise AssertionError(source)

        watch = Watch(
            asyncio.get_running_loop(),
            Broker(),
            str(tmp_path),
            memory_watermark_bytes=MIB,
            disk_free_bytes_min=1 << 62,
            on_pressure=lambda on: None,
            kick=lambda: None,
        )
        watch.start()
        await asyncio.wait_for(both.wait(), 30)
        watch.stop()
        assert alarms["memory"].startswith("low on memory: ") and alarms["disk"].startswith("low on disk: ")
        # connection.blocked carries them as short strings.
        assert all(len(reason) < 256 for reason in alarms.values())
        assert watch.resident_bytes > MIB and watch.disk_free_bytes is not None

    asyncio.run(live())
