"""The x-message-deduplication type: a fanout that must be told how many keys to remember."""

from __future__ import annotations

import pytest

from leveret.core.matching.matcher import FanoutMatcher
from leveret.errors import SoftError
from leveret.routing.registry import exchange_type

DEDUPLICATING = exchange_type("x-message-deduplication")


def test_it_routes_to_everybody() -> None:
    matcher = DEDUPLICATING.matcher({"x-cache-size": 5}, lambda count: 0)
    assert type(matcher) is FanoutMatcher


def test_it_must_be_told_its_size() -> None:
    DEDUPLICATING.validate_arguments({"x-cache-size": 5, "x-cache-ttl": 1000})
    with pytest.raises(SoftError) as refused:
        DEDUPLICATING.validate_arguments({"x-cache-ttl": 1000}, "exchange 'x' in vhost '/'")
    assert refused.value.code == 406
    assert refused.value.text == "missing argument 'x-cache-size' for exchange 'x' in vhost '/'"
