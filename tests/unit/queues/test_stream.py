"""Streams by their arguments: no segment is shorter than the node allows, whoever asks for it."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.core.stream.log import SEGMENT_BYTES
from leveret.node.config.settings import StreamSettings
from leveret.queues.stream import Stream
from tests.unit.core.stream_client_bench import FakeKeeper, StreamBench

MIN = 1024 * 1024


class Keeper(FakeKeeper):
    segment_bytes_min = MIN

    def limits_changed(self, log: Any) -> None: ...


@pytest.mark.parametrize(
    ("asked", "used"),
    [(None, SEGMENT_BYTES), (0, SEGMENT_BYTES), (1, MIN), (MIN - 1, MIN), (MIN, MIN), (MIN + 1, MIN + 1)],
)
def test_a_segment_has_a_least_size(asked: int | None, used: int) -> None:
    bench = StreamBench()
    bench.log.__init__(1, bench.disk.journal, Keeper())
    arguments = {} if asked is None else {"x-stream-max-segment-size-bytes": asked}
    Stream().govern(bench.stream, arguments)
    assert bench.log.segment_bytes == used


def test_it_is_a_mebibyte() -> None:
    assert StreamSettings().segment_bytes_min == MIN
