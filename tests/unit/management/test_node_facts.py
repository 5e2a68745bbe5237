"""What the system says of this process."""

from __future__ import annotations

import resource

import pytest

from leveret.management.node_facts import UNLIMITED, memory_kinds, processors, threads_max


def test_facts_of_this_very_process() -> None:
    kinds = memory_kinds()
    assert kinds["rss"] > 1_000_000
    assert kinds["rss"] >= kinds["anonymous"] + kinds["files"]
    assert processors() >= 1


def test_no_limit_is_a_number_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert threads_max() == UNLIMITED
    monkeypatch.setattr(resource, "getrlimit", lambda _: (77, 99))
    assert threads_max() == 77
