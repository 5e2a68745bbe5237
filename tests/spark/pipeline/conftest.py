"""Jobs look at all that a broker has: each of their tests has one of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from leveret.testing import Broker


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running
