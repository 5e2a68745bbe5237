"""The ready list against a sorted list: what comes back stands where it stood, whatever happened in between."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from leveret.core.codec.message import new_message
from leveret.core.codec.properties import parse_properties
from leveret.core.queue.ready import ReadyList
from leveret.core.queue.release import clear
from tests.fuzz.effort import effort

PROPERTIES = parse_properties(b"\x00\x00")


class ReadyMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.ready = ReadyList()
        # (position, message) of everything that must be in there, in order.
        self.model: list[tuple[int, Any]] = []
        # Positions that have come back: those are entries, with a delivery behind them.
        self.returned: set[int] = set()
        # Entries that were handed out and may come back.
        self.out: list[Any] = []
        self.next_position = 1

    def next_message(self, size: int) -> tuple[int, Any]:
        self.next_position += 1
        return self.next_position - 1, new_message(b"", b"q", PROPERTIES, bytes(size))

    @rule(count=st.sampled_from([1, 1, 2, 5, 40, 40, 1200]), size=st.sampled_from([0, 1, 10, 1000]))
    def push(self, count: int, size: int) -> None:
        for _ in range(count):
            position, message = self.next_message(size)
            self.ready.push(message)
            self.model.append((position, message))

    @precondition(lambda self: not self.model)
    @rule()
    def skip(self) -> None:
        """A message passes an empty list by: its position is used up all the same."""
        position, _ = self.next_message(0)
        assert self.ready.skip() == position

    @rule(count=st.sampled_from([1, 1, 2, 5, 40, 2000]))
    def pop(self, count: int) -> None:
        expected, self.model = self.model[:count], self.model[count:]
        got = [self.ready.pop() for _ in expected]
        assert [entry.position for entry in got] == [position for position, _ in expected]
        assert all(entry.message is message for entry, (_, message) in zip(got, expected, strict=True))
        if not self.model:
            assert self.ready.pop() is None
        self.returned.difference_update(entry.position for entry in got)
        self.out += got

    @rule(count=st.sampled_from([1, 2, 40]))
    def pop_messages(self, count: int) -> None:
        """For those who will not acknowledge: only what never was handed out comes without an entry."""
        for _ in range(count):
            fresh = bool(self.model) and self.model[0][0] not in self.returned
            message = self.ready.pop_message()
            if not fresh:
                assert message is None
                return
            assert message is self.model.pop(0)[1]

    @rule(seed=st.randoms(use_true_random=False), share=st.floats(0, 1))
    def put_back(self, seed: Any, share: float) -> None:
        """Some come back in any order; the others were settled, or are still out."""
        seed.shuffle(self.out)
        back = self.out[: round(len(self.out) * share)]
        for entry in back:
            self.ready.put_back(entry)
        self.returned.update(entry.position for entry in back)
        self.model = sorted(self.model + [(entry.position, entry.message) for entry in back], key=lambda pair: pair[0])
        del self.out[: len(back)]

    @rule()
    def settle(self) -> None:
        self.out.clear()

    @rule()
    def clear(self) -> None:
        clear(self.ready)
        self.model = []
        self.returned.clear()

    @invariant()
    def same_as_the_model(self) -> None:
        assert self.ready.count == len(self.model)
        assert self.ready.bytes == sum(len(message.body) for _, message in self.model)
        entries = self.ready.entries()
        assert [entry.position for entry in entries] == [position for position, _ in self.model]
        assert all(entry.message is message for entry, (_, message) in zip(entries, self.model, strict=True))


TestReady = ReadyMachine.TestCase
TestReady.settings = effort(60, stateful_step_count=25)
