"""Back-off: pauses between attempts that double from one failure to the next, up to a longest one.

The only place that says so. Reads no clock and rolls no dice: `spread` is the caller's random number from 0 to 1."""

from __future__ import annotations

__all__ = ["backoff_s", "spread_s"]

# 2 ** 30 seconds are longer than any pause, and a float does not overflow.
DOUBLINGS_MAX = 30


def backoff_s(first_s: float, longest_s: float, failures: int) -> float:
    """The pause after so many failures in a row, the first of which is number 1."""
    doublings = min(max(failures - 1, 0), DOUBLINGS_MAX)
    return float(min(longest_s, first_s * 2.0**doublings))


def spread_s(pause_s: float, spread: float) -> float:
    """Between half of the pause and all of it, so that many clients do not come back at once."""
    return pause_s * (0.5 + spread / 2)
