"""Consumer groups through arbitrary comings and goings: never two readers, and one as soon as nobody is waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from leveret.broker.stream_groups import GroupKey, StreamGroups
from leveret.broker.timer_queue import TimerQueue
from tests.fuzz.effort import effort
from tests.unit.broker.turns import HandClock, HandLoop

DEADLINE_MS = 1000
GROUPS = [GroupKey("/", "plain", "g"), *(GroupKey("/", f"s-{index}", "g", index) for index in range(5))]
PARTITIONS = GROUPS[1:]


class Reader:
    """One membership. `reads` from the moment it is activated until it has answered, or its time is up."""

    def __init__(self, key: GroupKey, application: int, temper: str) -> None:
        self.key = key
        self.application = application
        # How it takes being told to stop, or to begin: see below.
        self.temper = temper
        self.active = False
        self.answer: Callable[[], None] | None = None
        self.asked_at = 0
        self.world: Groups

    def activate(self) -> None:
        assert not self.active and self.answer is None, "told to begin twice, or before it has ended"
        self.world.check_alone(self)
        self.active = True
        if self.temper == "quits":
            self.world.go(self)

    def deactivate(self, done: Callable[[], None]) -> None:
        assert self.active, "told to stop what it has not begun"
        self.active = False
        self.answer = done
        self.asked_at = self.world.clock.ms
        if self.temper == "prompt":
            self.reply()
        elif self.temper == "quits":
            self.world.go(self)
        elif self.temper == "brings a friend":
            self.temper = "slow"
            self.world.come(Reader(self.key, self.application, "slow"))

    def reply(self) -> None:
        answer, self.answer = self.answer, None
        assert answer is not None
        self.world.old_answers.append(answer)
        answer()

    @property
    def reads(self) -> bool:
        return self.active or self.answer is not None


class Groups(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = HandClock()
        self.loop = HandLoop()
        self.timers = TimerQueue(self.clock.now_ms, lambda: None, lambda: None)
        self.timers.start(self.loop.as_loop())
        self.groups = StreamGroups(self.timers, self.clock.now_ms, DEADLINE_MS)
        # The model: who is in which group, in the order they came.
        self.members: dict[GroupKey, list[Reader]] = {key: [] for key in GROUPS}
        self.old_answers: list[Callable[[], None]] = []
        self.applications = 0
        # Whether everybody who came reads all partitions, so that shares can be compared.
        self.even = True

    # ---- what readers do to the world

    def come(self, reader: Reader) -> None:
        reader.world = self
        self.members[reader.key].append(reader)
        self.groups.join(reader.key, reader)

    def go(self, reader: Reader) -> None:
        self.members[reader.key].remove(reader)
        reader.active = False
        if reader.answer is not None:
            self.old_answers.append(reader.answer)
            reader.answer = None
        self.groups.leave(reader.key, reader)

    def check_alone(self, reader: Reader) -> None:
        assert not any(other.reads for other in self.members[reader.key] if other is not reader)

    def everybody(self) -> list[Reader]:
        return [reader for readers in self.members.values() for reader in readers]

    # ---- steps

    @initialize(count=st.integers(0, 3), temper=st.sampled_from(["prompt", "slow"]))
    def begin(self, count: int, temper: str) -> None:
        for _ in range(count):
            self.application_comes(temper)

    @rule(temper=st.sampled_from(["prompt", "slow"]))
    def application_comes(self, temper: str) -> None:
        """Somebody who reads every partition, as clients of super streams do."""
        self.applications += 1
        for key in PARTITIONS:
            self.come(Reader(key, self.applications, temper))

    @rule(data=st.data())
    def application_goes(self, data: Any) -> None:
        present = sorted({reader.application for reader in self.everybody()} - {0})
        if present:
            leaver = data.draw(st.sampled_from(present))
            for reader in [reader for reader in self.everybody() if reader.application == leaver]:
                self.go(reader)

    @rule(key=st.sampled_from(GROUPS), temper=st.sampled_from(["prompt", "slow", "quits", "brings a friend"]))
    def one_comes(self, key: GroupKey, temper: str) -> None:
        self.even = False
        self.come(Reader(key, 0, temper))

    @rule(data=st.data())
    def one_goes(self, data: Any) -> None:
        if self.everybody():
            reader = data.draw(st.sampled_from(self.everybody()))
            self.even = False
            self.go(reader)

    @precondition(lambda self: any(reader.answer for reader in self.everybody()))
    @rule(data=st.data())
    def one_answers(self, data: Any) -> None:
        data.draw(st.sampled_from([reader for reader in self.everybody() if reader.answer])).reply()

    @precondition(lambda self: self.old_answers)
    @rule(data=st.data())
    def an_answer_comes_again(self, data: Any) -> None:
        data.draw(st.sampled_from(self.old_answers))()

    @rule(count=st.sampled_from([1, DEADLINE_MS - 1, DEADLINE_MS]))
    def time_passes(self, count: int) -> None:
        self.clock.ms += count
        for reader in self.everybody():
            if reader.answer is not None and self.clock.ms >= reader.asked_at + DEADLINE_MS:
                # It is too late for it, and it reads no longer: this is the contract.
                self.old_answers.append(reader.answer)
                reader.answer = None
        self.loop.turn()

    # ---- what always holds

    @invariant()
    def never_two(self) -> None:
        for readers in self.members.values():
            assert sum(reader.reads for reader in readers) <= 1

    @invariant()
    def one_when_nobody_is_waited_for(self) -> None:
        for key, readers in self.members.items():
            assert [id(member) for member in self.groups.members(key)] == [id(reader) for reader in readers]
            active = self.groups.active(key)
            if not readers or any(reader.answer for reader in readers):
                assert active is None
                continue
            assert active is readers[(key.partition_index or 0) % len(readers)]
            assert [reader.active for reader in readers] == [reader is active for reader in readers]

    @invariant()
    def nothing_is_left_behind(self) -> None:
        assert len(self.groups) == sum(bool(readers) for readers in self.members.values())
        assert len(self.timers) == sum(reader.answer is not None for reader in self.everybody())

    @invariant()
    def shares_are_even(self) -> None:
        everybody = [reader for key in PARTITIONS for reader in self.members[key]]
        if self.even and everybody and not any(reader.answer for reader in everybody):
            shares = {reader.application: 0 for reader in everybody}
            for reader in everybody:
                shares[reader.application] += reader.active
            assert max(shares.values()) - min(shares.values()) <= 1

    def teardown(self) -> None:
        self.timers.stop()


TestGroups = Groups.TestCase
TestGroups.settings = effort(300, stateful_step_count=40)
