"""Lines in files that are bounded all together."""

from __future__ import annotations

import os
from pathlib import Path

from leveret.runtime.rolling_file import FILES, RollingFile


def test_lines_are_read_back_newest_last(tmp_path: Path) -> None:
    file = RollingFile(tmp_path / "audit", "audit", 1 << 20)
    assert file.tail(10, 1000) == []
    file.append([b"a", b"b"])
    file.append([b"c"])
    assert file.tail(10, 1000) == [b"a", b"b", b"c"]
    assert file.tail(2, 1000) == [b"b", b"c"]
    # What is cut off at the front is no line.
    assert file.tail(10, 3) == [b"c"]


def test_the_oldest_go_when_there_is_too_much(tmp_path: Path) -> None:
    file = RollingFile(tmp_path, "audit", 8000)
    lines = [b"%06d" % number + b"x" * 93 for number in range(1000)]
    for line in lines:
        file.append([line])
    sizes = [entry.stat().st_size for entry in tmp_path.iterdir()]
    assert len(sizes) <= FILES
    assert sum(sizes) <= 8000 + 100 * FILES
    assert file.tail(50, 1 << 20) == lines[-50:]


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    file = RollingFile(tmp_path / "audit", "audit", 1000)
    file.append([b"a"])
    assert os.stat(file.path()).st_mode & 0o777 == 0o600
    assert os.stat(tmp_path / "audit").st_mode & 0o777 == 0o700


def test_nothing_is_written_without_room(tmp_path: Path) -> None:
    RollingFile(tmp_path / "audit", "audit", 0).append([b"a"])
    assert list(tmp_path.iterdir()) == []
