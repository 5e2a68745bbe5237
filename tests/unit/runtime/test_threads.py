"""Threads from the start: pools that have theirs before they are needed, and say so if they cannot."""

from __future__ import annotations

import threading

import pytest

from leveret.runtime.threads import started_pool


def names() -> set[str]:
    return {thread.name.rpartition("_")[0] for thread in threading.enumerate()}


def test_all_threads_run_before_anything_is_asked_for() -> None:
    pool = started_pool("leveret-probe", 3)
    assert sum(thread.name.startswith("leveret-probe") for thread in threading.enumerate()) == 3
    pool.shutdown()


def test_a_system_without_threads_is_an_error_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = threading.Thread.start
    left = [1]

    def start(thread: threading.Thread) -> None:
        if not left:
            raise RuntimeError("can't start new thread")
        left.pop()
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(OSError, match="cannot start a thread"):
        started_pool("leveret-scarce", 2)
    monkeypatch.undo()
    for thread in threading.enumerate():
        if thread.name.startswith("leveret-scarce"):
            thread.join(5)
    assert "leveret-scarce" not in names()
