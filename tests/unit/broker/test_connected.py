"""How connections are called, and that they are found by that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from leveret.broker.connected import ChannelInfo, connection_name
from tests.unit.broker.people import Line, Town


@pytest.fixture
def town() -> Iterator[Town]:
    made = Town()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("peer", "local", "expected"),
    [
        (("10.0.0.5", 4711), ("10.0.0.1", 5672), "10.0.0.5:4711 -> 10.0.0.1:5672"),
        (("::1", 4711), ("::1", 5672), "[::1]:4711 -> [::1]:5672"),
        (("::ffff:10.0.0.5", 4711), ("::ffff:10.0.0.1", 5672), "10.0.0.5:4711 -> 10.0.0.1:5672"),
    ],
)
def test_a_connection_is_called_by_both_addresses(peer: Any, local: Any, expected: str) -> None:
    assert connection_name(peer, local) == expected


def test_a_channel_is_called_by_its_connection_and_its_number() -> None:
    channel = ChannelInfo(cast(Any, Line("a -> b")), 7, None, "running", 0, 0, False, False, 0, 0, 0, 0, 0)
    assert channel.name == "a -> b (7)"


def test_connections_are_found_by_name_as_long_as_they_are_there(town: Town) -> None:
    line = Line("a -> b")
    town.broker.connected(5, line)
    assert town.broker.connections_named["a -> b"] is line
    town.broker.disconnected(5)
    town.broker.disconnected(5)
    assert town.broker.connections_named == {}


def test_whoever_comes_by_the_same_addresses_later_keeps_the_name(town: Town) -> None:
    """An old connection may be noticed to be gone when its peer is back already."""
    old, new = Line("a -> b"), Line("a -> b")
    town.broker.connected(5, old)
    town.broker.connected(6, new)
    town.broker.disconnected(5)
    assert town.broker.connections_named["a -> b"] is new
