"""The ready list against a sorted list: what comes back stands where it stood, whatever happened in between."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from leveret.core.contract import make_entry
from leveret.core.message import new_message
from leveret.core.properties import parse_properties
from leveret.core.ready import ReadyList
from tests.fuzz.effort import effort

MESSAGES = [new_message(b"", b"q", parse_properties(b"\x00\x00"), bytes(size)) for size in (0, 1, 10, 1000)]


class ReadyMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.ready = ReadyList()
        # Entries that must be in there, by position.
        self.model: list[Any] = []
        # Entries that were handed out and may come back.
        self.out: list[Any] = []
        self.next_position = 1

    @rule(count=st.sampled_from([1, 1, 2, 5, 40, 1500]), size=st.integers(0, len(MESSAGES) - 1))
    def push(self, count: int, size: int) -> None:
        for _ in range(count):
            entry = make_entry(MESSAGES[size], self.next_position)
            self.next_position += 1
            self.ready.push(entry)
            self.model.append(entry)

    @rule(count=st.sampled_from([1, 1, 2, 5, 40, 2000]))
    def pop(self, count: int) -> None:
        expected, self.model = self.model[:count], self.model[count:]
        got = [self.ready.pop() for _ in expected]
        assert [entry.position for entry in got] == [entry.position for entry in expected]
        assert all(one is other for one, other in zip(got, expected, strict=True))
        if not self.model:
            assert self.ready.pop() is None
        self.out += got

    @rule(seed=st.randoms(use_true_random=False), share=st.floats(0, 1))
    def put_back(self, seed: Any, share: float) -> None:
        """Some come back in any order; the others were settled, or are still out."""
        seed.shuffle(self.out)
        count = round(len(self.out) * share)
        for entry in self.out[:count]:
            self.ready.put_back(entry)
        self.model = sorted(self.model + self.out[:count], key=lambda entry: entry.position)
        del self.out[:count]

    @rule()
    def settle(self) -> None:
        self.out.clear()

    @rule()
    def clear(self) -> None:
        self.ready.clear()
        self.model = []

    @invariant()
    def same_as_the_model(self) -> None:
        assert self.ready.count == len(self.model)
        assert self.ready.bytes == sum(len(entry.message.body) for entry in self.model)
        assert [entry.position for entry in self.ready.entries()] == [entry.position for entry in self.model]


TestReady = ReadyMachine.TestCase
TestReady.settings = effort(150, stateful_step_count=30)
