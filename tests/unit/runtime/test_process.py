"""What the system says of this process."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path

import psutil
import pytest

from leveret.runtime import process


def test_descriptors_are_counted_without_the_one_that_counts(tmp_path: Path) -> None:
    before = process.descriptors_used()
    with open(tmp_path / "file", "w"):
        assert process.descriptors_used() == before + 1
    assert process.descriptors_used() == before
    assert process.descriptors_max() == psutil.Process().rlimit(psutil.RLIMIT_NOFILE)[0]


def test_threads() -> None:
    before, done = process.threads_used(), threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    assert process.threads_used() == before + 1
    done.set()
    thread.join()
    assert process.threads_max() > 0


def test_processors_are_those_that_we_may_use() -> None:
    assert process.processors() == len(os.sched_getaffinity(0))


def test_garbage_is_counted() -> None:
    runs, collected = process.garbage_collections(), process.garbage_collected()
    circle: list[object] = []
    circle.append(circle)
    del circle
    gc.collect()
    assert process.garbage_collections() > runs
    assert process.garbage_collected() > collected


def test_switches_only_grow() -> None:
    before = process.context_switches()
    threading.Event().wait(0.01)
    assert process.context_switches() > before


def test_memory_by_kind_is_what_psutil_sees() -> None:
    kinds = process.memory_kinds()
    assert kinds["rss"] == pytest.approx(psutil.Process().memory_info().rss, rel=0.1)
    assert kinds["anonymous"] + kinds["files"] + kinds["shared"] == pytest.approx(kinds["rss"], rel=0.05)


def test_a_system_that_says_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(process, "STATUS", tmp_path / "nosuch")
    monkeypatch.setattr(process, "DESCRIPTORS", tmp_path / "nosuch")
    assert process.descriptors_used() == 0
    kinds = process.memory_kinds()
    assert kinds["rss"] > 0 and kinds["anonymous"] == 0
