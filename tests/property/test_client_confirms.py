"""The window of unconfirmed messages against a plain model: whatever a broker answers, in whatever order."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from leveret.core.client.outgoing import Outgoing
from leveret.errors import HardError
from tests.unit.core.client_bench import Bench, ack, give_back, nack


class Step(NamedTuple):
    what: str
    # Of a tag: 0 is 0, the rest are taken round what was published.
    number: int
    multiple: bool


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(["publish", "publish", "publish", "ack", "nack", "return", "forget", "take"]),
        st.integers(0, 40),
        st.booleans(),
    ),
    max_size=60,
)


class Model:
    """The window as one would write it down: every message that waits, by its tag, and what is known of it."""

    def __init__(self) -> None:
        self.waiting: dict[int, str] = {}
        self.forgotten: set[int] = set()
        self.returned: set[str] = set()
        self.next_tag = 1
        self.settled: list[tuple[str, str]] = []
        self.strays = 0

    def answer(self, tag: int, multiple: bool, outcome: str) -> bool:
        """False if it makes no sense."""
        if multiple:
            if tag >= self.next_tag:
                return False
            covered = [one for one in self.waiting if tag == 0 or one <= tag]
        else:
            if tag not in self.waiting:
                return False
            covered = [tag]
        for one in sorted(covered):
            name = self.waiting.pop(one)
            if one not in self.forgotten:
                kept = "returned" if name in self.returned and outcome == "confirmed" else outcome
                self.settled.append((name, kept))
        return True

    def give_back(self, name: str) -> None:
        tag = next((tag for tag, one in self.waiting.items() if one == name and tag not in self.forgotten), None)
        if tag is None or name in self.returned:
            self.strays += 1
        else:
            self.returned.add(name)


def outcome(message: Outgoing) -> str:
    return "confirmed" if message.is_confirmed else "refused" if message.is_refused else "returned"


@given(STEPS)
def test_the_window_is_what_the_model_says(steps: list[Step]) -> None:
    bench, model = Bench(confirming=True), Model()
    messages: dict[str, Outgoing] = {}
    settled: list[tuple[str, str]] = []
    strays = 0
    for what, number, multiple in steps:
        name = f"m{number % model.next_tag}"
        tag = number % (model.next_tag + 2)
        if what == "publish":
            name = f"m{model.next_tag}"
            messages[name] = bench.publish(name, body=b"x" * (number % 7))
            model.waiting[model.next_tag] = name
            model.next_tag += 1
        elif what == "return":
            bench.feed(give_back(name))
            model.give_back(name)
        elif what == "forget" and name in messages:
            bench.codec.forget(messages[name])
            if messages[name].tag in model.waiting:
                model.forgotten.add(messages[name].tag)
        elif what == "take":
            settled += [(message.message_id.decode(), outcome(message)) for message in bench.codec.take_settled()]
            strays += len(bench.codec.take_strays())
        elif what in ("ack", "nack"):
            frames = ack(tag, multiple) if what == "ack" else nack(tag, multiple)
            makes_sense = model.answer(tag, multiple, "confirmed" if what == "ack" else "refused")
            try:
                bench.feed(frames)
                assert makes_sense
            except HardError:
                assert not makes_sense
        waits = [name for tag, name in model.waiting.items() if tag not in model.forgotten]
        assert bench.codec.unconfirmed_bytes == sum(len(messages[name].body) for name in waits)
        assert len(bench.codec.unconfirmed) == len(model.waiting)
        assert all(tag >= bench.codec.lowest for tag in model.waiting)
    settled += [(message.message_id.decode(), outcome(message)) for message in bench.codec.take_settled()]
    strays += len(bench.codec.take_strays())
    assert (settled, strays) == (model.settled, model.strays)
    left = [message.message_id.decode() for message in bench.codec.abandon()]
    assert left == [name for tag, name in sorted(model.waiting.items()) if tag not in model.forgotten]
