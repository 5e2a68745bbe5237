"""Who says when a queue's letters are retried: its parameter before its policy before the configuration."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.operations.reprocess.timing import Timing, by_parameter, by_policy, parse_timing

HOURLY = Timing(3600, 86400)


@pytest.mark.parametrize(
    ("text", "timing"),
    [
        ("30min", Timing(1800, 86400)),
        ("30min, 12h", Timing(1800, 43200)),
        ("1h,off", Timing(3600, 0)),
        ("off", Timing(0, 86400)),
    ],
)
def test_the_configuration_names_an_interval_and_perhaps_an_age(text: str, timing: Timing) -> None:
    assert parse_timing(text, HOURLY) == timing


@pytest.mark.parametrize("text", ["", "1", "1h, 2h, 3h", "soon", "1h,", "400d", "10ms"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_timing(text, HOURLY)


@pytest.mark.parametrize(
    ("base", "definition", "timing"),
    [
        (None, {"max-length": 1}, None),
        (HOURLY, {"max-length": 1}, HOURLY),
        (None, {"reprocess-every": "10min"}, Timing(600, 86400, "policy")),
        (HOURLY, {"archive-after": "1h"}, Timing(3600, 3600, "policy")),
        (None, {"archive-after": "1h"}, None),
        (HOURLY, {"reprocess-every": 0}, Timing(0, 86400, "policy")),
        (None, {"reprocess-every": 1500, "archive-after": "off"}, Timing(1.5, 0, "policy")),
        # Of a version that takes it.
        (HOURLY, {"reprocess-every": "1ms"}, HOURLY),
    ],
)
def test_policies(base: Timing | None, definition: dict[str, Any], timing: Timing | None) -> None:
    assert by_policy(base, HOURLY, definition) == timing


def test_a_parameter_makes_a_schedule_or_changes_one() -> None:
    assert by_parameter(None, HOURLY, {}) == Timing(3600, 86400, "parameter")
    assert by_parameter(Timing(600, 60, "policy"), HOURLY, {"archive-after": "2h"}) == Timing(600, 7200, "parameter")
    assert by_parameter(HOURLY, HOURLY, {"every": "off"}) == Timing(0, 86400, "parameter")
    # Of a version that knows more.
    assert by_parameter(HOURLY, HOURLY, {"every": {"cron": "@daily"}}) == Timing(3600, 86400, "parameter")
