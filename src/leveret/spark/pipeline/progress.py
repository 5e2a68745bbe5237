"""How far jobs are, for the person in front of the terminal: a table that changes in place, or lines where there is no
terminal. Only shows what it is given."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from leveret.spark.pipeline.archive.replay import ReplayProgress
from leveret.spark.pipeline.job_metrics import Figures

__all__ = ["QueryProgress", "show_replay"]

# Between lines, where there is no terminal.
LINE_S = 5.0


class QueryProgress:
    """Shows queries as long as it is entered. On stderr: what a job prints goes to stdout."""

    def __init__(self, title: str, file: TextIO | None = None, line_s: float = LINE_S) -> None:
        self._title = title
        self._console = Console(file=file or sys.stderr, highlight=False)
        self._live: Live | None = None
        self._line_s = line_s
        self._line_at = 0.0
        self._shown: dict[str, int] = {}

    def __enter__(self) -> QueryProgress:
        if self._console.is_terminal:
            self._live = Live(console=self._console, refresh_per_second=4, transient=False)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def show(self, queries: Sequence[Figures], last: bool = False) -> None:
        if self._live is not None:
            self._live.update(self._table(queries))
        elif last or time.monotonic() - self._line_at >= self._line_s:
            self._line_at = time.monotonic()
            for one in queries:
                if last or self._shown.get(one.name) != one.batch:
                    self._shown[one.name] = one.batch
                    self.say(line_of(one))

    def say(self, text: str) -> None:
        """A line above the table."""
        self._console.print(f"{self._title}: {text}", markup=False, soft_wrap=True)

    def _table(self, queries: Sequence[Figures]) -> Table:
        table = Table(title=self._title, title_justify="left")
        table.add_column("query")
        for name in ("batch", "rows", "rows/s", "lag", "lost", "batch took"):
            table.add_column(name, justify="right")
        table.add_column("state")
        for one in queries:
            batch = "-" if one.batch < 0 else str(one.batch)
            lost = _lost_of(one) or "0"
            figures = (f"{one.rows:,}", f"{one.rows_per_s:,.0f}", _lag_of(one), lost, f"{one.batch_s:.1f} s")
            table.add_row(one.name, batch, *figures, state_of(one))
        return table


def line_of(one: Figures) -> str:
    if one.batch < 0:
        return f"{one.name}: {state_of(one)}, no batch yet"
    speed = f"{one.rows:,} rows, {one.rows_per_s:,.0f} rows/s, lag {_lag_of(one)}"
    if lost := _lost_of(one):
        speed += f", {lost} lost"
    return f"{one.name}: {state_of(one)}, batch {one.batch}, {speed}, the batch took {one.batch_s:.1f} s"


def state_of(one: Figures) -> str:
    return "failed" if one.failed else "running" if one.active else "ended"


def _lag_of(one: Figures) -> str:
    return "-" if one.lag is None else f"{one.lag:,}"


def _lost_of(one: Figures) -> str:
    """Empty if nothing was; with a plus if there is more than can be counted."""
    found = one.losses
    return f"{found.messages:,}{'+' if found.streams else ''}" if found.messages or found.streams else ""


def show_replay(file: TextIO | None = None) -> tuple[Progress, Callable[[ReplayProgress], None]]:
    """A bar for replay(): `bar, tell = show_replay()`, `with bar: replay(..., on_progress=tell)`."""
    console = Console(file=file or sys.stderr, highlight=False)
    columns = (
        TextColumn("replay {task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
    )
    bar = Progress(*columns, TextColumn("{task.fields[rate]:,.0f}/s"), TimeRemainingColumn(), console=console)
    task = bar.add_task("", total=None, rate=0.0, visible=False)
    line_at = 0.0

    def tell(progress: ReplayProgress) -> None:
        nonlocal line_at
        bar.update(
            task,
            description=progress.replay_id,
            total=progress.selected,
            completed=progress.published,
            rate=progress.rate,
            visible=console.is_terminal,
        )
        is_last = progress.published == progress.selected
        if not console.is_terminal and (is_last or time.monotonic() - line_at >= LINE_S):
            line_at = time.monotonic()
            text = f"{progress.published:,} of {progress.selected:,} messages, {progress.rate:,.0f}/s"
            console.print(f"replay {progress.replay_id}: {text}", markup=False, soft_wrap=True)

    return bar, tell
