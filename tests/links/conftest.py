"""Brokers for the tests of links."""

from collections.abc import Iterator

import pytest

from leveret.testing import Broker
from tests.links.shovel_scene import Scene


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with Broker() as broker:
        yield Scene(broker)


@pytest.fixture(scope="module")
def other() -> Iterator[Scene]:
    """Another broker."""
    with Broker() as broker:
        yield Scene(broker)
