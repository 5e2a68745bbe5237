"""What the system says of this process."""

from __future__ import annotations

import gc
import resource
import tempfile
import threading
from pathlib import Path

import pytest

from leveret.runtime import process


def test_descriptors_are_counted() -> None:
    before = process.descriptors_used()
    with tempfile.TemporaryFile(), tempfile.TemporaryFile():
        assert process.descriptors_used() == before + 2
    assert process.descriptors_max() == resource.getrlimit(resource.RLIMIT_NOFILE)[0] > before


def test_where_the_system_does_not_say_there_are_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(process, "DESCRIPTORS", tmp_path / "nothing")
    assert process.descriptors_used() == 0


def test_collections_and_switches_only_grow() -> None:
    collections, collected = process.garbage_collections(), process.garbage_collected()
    circle: list[object] = []
    circle.append(circle)
    del circle
    gc.collect()
    assert process.garbage_collections() > collections and process.garbage_collected() > collected
    switches = process.context_switches()
    threading.Event().wait(0.01)
    assert process.context_switches() > switches


def test_threads_are_counted() -> None:
    go = threading.Event()
    before = process.threads_used()
    thread = threading.Thread(target=go.wait)
    thread.start()
    assert process.threads_used() == before + 1
    go.set()
    thread.join()
