"""What running queries have done, as figures: gathered from what Spark tells about batches, for people and Prometheus.

The page is served on 127.0.0.1 alone, by a thread that goes with the job. Never asks the broker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from leveret.spark.pipeline.losses import Losses
from leveret.spark.positions import read_positions

__all__ = ["CompactionFigures", "Figures", "MetricsPage", "QueryWatch", "text_of"]

KIND = "text/plain; version=0.0.4; charset=utf-8"


@dataclass
class CompactionFigures:
    """What a job's own compactions have done since it was started."""

    done: int = 0
    failed: int = 0
    batches: int = 0
    # How long the last one took.
    last_s: float = 0.0


@dataclass
class Figures:
    name: str
    # Spark's number of the last batch, -1 if there was none; and what was done since this run began.
    batch: int = -1
    batches: int = 0
    rows: int = 0
    rows_per_s: float = 0.0
    batch_s: float = 0.0
    # Messages that wait behind the last batch; None where nobody knows, as with queues.
    lag: int | None = None
    active: bool = True
    failed: bool = False
    losses: Losses = field(default_factory=Losses)
    # None for a query whose tables are not compacted beside it.
    compaction: CompactionFigures | None = None


class QueryWatch:
    """Follows one query."""

    def __init__(self, query: StreamingQuery, landed_before: Container[int] = ()) -> None:
        """`landed_before` has the batches that need not be read again, as they are found out."""
        self.query = query
        self._landed_before = landed_before
        self.figures = Figures(query.name or str(query.id)[:8])

    def look(self) -> Figures:
        """Takes in what has happened since the last look. Spark remembers the last hundred batches."""
        figures = self.figures
        for progress in self.query.recentProgress:
            if progress["batchId"] > figures.batch:
                self._take(progress)
            elif progress["batchId"] == figures.batch:
                # The same again while nothing comes: only the lag may be another one.
                figures.lag = _lag(progress["sources"])
        figures.active = self.query.isActive
        return figures

    def _take(self, progress: Any) -> None:
        figures = self.figures
        figures.batch = progress["batchId"]
        rows = int(progress["numInputRows"])
        figures.lag = _lag(progress["sources"])
        figures.batch_s = progress["batchDuration"] / 1000
        figures.rows_per_s = float(progress["processedRowsPerSecond"] or 0.0)
        figures.batches += 1
        figures.rows += rows
        figures.losses.take(figures.batch, progress["sources"], self._landed_before)


def _lag(sources: Sequence[Any]) -> int | None:
    """How far the last batches end before the newest message, over all sources that tell."""
    lags = []
    for source in sources:
        end, latest = read_positions(source["endOffset"]), read_positions(source["latestOffset"])
        if end is not None and latest is not None:
            at = {name: one.offset for name, one in end.items()}
            lags.append(sum(max(0, one.offset - at.get(name, 0)) for name, one in latest.items()))
    return sum(lags) if lags else None


def _of_compaction(name: str) -> Callable[[Figures], float | None]:
    return lambda one: None if one.compaction is None else getattr(one.compaction, name)


_FAMILIES: tuple[tuple[str, str, str, Callable[[Figures], float | None]], ...] = (
    ("active", "gauge", "Whether the query runs.", lambda one: int(one.active)),
    ("failed", "gauge", "Whether the query ended with an error.", lambda one: int(one.failed)),
    ("batches_total", "counter", "Batches since the job was started.", lambda one: one.batches),
    ("rows_total", "counter", "Messages read since the job was started.", lambda one: one.rows),
    ("rows_per_second", "gauge", "Messages a second in the last batch.", lambda one: one.rows_per_s),
    ("batch_duration_seconds", "gauge", "How long the last batch took.", lambda one: one.batch_s),
    ("last_batch", "gauge", "The number of the last batch.", lambda one: one.batch),
    ("lag_messages", "gauge", "Messages that wait behind the last batch.", lambda one: one.lag),
    (
        "lost_messages_total",
        "counter",
        "Messages that were deleted before they were read, since the job was started.",
        lambda one: one.losses.messages,
    ),
    (
        "lost_streams_total",
        "counter",
        "Streams that were deleted or made anew; how many of their messages were not read is not known.",
        lambda one: len(one.losses.streams),
    ),
    ("compactions_total", "counter", "Compactions that the job has done.", _of_compaction("done")),
    ("compaction_failures_total", "counter", "Those that failed; each is tried again.", _of_compaction("failed")),
    ("compacted_batches_total", "counter", "Batches that were compacted.", _of_compaction("batches")),
    ("compaction_duration_seconds", "gauge", "How long the last compaction took.", _of_compaction("last_s")),
)


def text_of(queries: Sequence[Figures]) -> str:
    """The text format of Prometheus."""
    lines = []
    for name, kind, help_text, figure in _FAMILIES:
        full = f"leveret_pipeline_{name}"
        lines += [f"# HELP {full} {help_text}", f"# TYPE {full} {kind}"]
        for one in queries:
            value = figure(one)
            if value is not None:
                label = one.name.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
                lines.append(f'{full}{{query="{label}"}} {value}')
    return "\n".join(lines) + "\n"


class MetricsPage:
    """GET /metrics, as long as it is entered. Port 0 is any that is free; `port` says which one."""

    def __init__(self, port: int, text: Callable[[], str]) -> None:
        class Page(BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # the name that http.server looks for
                found = self.path.partition("?")[0] in ("/", "/metrics")
                body = text().encode() if found else b"there is /metrics\n"
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", KIND)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Nobody wants a line for each time that Prometheus comes."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Page)
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, name="leveret-metrics", daemon=True)

    def __enter__(self) -> MetricsPage:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
