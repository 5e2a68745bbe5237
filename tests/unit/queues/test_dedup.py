"""Deduplication as it is asked for: when there is a window, how large, and what of it survives."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.queues.dedup import SIZE_DEFAULT, SIZE_DEFAULT_WITH_TTL, is_wanted, make_window
from tests.unit.core.fake_disk import KEY, FakeDisk


@pytest.mark.parametrize(("value", "wanted"), [(True, True), (False, False), (None, False), (1, False)])
def test_only_true_asks_for_it(value: Any, wanted: bool) -> None:
    assert is_wanted({"x-message-deduplication": value}) is wanted


def test_other_arguments_do_not_ask_for_it() -> None:
    assert not is_wanted({"x-cache-size": 5, "x-cache-ttl": 5})


@pytest.mark.parametrize(
    ("arguments", "size", "ttl_ms"),
    [
        ({}, SIZE_DEFAULT, 0),
        ({"x-cache-ttl": 9}, SIZE_DEFAULT_WITH_TTL, 9),
        ({"x-cache-size": 5}, 5, 0),
        ({"x-cache-size": 5, "x-cache-ttl": 9}, 5, 9),
    ],
)
def test_the_window_is_as_large_as_asked_for(arguments: dict[str, Any], size: int, ttl_ms: int) -> None:
    window = make_window(arguments, 3, None)
    assert (window.id, window.size_max, window.ttl_ms) == (3, size, ttl_ms)


@pytest.mark.parametrize(("id", "survives"), [(3, True), (0, False)])
def test_what_has_an_id_survives(id: int, survives: bool) -> None:
    disk = FakeDisk()
    make_window({}, id, disk).remember(b"0123456789abcdef", 1_700_000_000_000, 0, True)
    disk.commit()
    assert [note.queue for note in disk.noted(KEY)] == ([id] if survives else [])
