"""Limits of consumers: of a channel, a connection and a user; and of what their arguments take."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.auth.consumer_limits import ConsumerLimits
from leveret.auth.node_limits import NodeLimits
from leveret.errors import HardError, SoftError


def limits_of(**settings: Any) -> ConsumerLimits:
    node = NodeLimits(**settings)
    return ConsumerLimits(lambda: node)


def test_a_channel_has_as_many_as_it_may_in_rabbitmqs_words() -> None:
    limits = limits_of(consumers_per_channel_max=2)
    limits.take(1, "ann", 0, on_channel=1)
    with pytest.raises(HardError) as refusal:
        limits.take(1, "ann", 0, on_channel=2)
    assert (refusal.value.code, refusal.value.text) == (530, "reached maximum (2) of consumers per channel")


def test_a_connection_has_as_many_as_it_may_over_all_channels() -> None:
    limits = limits_of(consumers_per_connection_max=2)
    limits.take(1, "ann", 0)
    limits.take(1, "ann", 0)
    with pytest.raises(SoftError, match=r"reached maximum \(2\) of consumers per connection"):
        limits.take(1, "ann", 0)
    limits.take(2, "ann", 0)
    limits.leave(1, "ann", 0)
    limits.take(1, "ann", 0)


def test_a_user_has_as_many_as_it_may_over_all_connections() -> None:
    limits = limits_of(consumers_per_user_max=2)
    limits.take(1, "ann", 0)
    limits.take(2, "ann", 0)
    with pytest.raises(SoftError, match="of consumers of user 'ann'"):
        limits.take(3, "ann", 0)
    limits.take(3, "bob", 0)


def test_arguments_of_one_and_of_all_consumers_of_a_user_are_bounded() -> None:
    limits = limits_of(arguments_bytes_max=100, consumer_arguments_bytes_max=250)
    with pytest.raises(SoftError, match="arguments of 101 bytes are larger than configured max size 100"):
        limits.take(1, "ann", 101)
    limits.take(1, "ann", 100)
    limits.take(2, "ann", 100)
    with pytest.raises(SoftError, match=r"reached maximum \(250\) of bytes in arguments"):
        limits.take(3, "ann", 100)
    limits.take(3, "bob", 100)
    limits.leave(2, "ann", 100)
    limits.take(3, "ann", 100)
    assert limits.argument_bytes_of_user("ann") == 200


def test_whoever_was_refused_has_taken_no_place_and_nothing_is_left_behind() -> None:
    limits = limits_of(consumers_per_user_max=1, consumer_arguments_bytes_max=10)
    for _ in range(3):
        with pytest.raises(SoftError):
            limits.take(1, "ann", 11)
    limits.take(1, "ann", 10)
    limits.leave(1, "ann", 10)
    assert limits.of_user("ann") == limits.argument_bytes_of_user("ann") == 0
    limits.take(1, "ann", 10)


def test_zero_is_no_limit() -> None:
    limits = limits_of(
        consumers_per_channel_max=0,
        consumers_per_connection_max=0,
        consumers_per_user_max=0,
        arguments_bytes_max=0,
        consumer_arguments_bytes_max=0,
    )
    for number in range(1000):
        limits.take(1, "ann", 1 << 30, on_channel=number)
