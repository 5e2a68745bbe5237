"""A program of its own for test_sink.py: a task dies when all its rows are handed over, and Spark runs it once more.

Arguments: the broker's URL, the stream, and a file that says that it has died."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leveret.spark.pipeline.session import open_session

url, stream, flag = sys.argv[1:]


def once(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    if context.partitionId() == 1 and not Path(flag).exists():
        Path(flag).touch()
        raise RuntimeError("this task dies once")


# A task may fail three times.
spark = open_session("retries", "local[2,4]")
rows = spark.range(0, 30_000, 1, 2).selectExpr("cast(id as string) as body").mapInArrow(once, "body string")
rows.write.format("leveret").option("url", url).option("routingKey", stream).mode("append").save()
assert Path(flag).exists()
spark.stop()
