"""What the process and its disk are doing, as far as a test can know."""

from __future__ import annotations

import os
import tempfile

from leveret.operations.statistics.node_numbers import COUNTERS, GAUGES, NodeNumbers
from tests.unit.operations.statistics.observed import Observed


def test_every_number_is_there_and_follows_the_process() -> None:
    observed = Observed()
    numbers = NodeNumbers(observed.broker, lambda: 12345)
    before = numbers.now()
    assert set(before) == {*COUNTERS, *GAUGES}
    assert before["disk_free"] == 12345 and before["mem_used"] > 1_000_000 and before["proc_used"] >= 1
    with tempfile.TemporaryFile():
        assert numbers.now()["fd_used"] == before["fd_used"] + 1
    observed.broker.blocked_connections.note(1, True)
    assert numbers.now()["run_queue"] == 1
    before, values, after = numbers.now(), numbers.values(), numbers.now()
    assert len(values) == len(COUNTERS + GAUGES)
    # The process goes on meanwhile.
    for name, value in zip(COUNTERS, values, strict=False):
        assert before[name] <= value <= after[name], name
    opened = len(os.listdir("/proc/self/fd"))
    numbers.close()
    numbers.close()
    assert len(os.listdir("/proc/self/fd")) == opened - 1
    observed.close()


def test_a_disk_that_is_not_known_has_nothing_free() -> None:
    observed = Observed()
    numbers = NodeNumbers(observed.broker, lambda: None)
    assert numbers.now()["disk_free"] == 0
    numbers.close()
    observed.close()
