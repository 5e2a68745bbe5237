"""Sorted slots against a dict: whatever was added, moved, removed and taken from the front, the same is there."""

from __future__ import annotations

import random
import struct

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from leveret.core.log.sorted_slots import SortedSlots
from tests.fuzz.effort import effort

SLOT_BYTES = 32
CHUNK_SLOTS = 512
LARGEST = (1 << 64) - 1
# Few enough that additions meet what is there, on both sides of the sign bit and at either end.
ORIGINS = [0, (1 << 63) - 1000, 1 << 40, LARGEST - 5000]
U32 = st.integers(0, (1 << 32) - 1)
POSITIONS = st.one_of(
    st.builds(lambda origin, step: origin + step, st.sampled_from(ORIGINS), st.integers(0, 2000)),
    st.integers(0, LARGEST),
)


class SortedSlotsMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.slots = SortedSlots()
        # Location, length, body size, deliveries by position.
        self.model: dict[int, tuple[int, int, int, int]] = {}

    def add(self, position: int, location: int, length: int, body_size: int, deliveries: int) -> None:
        taken = position in self.model
        assert self.slots.add(position, location, length, body_size, deliveries) is not taken
        if not taken:
            self.model[position] = (location, length, body_size, deliveries)

    @rule(position=POSITIONS, location=st.integers(0, LARGEST), length=U32, body_size=U32, deliveries=U32)
    def add_one(self, position: int, location: int, length: int, body_size: int, deliveries: int) -> None:
        self.add(position, location, length, body_size, deliveries)

    @rule(
        origin=st.sampled_from(ORIGINS),
        start=st.integers(0, 1500),
        count=st.sampled_from([2, 30, 300, 600, 1300]),
        gap=st.integers(1, 2),
        order=st.sampled_from(["up", "down", "any"]),
        dice=st.integers(0, 1 << 20),
    )
    def add_many(self, origin: int, start: int, count: int, gap: int, order: str, dice: int) -> None:
        positions = [origin + start + gap * number for number in range(count)]
        if order == "down":
            positions.reverse()
        elif order == "any":
            random.Random(dice).shuffle(positions)
        for position in positions:
            self.add(position, position ^ dice, dice & 0xFFFF, position % 5000, position & 3)

    @rule(position=POSITIONS)
    def remove_any(self, position: int) -> None:
        assert self.slots.remove(position) is (self.model.pop(position, None) is not None)

    @precondition(lambda self: self.model)
    @rule(share=st.floats(0, 1), dice=st.integers(0, 1 << 20))
    def remove_many(self, share: float, dice: int) -> None:
        for position in random.Random(dice).sample(sorted(self.model), int(len(self.model) * share)):
            assert self.slots.remove(position) is True
            del self.model[position]

    @precondition(lambda self: self.model)
    @rule(start=st.floats(0, 1), share=st.floats(0, 1), backwards=st.booleans())
    def remove_a_run(self, start: float, share: float, backwards: bool) -> None:
        """Chunks run empty, or small beside full ones."""
        positions = sorted(self.model)[int(len(self.model) * start) :]
        run = positions[: int(len(positions) * share)]
        for position in reversed(run) if backwards else run:
            assert self.slots.remove(position) is True
            del self.model[position]

    @precondition(lambda self: self.model)
    @rule(count=st.sampled_from([1, 2, 100, 511, 512, 513, 2000]))
    def take_first(self, count: int) -> None:
        copy = bytearray(SLOT_BYTES + 3)
        for position in sorted(self.model)[:count]:
            assert self.slots.first_position() == position
            self.slots.copy_first(copy, 2)
            assert struct.unpack_from(">QQIIII", copy, 2) == (position, *self.model.pop(position), 0)
            self.slots.drop_first()

    @precondition(lambda self: self.model)
    @rule(data=st.data(), location=st.integers(0, LARGEST), length=U32)
    def move(self, data: st.DataObject, location: int, length: int) -> None:
        position = data.draw(st.one_of(st.sampled_from(sorted(self.model)), POSITIONS))
        there = position in self.model
        assert self.slots.move(position, location, length) is there
        if there:
            self.model[position] = (location, length, *self.model[position][2:])

    @rule(position=POSITIONS, limit=st.one_of(st.integers(-1, 5), st.integers(0, 3000)))
    def look(self, position: int, limit: int) -> None:
        location, length, body_size, _ = self.model.get(position, (0, 0, 0, 0))
        assert (self.slots.find(position) >= 0) == (position in self.model)
        assert self.slots.location_of(position) == location
        assert (self.slots.length_of(position), self.slots.body_size_of(position)) == (length, body_size)
        expected = [key for key in sorted(self.model) if key >= position][: max(limit, 0)]
        page = struct.iter_unpack(">QQIIII", self.slots.slots_from(position, limit))
        assert list(page) == [(key, *self.model[key], 0) for key in expected]

    @rule()
    def clear(self) -> None:
        self.slots.clear()
        self.model.clear()

    @invariant()
    def same_as_the_model(self) -> None:
        assert self.slots.count == len(self.model)
        assert self.slots.bytes_total == sum(body_size for _, _, body_size, _ in self.model.values())
        every = struct.iter_unpack(">QQIIII", self.slots.slots_from(0, len(self.model) + 1))
        assert list(every) == [(key, *self.model[key], 0) for key in sorted(self.model)]

    @invariant()
    def chunks_are_as_they_say(self) -> None:
        """Each within its bounds, none empty beside others, none too large. Compiled, they cannot be seen."""
        if not hasattr(self.slots, "chunks"):
            return
        chunks, bounds = self.slots.chunks, [bound for (bound,) in struct.iter_unpack(">Q", self.slots.bounds)]
        assert len(bounds) == len(chunks) >= 1
        assert all(len(chunk) <= CHUNK_SLOTS * SLOT_BYTES for chunk in chunks)
        assert len(chunks) == 1 or all(chunks)
        for bound, before, chunk in zip(bounds[1:], chunks, chunks[1:], strict=False):
            assert (
                int.from_bytes(before[-SLOT_BYTES : 8 - SLOT_BYTES], "big") < bound <= int.from_bytes(chunk[:8], "big")
            )


TestSortedSlots = SortedSlotsMachine.TestCase
TestSortedSlots.settings = effort(100, stateful_step_count=25)
