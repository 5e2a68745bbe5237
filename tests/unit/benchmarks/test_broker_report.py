"""The benchmark's table: medians, ratios, goals."""

from __future__ import annotations

from benchmarks.broker.cases import CASES, Case, Goal
from benchmarks.broker.report import goals_missed, ratio, render, summary

SMALL = CASES["small"]


def test_the_median_counts_except_where_the_smallest_does() -> None:
    start = CASES["start"]
    runs = [
        {"seconds": 0.3, "memory_mib": 40.0},
        {"seconds": 0.2, "memory_mib": 44.0},
        {"seconds": 0.9, "memory_mib": 41.0},
    ]
    assert summary(start, runs) == {"seconds": 0.2, "memory_mib": 41.0}


def test_a_goal_bounds_from_the_right_side() -> None:
    assert Goal("rate", 10, "", at_least=True).reached({"rate": 10})
    assert not Goal("rate", 10, "", at_least=True).reached({"rate": 9})
    assert Goal("cpu_us", 10, "").reached({"cpu_us": 10})
    assert not Goal("cpu_us", 10, "").reached({"cpu_us": 11})


def test_ratios_say_how_much_more_and_how_much_less() -> None:
    ours = {"rate": 2_000_000.0, "cpu_us": 0.4}
    theirs = {"rate": 80_000.0, "cpu_us": 20.0}
    assert ratio(ours, theirs) == "25.0x rate, 1/50.0 CPU"
    assert ratio({"seconds": 0.5}, {"seconds": 5.0}) == "1/10.0 time"
    assert ratio({"seconds": 0.5, "memory_mib": 300}, {"seconds": 5.0, "memory_mib": 100}) == "1/10.0 time, 3.0x memory"


def test_the_table_names_what_is_reached_and_what_is_not() -> None:
    ours = [{"rate": 2_500_000.0, "cpu_us": 0.5, "noise": 0.5}]
    theirs = [{"rate": 100_000.0, "cpu_us": 20.0, "noise": 0.0}]
    results = {"small": {"leveret": ours, "rabbitmq": theirs}}
    lines = render([SMALL], results).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert "leveret~" in lines[2] and "2,500,000" in lines[2] and "yes, NO" in lines[2]
    assert "25.0x rate, 1/40.0 CPU" in lines[2]
    assert "100,000" in lines[3] and "yes" not in lines[3]
    assert goals_missed([SMALL], results) == ["small: 0.4 us"]


def test_a_run_without_leveret_or_without_rabbitmq_is_a_table_too() -> None:
    for peer in ("leveret", "rabbitmq"):
        table = render([SMALL], {"small": {peer: [{"rate": 1.0, "cpu_us": 1.0}]}})
        assert peer in table.splitlines()[2]


def test_every_goal_names_a_figure_that_some_column_or_verdict_shows() -> None:
    known = {"rate", "cpu_us", "p50_us", "p99_us", "memory_mib", "seconds", "bytes_each", "cost_ratio"}
    cases: list[Case] = list(CASES.values())
    assert {goal.figure for case in cases for goal in case.goals} <= known
