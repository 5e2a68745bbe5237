"""The descriptor budget: who gets how many, at every limit."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from leveret.errors import StartupError
from leveret.runtime.descriptors import HTTP_MAX, OWN, STORAGE_MAX, STORAGE_MIN, DescriptorBudget

HELD = 11


@pytest.mark.parametrize("limit", [58, 64, 100, 256, 1024, 4096, 20_000, 1 << 20])
def test_what_everybody_may_hold_fits_below_the_limit(limit: int) -> None:
    budget = DescriptorBudget(lambda: limit, HELD)
    budget.require_enough()
    sockets = sum(share.limit for share in budget.shares)
    assert HELD + OWN + budget.storage + sockets <= limit
    assert all(share.limit > 0 for share in budget.shares)
    assert STORAGE_MIN <= budget.storage <= STORAGE_MAX
    # A quarter of it, about, for what is opened for a moment.
    assert budget.log_readers + budget.stream_readers + budget.stream_writers < budget.storage
    assert budget.http.limit <= HTTP_MAX


def test_amqp_has_most_of_the_sockets() -> None:
    budget = DescriptorBudget(lambda: 1024, HELD)
    assert budget.amqp.limit > budget.http.limit + budget.local.limit + budget.metrics.limit


def test_a_limit_that_cannot_work_is_refused_with_what_to_do() -> None:
    budget = DescriptorBudget(lambda: 40, HELD)
    with pytest.raises(StartupError, match=r"may open 40 file descriptors and needs at least \d+.*ulimit -n"):
        budget.require_enough()
    DescriptorBudget(lambda: budget.minimum, HELD).require_enough()
    with pytest.raises(StartupError):
        DescriptorBudget(lambda: budget.minimum - 1, HELD).require_enough()


def test_a_limit_that_changes_changes_the_shares() -> None:
    limits = [1024]
    budget = DescriptorBudget(lambda: limits[0], HELD)
    amqp = budget.amqp.limit
    assert not budget.refresh()
    budget.amqp.used = 300
    limits[0] = 256
    assert budget.refresh()
    assert budget.amqp.limit < amqp
    # Those that are open stay; there is just no room for others.
    assert (budget.amqp.used, budget.amqp.room) == (300, 0)


def test_what_the_process_holds_already_counts() -> None:
    assert DescriptorBudget(lambda: 1024, 500).amqp.limit < DescriptorBudget(lambda: 1024, HELD).amqp.limit


def test_a_process_without_descriptors_says_that_all_are_in_use() -> None:
    code = """
import os, resource
from leveret.runtime.process import descriptors_used
resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
try:
    while True:
        os.dup(0)
except OSError:
    print(descriptors_used())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout.strip() == "32"
