"""Which deliveries are settled, against a plain set: whatever is settled in whatever order, singly or up to a tag."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from leveret.core.client.delivery import Delivery
from leveret.errors import AlreadySettled
from tests.unit.core.client_bench import Bench, deliver

STEPS = st.lists(
    st.tuples(st.sampled_from(["deliver", "late", "single", "single", "single", "multiple"]), st.integers(0, 10_000)),
    max_size=25,
)


class Scene:
    def __init__(self) -> None:
        self.bench = Bench()
        self.delivery_buffer = self.bench.add_sink()
        self.got: list[Delivery] = []
        self.unsettled: set[int] = set()

    def deliver(self, count: int) -> None:
        first = len(self.got) + 1
        self.bench.feed(b"".join(deliver(tag) for tag in range(first, first + count)))
        self.unsettled.update(range(first, first + count))
        self.got += self.delivery_buffer.items
        self.delivery_buffer.items.clear()

    def settle(self, tag: int, multiple: bool = False) -> None:
        was_open = tag in self.unsettled
        assert self.got[tag - 1].is_settled is not was_open
        with contextlib.suppress(AlreadySettled):
            self.got[tag - 1].ack(multiple)
            assert was_open
            self.unsettled -= {one for one in self.unsettled if one == tag or (multiple and one <= tag)}
        self.bench.sent()

    def check(self) -> None:
        codec = self.bench.codec
        assert codec.unsettled_count == len(self.unsettled)
        assert codec.acked_total == len(self.got) - len(self.unsettled)
        for delivery in self.got[-5:] + self.got[:5]:
            assert delivery.is_settled is (delivery.delivery_tag not in self.unsettled)
            upto = delivery.delivery_tag
            assert codec.unsettled_upto(upto) == sum(one <= upto for one in self.unsettled)


@given(STEPS)
def test_what_is_settled(steps: list[tuple[str, int]]) -> None:
    scene = Scene()
    scene.deliver(10)
    for what, number in steps:
        if what == "deliver":
            scene.deliver(number % 20)
        elif what == "late":
            # So many that were settled after one that is not that they are remembered in another way.
            first = len(scene.got) + 1
            scene.deliver(1100)
            for tag in range(first + number % 3, len(scene.got) + 1):
                if tag % 500 != number % 500:
                    scene.settle(tag)
        else:
            scene.settle(number % len(scene.got) + 1, what == "multiple")
        scene.check()


def test_one_that_is_never_settled_does_not_make_the_others_be_remembered_for_ever() -> None:
    scene = Scene()
    scene.deliver(1)
    for _ in range(20):
        scene.deliver(1000)
        for tag in range(len(scene.got) - 999, len(scene.got) + 1):
            scene.settle(tag)
    codec = scene.bench.codec
    assert codec.unsettled_count == 1
    # It has passed the late one, and does not wait for it any more.
    assert codec.settled_upto > 15_000
    assert not scene.got[0].is_settled
    scene.settle(1)
    assert (codec.unsettled_count, codec.unsettled_upto(10**6)) == (0, 10**6 - len(scene.got))


def test_tags_that_no_broker_would_give() -> None:
    bench = Bench()
    delivery_buffer = bench.add_sink()
    for tag in (2**64 - 1, 5, 2**63, *range(10**12, 10**12 + 1500)):
        bench.feed(deliver(tag))
        delivery_buffer.items.pop().ack()
    assert bench.codec.unsettled_count >= 0
    bench.feed(deliver(2**64 - 1))
    delivery_buffer.items.pop().ack(multiple=True)
    assert bench.codec.settled_upto == 2**64 - 1
