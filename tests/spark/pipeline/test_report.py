"""The report's page: whole without any tables, closed to the outside, and safe with whatever messages hold."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install leveret[spark]")

from pyspark.sql import SparkSession

from leveret.spark.pipeline.lake import Lake
from leveret.spark.pipeline.reporting import plots
from leveret.spark.pipeline.reporting.plots import Mark, Series
from leveret.spark.pipeline.reporting.report import write_report
from leveret.spark.pipeline.reporting.report_page import Figures, render
from leveret.spark.pipeline.reporting.report_words import NOTHING, milliseconds, per, size

DAY = datetime(2026, 11, 16, tzinfo=UTC)
STEP = timedelta(minutes=10)
EVIL = "<script>alert(1)</script>\"'&"
VOID = {"meta", "link", "br", "img", "input"}


class Balanced(HTMLParser):
    """Fails if a tag is closed that is not open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def figures() -> Figures:
    times = [DAY + at * STEP for at in range(6)]
    letters = {"at": DAY, "queue": EVIL, "reason": "rejected", "letters": 30, "before": 2, "growth": 15.0}
    cluster = {
        "letters": 3, "reason": "expired", "queue": "q", "error": EVIL, "shape": None,
        "first_seen": DAY, "last_seen": DAY, "example_message_id": EVIL,
    }  # fmt: skip
    return Figures(
        lake="/lake", made_at=DAY, start=DAY, end=DAY + 6 * STEP, step=STEP, times=times,
        keys={EVIL: [1, 2, 3, 0, 5, 6]}, octets=[10, 20, 30, 0, 50, 6000],
        latencies={"p50": [1.0, None, 3.0, 4.0, None, 6.0], "p95": [2.0] * 6, "p99": [9.0] * 6},
        messages=17, latency_all={"p50": 3.0, "p99": 9.0}, top_keys=[("", EVIL, 17)], tenants=[(EVIL, 17, 100)],
        death_times=times, deaths={"rejected": [0, 1, 0, 0, 0, 30]}, death_queues=[(EVIL, 31, 2)],
        clusters=[cluster], alerts=[letters], quarantined=4,
    )  # fmt: skip


def check_page(page: str) -> Balanced:
    parser = Balanced()
    parser.feed(page)
    assert parser.open == []
    assert parser.seen.isdisjoint({"script", "link", "img", "iframe"})
    assert re.findall(r"https?://|url\(|@import", page) == []
    for drawing in re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL):
        ElementTree.fromstring(drawing)
    return parser


def test_what_messages_hold_is_text_on_the_page() -> None:
    page = render(figures())
    check_page(page)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "30 rejected in" in page, "an alert is marked in the plot"


def test_a_lake_without_tables_gives_a_page_that_says_what_to_do(spark: SparkSession, lake: Lake) -> None:
    path = write_report(spark, lake)
    page = path.read_text("utf-8")
    assert str(path).endswith("reports/report.html")
    assert "svg" not in check_page(page).seen
    assert "leveret pipeline analytics" in page
    assert "leveret pipeline deadletters" in page


def test_a_column_is_as_high_as_its_values() -> None:
    drawn = plots.columns_over_time(
        [DAY, DAY + STEP],
        STEP,
        [Series("a", [10, 40], "--blue"), Series("b", [10, 0], "--red")],
        marks=[Mark(DAY + STEP, "now"), Mark(DAY - STEP, "never")],
    )
    heights = [float(height) for height in re.findall(r'height="([\d.]+)" fill="var', drawn)]
    assert heights[0] == heights[1] == pytest.approx(heights[2] / 4, abs=0.1)
    assert ("now" in drawn, "never" in drawn) == (True, False)
    assert "all: 20" in drawn


def test_a_line_has_gaps_where_nothing_is_known() -> None:
    times = [DAY + at * STEP for at in range(5)]
    drawn = plots.lines_over_time(times, STEP, [Series("p50", [1, 2, None, 4, 5], "--blue")])
    assert drawn.count("<polyline") == 2


def test_a_plot_of_nothing_is_drawn() -> None:
    for draw in (plots.columns_over_time, plots.lines_over_time):
        ElementTree.fromstring(draw([DAY], STEP, [Series("a", [0], "--blue")]))


@pytest.mark.parametrize(
    ("value", "said"),
    [(0, "0"), (7, "7"), (7.25, "7.2"), (0.034, "0.034"), (1234, "1,234"), (12_300, "12.3k"), (4_000_000, "4M")],
)
def test_numbers(value: float, said: str) -> None:
    assert plots.number(value) == said


def test_words() -> None:
    assert [milliseconds(value) for value in (None, 0, 1.23, 250, 12_345)] == [
        NOTHING,
        "0 ms",
        "1.2 ms",
        "250 ms",
        "12.3 s",
    ]
    assert [size(value) for value in (0, 999, 1500, 250_000, 3e12)] == ["0 B", "999 B", "1.5 KB", "250 KB", "3.0 TB"]
    assert [per(timedelta(minutes=minutes)) for minutes in (1, 10, 60, 120)] == [
        "a minute",
        "every 10 minutes",
        "an hour",
        "every 2 hours",
    ]
