"""What queries have lost, of what Spark tells about batches, and how it is shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install leveret[spark]")

from leveret.spark.pipeline.job_metrics import Figures, text_of
from leveret.spark.pipeline.losses import Losses
from leveret.spark.pipeline.progress import line_of


def source(start: Any, end: Any, rows: int) -> dict[str, Any]:
    return {"startOffset": start, "endOffset": end, "numInputRows": rows}


def entry(offset: int, planned: int, **more: Any) -> dict[str, Any]:
    return {"offset": offset, "planned": planned, "id": "7-1", **more}


def test_a_batch_with_all_its_rows_has_lost_nothing() -> None:
    losses = Losses()
    losses.take(0, [source(None, json.dumps({"orders": entry(10, 10)}), 10)])
    losses.take(1, [source({"orders": entry(10, 10)}, {"orders": entry(15, 15), "new": entry(3, 3)}, 8)])
    assert (losses.messages, losses.streams, losses.news(), losses.summary()) == (0, [], [], None)


def test_what_was_gone_before_a_batch_counts_from_the_start_of_the_run() -> None:
    losses = Losses()
    # What an earlier run has lost is known already.
    start = {"orders": entry(100, 60, lost=40), "b": entry(5, 5)}
    losses.take(7, [source(start, {"orders": entry(1200, 160, lost=1040), "b": entry(5, 5)}, 100)])
    assert losses.messages == 1000
    assert losses.news() == ["LOST: 1,000 messages of the stream 'orders' were deleted before they were read"]
    assert losses.news() == []
    assert losses.summary() == "LOST in this run: 1,000 messages (1,000 of 'orders')"


def test_rows_that_lack_in_a_batch() -> None:
    losses = Losses()
    losses.take(3, [source({"orders": entry(10, 10)}, {"orders": entry(40, 40)}, 25)])
    assert losses.news() == ["LOST: 5 of 30 messages of batch 3 were deleted while it ran, and were not read"]
    assert losses.summary() == "LOST in this run: 5 messages (5 while batches ran)"
    # It has landed before, and so nothing of it is read.
    losses.take(4, [source({"orders": entry(40, 40)}, {"orders": entry(50, 50)}, 0)], {4})
    assert losses.messages == 5


def test_streams_that_were_deleted_or_made_anew() -> None:
    losses = Losses()
    end = {"a": entry(10, 10, vanished=1, missing=True), "b": entry(4, 14, vanished=1)}
    losses.take(1, [source({"a": entry(10, 10), "b": entry(10, 10)}, end, 4)])
    assert losses.news() == [
        "LOST: the stream 'a' was deleted: what was not read of it is gone, and not counted",
        "LOST: the stream 'b' was deleted and made anew: what was not read of it is gone, and not counted",
    ]
    assert losses.summary() == "LOST in this run: what was not read of 'a', 'b', deleted or made anew"
    losses.take(2, [source(end, end, 0)])
    assert losses.streams == ["a", "b"]


@pytest.mark.parametrize("offsets", [{"batches": 3}, "text", None, {"a": {"next": 1}}])
def test_other_sources_have_none(offsets: Any) -> None:
    losses = Losses()
    losses.take(0, [source(None, offsets, 0)])
    assert losses.summary() is None


def test_metrics_and_lines_show_them() -> None:
    lossy = Losses({"orders": 40}, 2, ["gone"])
    text = text_of([Figures("archive", batch=1, losses=lossy), Figures("other", batch=1)])
    assert 'leveret_pipeline_lost_messages_total{query="archive"} 42\n' in text
    assert 'leveret_pipeline_lost_streams_total{query="archive"} 1\n' in text
    assert 'leveret_pipeline_lost_messages_total{query="other"} 0\n' in text
    assert ", 42+ lost," in line_of(Figures("archive", batch=1, losses=lossy))
    assert "lost" not in line_of(Figures("other", batch=1))
