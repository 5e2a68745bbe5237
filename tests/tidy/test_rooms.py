"""Folders stay small enough to be looked over: files of a room are about one subject, or the room is split."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.tidy.tree import python_files

MODULES_MAX = 22
# folder -> how many modules it has and may not exceed, until it is split.
CROWDED = {
    "src/leveret/broker": 32,
    "src/leveret/cli": 24,
    "src/leveret/management/api": 48,
    "src/leveret/node": 24,
    "src/leveret/runtime": 29,
    "src/leveret/spark": 27,
    "src/leveret/storage": 42,
}


def modules_by_folder() -> Counter[str]:
    paths = (path for path in python_files("src") if path.name != "__init__.py")
    return Counter(str(path.parent) for path in paths)


def crowded(counts: Counter[str], allowed: dict[str, int]) -> list[str]:
    return [
        f"{folder} has {count} modules, at most {allowed.get(folder, MODULES_MAX)}"
        for folder, count in sorted(counts.items())
        if count > allowed.get(folder, MODULES_MAX)
    ]


def test_no_room_is_crowded() -> None:
    assert crowded(modules_by_folder(), CROWDED) == []


def test_an_allowance_that_is_not_needed_is_noticed() -> None:
    counts = modules_by_folder()
    assert [folder for folder in CROWDED if counts[folder] <= MODULES_MAX or not Path(folder).is_dir()] == []


def test_a_crowded_room_is_noticed() -> None:
    assert crowded(Counter({"src/leveret/core": 23}), {}) == ["src/leveret/core has 23 modules, at most 22"]
