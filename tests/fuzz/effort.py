"""How hard these tests look: few examples by default, many more when asked.

LEVERET_HYPOTHESIS_PROFILE=long, or the profile that `make fuzz` sets, multiplies every number of examples."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, settings

LONG_FACTOR = 20


def is_long() -> bool:
    return os.environ.get("LEVERET_HYPOTHESIS_PROFILE") == "long" or os.environ.get("HYPOTHESIS_PROFILE", "") == "fuzz"


def scaled(count: int) -> int:
    return count * LONG_FACTOR if is_long() else count


def effort(examples: int, **more: Any) -> settings:
    """Settings with so many examples, scaled. A failure prints the blob that replays it."""
    return settings(
        max_examples=scaled(examples),
        deadline=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
        **more,
    )
