"""How the report says numbers: milliseconds, sizes and spans as people read them."""

from __future__ import annotations

from datetime import timedelta

__all__ = ["NOTHING", "milliseconds", "per", "size"]

NOTHING = "\N{EN DASH}"


def milliseconds(value: float | None) -> str:
    if value is None:
        return NOTHING
    if value >= 10_000:
        return f"{value / 1000:.1f} s"
    return f"{value:,.0f} ms" if value >= 10 or value == 0 else f"{value:.1f} ms"


def size(octets: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if abs(octets) < 1000:
            is_whole = unit == "B" or octets >= 100
            return (f"{octets:.0f}" if is_whole else f"{octets:.1f}".removesuffix(".0")) + f" {unit}"
        octets /= 1000
    return f"{octets:.1f} TB"


def per(step: timedelta) -> str:
    """Of a plot's title: messages a minute, messages every 10 minutes."""
    minutes = int(step.total_seconds() // 60)
    if minutes in (1, 60):
        return "a minute" if minutes == 1 else "an hour"
    return f"every {minutes} minutes" if minutes < 60 else f"every {minutes // 60} hours"
