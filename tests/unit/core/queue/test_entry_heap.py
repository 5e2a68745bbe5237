"""The heap of entries that came back: they leave in the order of their positions, whatever the order of return."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from leveret.core.queue.contract import make_entry
from leveret.core.queue.entry_heap import position_of
from leveret.core.queue.ready import ReadyList
from tests.unit.queues.dataplane import message


@given(st.lists(st.integers(1, 1 << 60), unique=True, max_size=60), st.data())
def test_entries_leave_in_the_order_of_their_positions(positions: list[int], data: st.DataObject) -> None:
    ready = ReadyList()
    here: list[int] = []
    for position in positions:
        ready.put_back(make_entry(message(b"x"), position))
        here.append(position)
        if data.draw(st.booleans()):
            left = ready.pop()
            assert position_of(left) == min(here)
            here.remove(left.position)
    assert [ready.pop().position for _ in range(ready.count)] == sorted(here)
