"""A stream on real files for one test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.storage.stream_bench import StreamBench


@pytest.fixture
def make_bench(tmp_path: Path) -> Iterator[Callable[[int], StreamBench]]:
    """Makes a bench with segments of so many octets; it is closed when the test ends."""
    made: list[StreamBench] = []

    def make(segment_bytes: int = 1 << 20) -> StreamBench:
        made.append(StreamBench(tmp_path / str(len(made)), segment_bytes))
        return made[-1]

    yield make
    for bench in made:
        bench.close()
