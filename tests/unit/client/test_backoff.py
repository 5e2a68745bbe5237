"""Pauses double up to the longest one, and are spread over their upper half."""

from __future__ import annotations

import pytest

from leveret.client.backoff import backoff_s, spread_s


def test_pauses_double_up_to_the_longest() -> None:
    assert [backoff_s(0.5, 5, failures) for failures in range(1, 7)] == [0.5, 1, 2, 4, 5, 5]


def test_the_first_pause_is_never_longer_than_the_longest() -> None:
    assert backoff_s(10, 3, 1) == 3


@pytest.mark.parametrize("failures", [10_000, 10**12])
def test_any_number_of_failures_can_be_counted(failures: int) -> None:
    assert backoff_s(0.1, 60, failures) == 60


def test_before_the_first_failure_it_is_the_first_pause() -> None:
    assert backoff_s(0.5, 5, 0) == 0.5


def test_a_pause_is_spread_over_its_upper_half() -> None:
    assert [spread_s(8, spread) for spread in (0, 0.5, 1)] == [4, 6, 8]
