"""The table: percentiles of what the decent client saw, beside an earlier run's. Pure text from figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

Figures = Mapping[str, Any]

COLUMNS = (
    "attack",
    "round trip p50 / p99 / max ms",
    "durable confirm p99 / max ms",
    "new login, worst ms",
    "/health, worst ms",
    "memory MiB",
    "volume of the attack",
)


def percentile(values: Sequence[float], part: float) -> float:
    """The smallest value that this part of all values does not exceed; NaN if there is none."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]


def summary(seen: Mapping[str, Any]) -> dict[str, Any]:
    """The figures that the table and --json have, of the lists that the decent client gives."""
    return {
        "round_trip_p50_ms": 1000 * percentile(seen["round_trips_s"], 0.5),
        "round_trip_p99_ms": 1000 * percentile(seen["round_trips_s"], 0.99),
        "round_trip_max_ms": 1000 * percentile(seen["round_trips_s"], 1),
        "confirm_p99_ms": 1000 * percentile(seen["confirms_s"], 0.99),
        "confirm_max_ms": 1000 * percentile(seen["confirms_s"], 1),
        "login_max_ms": 1000 * percentile(seen["logins_s"], 1),
        "logins_failed": seen["logins_failed"],
        "health_max_ms": 1000 * percentile(seen["health_s"], 1),
        "health_failed": seen["health_failed"],
        "missing": seen["missing"],
        "died": seen["died"],
    }


def table(results: Mapping[str, Figures], before: Mapping[str, Figures]) -> str:
    """Markdown. With an earlier run's figures, its round trips stand in a column of their own."""
    columns = list(COLUMNS)
    if before:
        columns.insert(1, "before: round trip p50 / p99 / max ms")
    rows = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for name, figures in results.items():
        cells = [name, round_trip(figures), *_rest(figures)]
        if before:
            cells.insert(1, round_trip(before[name]) if name in before else "")
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def round_trip(figures: Figures) -> str:
    text = " / ".join(_ms(figures[f"round_trip_{part}_ms"]) for part in ("p50", "p99", "max"))
    if figures["died"]:
        return f"{text}, then disconnected"
    return f"{text}, {figures['missing']:,} not received" if figures["missing"] else text


def _rest(figures: Figures) -> list[str]:
    did = "" if not figures["unit"] else f"{figures['done']:,} {figures['unit']}"
    if figures["refused"]:
        did += f", {figures['refused']:,} refused"
    return [
        f"{_ms(figures['confirm_p99_ms'])} / {_ms(figures['confirm_max_ms'])}",
        _worst(figures["login_max_ms"], figures["logins_failed"]),
        _worst(figures["health_max_ms"], figures["health_failed"]),
        f"{figures['memory_mib']:,.0f}",
        did,
    ]


def _worst(longest_ms: float, failed: int) -> str:
    return _ms(longest_ms) + (f", {failed} failed" if failed else "")


def _ms(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:.1f}" if value < 10 else f"{value:,.0f}"
