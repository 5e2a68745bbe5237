"""The benchmark's table: medians, ratios, goals."""

from __future__ import annotations

from benchmarks.broker.case import Case, Goal
from benchmarks.broker.cases import CASES
from benchmarks.broker.report import TOLD, goals_missed, ratio, ratios, render, summary

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
    known = {"rate", "cpu_us", "p50_us", "p99_us", "memory_mib", "seconds", "bytes_each", *TOLD}
    cases: list[Case] = list(CASES.values())
    assert {goal.figure for case in cases for part in case.parts() for goal in part.goals} <= known


def test_a_stage_has_a_row_for_each_broker_and_its_own_goals() -> None:
    ours = {
        "fill.rate": 250_000.0,
        "fill.memory_mib": 300.0,
        "fill.messages": 1_000_000.0,
        "killed.seconds": 1.0,
        "restart.seconds": 2.5,
        "drain.rate": 310_000.0,
        "drain.noise": 0.2,
    }
    theirs = {"fill.rate": 10_000.0, "fill.memory_mib": 900.0, "fill.messages": 100_000.0, "drain.rate": 31_000.0}
    results = {"backlog": {"leveret": [ours], "rabbitmq": [theirs]}}
    fill, fill_theirs, restart, _, killed, _, drain, _ = render([CASES["backlog"]], results).splitlines()[2:]
    assert "1,000,000" in fill and "yes, NO" in fill and "100,000" in fill_theirs
    assert "2.500" in restart and "NO" in restart
    assert "1.000" in killed and "yes" in killed
    assert "leveret~" in drain and "10.0x rate" in drain and "leveret~" not in fill
    assert goals_missed([CASES["backlog"]], results) == ["backlog: 250 MiB", "backlog: 2 s"]


def test_memory_and_time_compare_only_for_equal_backlogs() -> None:
    ours = {"rate": 200.0, "memory_mib": 100.0, "messages": 10.0}
    theirs = {"rate": 100.0, "memory_mib": 200.0, "messages": 1.0}
    assert ratio(ours, theirs) == "2.0x rate"
    assert ratio(ours, theirs | {"messages": 10.0}) == "2.0x rate, 1/2.0 memory"


def test_quorum_queues_are_compared_by_their_first_figure() -> None:
    figures = {"rate": 100.0, "cpu_us": 2.0}
    others = {"rabbitmq": {"rate": 50.0, "cpu_us": 4.0}, "rabbitmq-quorum": {"rate": 20.0, "cpu_us": 8.0}}
    assert ratios(figures, others) == "2.0x rate, 1/2.0 CPU; quorum 5.0x rate"
    assert ratios(figures, {}) == ""


def test_a_figure_without_a_column_is_told_for_every_broker() -> None:
    ours = {"rate": 4_000.0, "p50_us": 240.0, "p99_us": 300.0, "sync_us": 160.0, "sync_ratio": 1.5}
    theirs = ours | {"sync_ratio": 2.6}
    lines = render([CASES["window1"]], {"window1": {"leveret": [ours], "rabbitmq": [theirs]}}).splitlines()
    assert "1.50x: yes" in lines[2] and "160" in lines[2]
    assert "2.60x: NO" in lines[3]


def test_a_figure_that_was_not_measured_is_a_dash_and_a_goal_missed() -> None:
    short = {"fill.rate": 1.0, "fill.memory_mib": 1.0, "drain.rate": 1.0}
    results = {"long": {"leveret": [short]}}
    assert render([CASES["long"]], results).splitlines()[3].rstrip(" |").endswith("-")
    assert goals_missed([CASES["long"]], results) == ["long: end 0.8x of start"]
    told = summary(CASES["long"], [short, short | {"drain.end_ratio": 0.9}])
    assert told["drain.end_ratio"] == 0.9
