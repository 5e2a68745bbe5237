"""Unacked against a dict: whatever was added, taken, squeezed and restored, each tag is found or is not."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from leveret.core.codec.message import new_message
from leveret.core.codec.properties import parse_properties
from leveret.core.codec.write_buffer import WriteBuffer
from leveret.core.connection.channel import Channel
from leveret.core.connection.consumer import Getter
from leveret.core.connection.publish_path import PublishPath
from leveret.core.connection.unacked import Unacked
from leveret.core.queue.classic_queue import ClassicQueue
from tests.fuzz.effort import effort

TAGS_MAX = 1200
# What a client may put into an ack: any 64 bits. Some of them are negative numbers to whoever takes them as signed.
ODD_TAGS = [0, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 2**20, 2**64 - 2, 2**64 - 1]


def tagged_entries(count: int) -> list[Any]:
    """Entries with the tags 1 to count, made as they are made in the broker: only a channel gives tags."""
    write_buffer = WriteBuffer([], [])
    channel = Channel(1, write_buffer, PublishPath(1, write_buffer, None, None, 4088, 1), None)
    queue = ClassicQueue(b"q", None)
    message = new_message(b"", b"q", parse_properties(b"\x00\x00"), b"")
    for _ in range(count):
        queue.publish(message)
        Getter(channel, queue, False).fetch()
    return channel.unacked.entries()


ENTRIES = tagged_entries(TAGS_MAX)


class UnackedMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.unacked = Unacked()
        # What must be in there, by tag, oldest first.
        self.model: dict[int, Any] = {}
        self.taken: dict[int, Any] = {}
        self.next_tag = 1

    @rule(count=st.sampled_from([1, 2, 3, 10, 70, 200]), gap=st.integers(0, 5))
    def add(self, count: int, gap: int) -> None:
        """`gap` tags went to consumers that need not ack."""
        for tag in range(self.next_tag + gap, min(self.next_tag + gap + count, TAGS_MAX + 1)):
            self.unacked.add(ENTRIES[tag - 1])
            self.model[tag] = ENTRIES[tag - 1]
            self.next_tag = tag + 1

    @rule(tag=st.one_of(st.integers(0, TAGS_MAX + 2), st.sampled_from(ODD_TAGS)))
    def take_any(self, tag: int) -> None:
        assert (self.unacked.find(tag) >= 0) == (tag in self.model)
        assert self.unacked.take(tag) is self.take_from_model(tag)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def take_present(self, data: st.DataObject) -> None:
        tag = data.draw(st.sampled_from(list(self.model)))
        assert self.unacked.take(tag) is self.take_from_model(tag)

    @rule(seed=st.randoms(use_true_random=False), share=st.floats(0.1, 0.95))
    def take_many(self, seed: Any, share: float) -> None:
        tags = list(self.model)
        for tag in seed.sample(tags, int(len(tags) * share)):
            assert self.unacked.take(tag) is self.take_from_model(tag)

    @rule(tag_max=st.one_of(st.integers(0, TAGS_MAX + 2), st.sampled_from(ODD_TAGS)))
    def take_up_to(self, tag_max: int) -> None:
        expected = [tag for tag in self.model if tag <= tag_max]
        got = []
        while (entry := self.unacked.take_first(tag_max)) is not None:
            got.append(entry.tag)
            assert entry is self.take_from_model(entry.tag)
        assert got == expected

    @rule(seed=st.randoms(use_true_random=False), share=st.floats(0, 1))
    def restore(self, seed: Any, share: float) -> None:
        """A rollback brings back some of what was taken, in whatever order it was taken."""
        tags = seed.sample(list(self.taken), int(len(self.taken) * share))
        self.unacked.restore([self.taken[tag] for tag in tags])
        self.model.update({tag: self.taken.pop(tag) for tag in tags})
        self.model = dict(sorted(self.model.items()))

    def take_from_model(self, tag: int) -> Any:
        entry = self.model.pop(tag, None)
        if entry is not None:
            self.taken[tag] = entry
        return entry

    @invariant()
    def same_as_the_model(self) -> None:
        assert self.unacked.count == len(self.model)
        assert [entry.tag for entry in self.unacked.entries()] == list(self.model)

    @invariant()
    def odd_tags_are_not_there(self) -> None:
        assert all(self.unacked.find(tag) < 0 for tag in ODD_TAGS)


TestUnacked = UnackedMachine.TestCase
TestUnacked.settings = effort(150, stateful_step_count=30)
