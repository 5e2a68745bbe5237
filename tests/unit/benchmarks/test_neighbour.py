"""The neighbour benchmark: its table, and that its attacks attack while the decent client is measured."""

from __future__ import annotations

import math
from typing import Any

import pytest

from benchmarks.neighbour.__main__ import ALONE, ATTACKS, chosen_attacks
from benchmarks.neighbour.measure import measure
from benchmarks.neighbour.report import percentile, summary, table

SECONDS, RATE = 1.0, 100
# Light enough for an interpreted broker on a busy machine.
SAMPLE = ("50 busy publishers", "2,000 requests without their body", "4,000 consumers with large arguments")
# Whatever the machine does meanwhile: what comes later than this counts as missing anyway.
LATEST_MS = 25_000


def seen(**more: Any) -> dict[str, Any]:
    nothing: dict[str, Any] = {"round_trips_s": [], "confirms_s": [], "logins_s": [], "health_s": []}
    return {**nothing, "logins_failed": 0, "health_failed": 0, "missing": 0, "died": "", **more}


def row(did: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    counted = {"memory_mib": 99.6, "done": 0, "refused": 0, "unit": ""}
    return {**summary(seen(**more)), **counted, **(did or {})}


def test_percentiles_are_values_that_were_seen() -> None:
    assert percentile([3.0, 1.0, 2.0, 4.0], 0.5) == 2.0
    assert percentile([3.0, 1.0, 2.0, 4.0], 0.99) == 4.0
    assert percentile([7.0], 0.5) == 7.0
    assert math.isnan(percentile([], 0.5))


def test_the_table_tells_what_never_came_and_what_the_attack_did() -> None:
    hurt = row({"done": 1234, "refused": 5, "unit": "requests"}, round_trips_s=[0.001, 2.5], missing=3, logins_failed=1)
    lines = table({ALONE: row(round_trips_s=[0.001]), "x": hurt}, {}).splitlines()
    assert len(lines) == 4
    assert lines[2] == f"| {ALONE} | 1.0 / 1.0 / 1.0 | - / - | - | - | 100 |  |"
    assert (
        lines[3]
        == "| x | 1.0 / 2,500 / 2,500, 3 not received | - / - | -, 1 failed | - | 100 | 1,234 requests, 5 refused |"
    )


def test_an_earlier_run_has_a_column_of_its_own() -> None:
    lines = table({"x": row(round_trips_s=[0.001])}, {"x": row(round_trips_s=[0.1], died="hung up")}).splitlines()
    assert lines[2].startswith("| x | 100 / 100 / 100, then disconnected | 1.0 / 1.0 / 1.0 |")


def test_attacks_are_chosen_by_words() -> None:
    assert next(iter(chosen_attacks([]))) == ALONE
    assert len(chosen_attacks([])) == len(ATTACKS) + 1, "two attacks have the same name"
    assert list(chosen_attacks(["fanout", "peeks"])) == ["fanout to 5,000 queues", "30 unread peeks"]


def test_a_decent_client_alone_gets_every_message() -> None:
    figures = measure(None, SECONDS, RATE)
    assert (figures["missing"], figures["died"], figures["done"]) == (0, "", 0)
    assert 0 < figures["round_trip_p50_ms"] <= figures["round_trip_max_ms"] < LATEST_MS
    assert 0 < figures["confirm_max_ms"] < LATEST_MS
    assert (figures["logins_failed"], figures["health_failed"]) == (0, 0)
    assert figures["memory_mib"] > 10


@pytest.mark.parametrize("name", SAMPLE)
def test_the_attack_is_carried_out_and_the_decent_client_measured(name: str) -> None:
    attack = chosen_attacks([name])[name]
    assert attack is not None
    figures = measure(attack, SECONDS, RATE)
    assert figures["done"] > 0
    assert (figures["missing"], figures["died"]) == (0, "")
    assert 0 < figures["round_trip_p50_ms"] <= figures["round_trip_max_ms"] < LATEST_MS
