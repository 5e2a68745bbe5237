"""Reading and writing through the connector as tests do it: short, and beside it what the broker itself counted."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leveret.testing import Broker

_NUMBERS = itertools.count(1)
# The machine may have much else to do.
WAIT_S = 180


def name_for(what: str) -> str:
    """A name that no other test of the process uses."""
    return f"{what}-{next(_NUMBERS)}"


def options_for(broker: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Where the broker is, and these. What is None is left out."""
    places = {"url": broker.url, "managementUrl": broker.management_url}
    return {name: value for name, value in {**places, **options}.items() if value is not None}


def source(spark: Any, broker: Any, stream: str | None = None, /, **options: Any) -> Any:
    """A table of a stream, or of what the options say."""
    reader = spark.read.format("leveret").options(**options_for(broker, options))
    return reader.load() if stream is None else reader.load(stream)


def offsets(table: Any) -> list[int]:
    return sorted(row.offset for row in table.select("offset").collect())


def live(spark: Any, broker: Any, stream: str | None = None, /, **options: Any) -> Any:
    """The same as it grows."""
    reader = spark.readStream.format("leveret").options(**options_for(broker, options))
    return reader.load() if stream is None else reader.load(stream)


def to_files(table: Any, folder: Path, **trigger: Any) -> Any:
    """A query that writes Parquet files into folder/out, with its checkpoint beside it. All that there is, if no
    trigger is given."""
    writer = table.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    return writer.trigger(**(trigger or {"availableNow": True})).start(str(folder / "out"))


def finish(query: Any) -> None:
    assert query.awaitTermination(WAIT_S), f"the query did not end within {WAIT_S} s: {query.status}"


def archived(table: Any, folder: Path) -> Any:
    """Runs such a query to its end, and gives what is in the files by then."""
    finish(to_files(table, folder))
    return table.sparkSession.read.schema(table.schema).parquet(str(folder / "out"))


def publish_rows(table: Any, broker: Any, **options: Any) -> None:
    table.write.format("leveret").options(**options_for(broker, options)).mode("append").save()


def failure(call: Callable[[], Any]) -> str:
    """What a call that must fail says."""
    with pytest.raises(Exception) as raised:  # Spark wraps what is raised in many ways.
        call()
    return str(raised.value)


def delivered(broker: Broker, stream: str) -> int:
    """How many messages of a stream the broker has sent so far."""
    return broker.call(lambda node: int(node.broker.vhosts["/"].queues[stream.encode()].delivered_total))


def checkpoint_offsets(folder: Path) -> list[dict[str, int]]:
    """Where each batch of a query ended, as its checkpoint says."""
    return [{stream: one["offset"] for stream, one in batch.items()} for batch in checkpoint_positions(folder)]


def checkpoint_positions(folder: Path) -> list[dict[str, Any]]:
    """The same with all that it says."""
    files = sorted((folder / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    return [json.loads(path.read_text().splitlines()[2]) for path in files]


def wait_for(what: str, check: Callable[[], bool]) -> None:
    until = time.monotonic() + WAIT_S
    while not check():
        assert time.monotonic() < until, what
        time.sleep(0.2)


def rows_in(query: Any) -> int:
    return sum(progress.numInputRows for progress in query.recentProgress)
